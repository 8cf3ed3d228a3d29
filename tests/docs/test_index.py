"""The order of the docs: a person's questions, each with its pages."""

import re

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
QUESTIONS = ("Which drive?", "How much memory?", "Which policy?", "Is it worth it?", "Will it wear?", "My own log?",
             "Eight hosts?", "Submit?")  # fmt: skip
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^- \[.+?\]\(([\w.-]+)\): .+$", section, re.M)
    for section in (DOCS / "index.md").read_text().split("\n## ")[1:]
}
LISTED = [page for pages in SECTIONS.values() for page in pages]


def test_the_index_has_the_questions_in_order_and_every_page_once() -> None:
    assert [title for title in SECTIONS if title.endswith("?")] == list(QUESTIONS)
    assert sorted(LISTED) == sorted(path.name for path in DOCS.glob("*.[mi][dp]*") if path.name != "index.md")


def test_the_readme_asks_the_same_questions_and_names_the_same_pages() -> None:
    text = (ROOT / "README.md").read_text().partition("## Documentation")[2]
    asked = re.findall(r"\*\*\[(.+?\?)\]\(docs/([\w.-]+)\)\*\*", text)
    assert asked == [(question, SECTIONS[question][0]) for question in QUESTIONS]
    assert set(re.findall(r"\]\(docs/([\w.-]+)\)", text)) <= {"index.md", *LISTED}
