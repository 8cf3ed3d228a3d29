"""Settings of the site that `make docs` builds from these pages.

The pages are plain Markdown, as GitHub shows it. The sidebar is made from the lists of index.md: a
section is a heading, a linked page an entry. A page that index.md does not link fails the build.
Links that GitHub shows as a file's name have the entry's name on the site.
"""

import json
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project = "kv-tier-bench"
html_title = project
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
myst_heading_anchors = 3
smartquotes = False  # they would turn the two hyphens of a flag into a dash
highlight_language = "none"  # indented blocks mix commands with what they print
pygments_dark_style = "github-dark"

html_theme = "furo"  # colours and widths: those of the report
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0066aa",
        "color-brand-content": "#0066aa",
        "color-foreground-primary": "#1d2330",
        "color-code-background": "#f4f5f7",
        "color-background-border": "#e4e7eb",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5cb3f0",
        "color-brand-content": "#5cb3f0",
        "color-foreground-primary": "#e7eaf0",
        "color-background-primary": "#14181f",
        "color-background-secondary": "#1a1f28",
        "color-code-background": "#1d232d",
        "color-background-border": "#333a47",
    },
}

ENTRY = re.compile(r"^- \[(.+?)\]\(([\w-]+)\.\w+\)", re.M)
NAMES = {page: text for text, page in ENTRY.findall((Path(__file__).parent / "index.md").read_text())}


def setup(app: Sphinx) -> None:
    """Connect what turns files into pages."""
    app.connect("source-read", read_page)


def read_page(_app: Sphinx, name: str, content: list[str]) -> None:
    """Turn a notebook into Markdown, name links, and append the sidebar to the index."""
    text = content[0]
    if text.startswith("{"):
        text = "\n\n".join(part for cell in json.loads(text)["cells"] for part in describe_cell(cell))
    if name == "index":
        text = "\n\n".join([text, *list_contents(text)])
    content[0] = re.sub(r"\[([\w-]+)\.(?:md|ipynb)\]\(", lambda link: f"[{NAMES.get(link[1], link[1])}](", text)


def list_contents(index: str) -> list[str]:
    """Give a hidden table of contents for each section of the index."""
    tables = []
    for section in index.split("\n## ")[1:]:
        caption = section.partition("\n")[0]
        entries = [f"{text} <{page}>" for text, page in ENTRY.findall(section)]
        tables.append("\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *entries, "```"]))
    return tables


def describe_cell(cell: dict[str, Any]) -> list[str]:
    """Give a cell of a notebook, and what it printed, as Markdown."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    language = "none" if source.startswith("!") else "python"
    parts = [f"```{language}\n{source}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            parts.append(f"![{cell['metadata']['alt']}](data:image/png;base64,{data['image/png'].strip()})")
        else:
            text = "".join(output.get("text", data.get("text/plain", "")))
            parts.append(f"```{{code-block}} none\n:class: output\n\n{text.rstrip()}\n```")
    return parts
