"""The order of the docs: a person's questions, each answered by a page that begins with the command."""

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
QUESTIONS = ("Which drive?", "How much memory?", "Which policy?", "Is it worth it?", "Will it wear?", "My own log?",
             "Eight hosts?", "Submit?")  # fmt: skip
SECTIONS = {
    section.partition("\n")[0]: re.findall(r"^- \[.+?\]\(([\w.-]+)\): .+$", section, re.M)
    for section in (DOCS / "index.md").read_text().split("\n## ")[1:]
}
ANSWERS = [SECTIONS[question][0] for question in QUESTIONS]
"""The first page of each question."""

ENDS_WITH_PICTURE = (
    *("what-if.md", "sizing.md", "why.md", "policies.md", "wear.md", "your-own-log.md"),
    *("many-hosts.md", "simulating.md", "load-curve.md", "two-drives.md", "comparing.md"),
    "reporting.md",
)


def test_the_index_has_the_questions_in_order_and_every_page_once() -> None:
    assert [title for title in SECTIONS if title.endswith("?")] == list(QUESTIONS)
    listed = [page for pages in SECTIONS.values() for page in pages]
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("*.[mi][dp]*") if path.name != "index.md")


def test_the_readme_asks_the_same_questions_and_names_the_same_pages() -> None:
    text = (ROOT / "README.md").read_text().partition("## Documentation")[2]
    asked = re.findall(r"\*\*\[(.+?\?)\]\(docs/([\w.-]+)\)\*\*", text)
    assert asked == list(zip(QUESTIONS, ANSWERS, strict=True))
    assert set(re.findall(r"\]\(docs/([\w.-]+)\)", text)) - {"index.md"} <= {
        p for all_ in SECTIONS.values() for p in all_
    }


def command_line(page: Path) -> int:
    """The number of the line on which the first block of code begins."""
    lines = page.read_text().splitlines()
    return next(
        (n for n, line in enumerate(lines, 1) if re.match(r"    (tracegen|replayer|analysis|make) ", line)), 999
    )


@pytest.mark.parametrize("page", [page for question in QUESTIONS for page in SECTIONS[question]])
def test_a_page_that_answers_begins_with_the_command(page: str) -> None:
    assert command_line(DOCS / page) <= 15


@pytest.mark.parametrize("page", ENDS_WITH_PICTURE)
def test_it_ends_with_the_picture(page: str) -> None:
    last = (DOCS / page).read_text().split("\n## ")[-1]
    assert re.search(r"!\[[^\]]{30,}\]\([\w-]+\.(svg|png)\)", last), "no picture whose text says what one sees"
