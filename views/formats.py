"""The formats of an answer, by the suffix of their files."""

from collections.abc import Callable
from typing import Final

from views.answer import Answer
from views.exports import render_csv, render_json
from views.text import render_markdown, render_text


def _render_html(answer: Answer) -> str:
    from views.page import render_page  # noqa: PLC0415 (loading the renderer takes half a second)

    return render_page(answer)


FORMATS: Final[dict[str, Callable[[Answer], str]]] = {
    "txt": render_text,
    "md": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "html": _render_html,
}
