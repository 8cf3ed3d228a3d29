"""An answer as text for a terminal, and as Markdown for an issue."""

import re
from collections.abc import Iterator

from tracegen.errors import escape_controls
from views.answer import Answer, DoubtLine, Figure, Table
from views.numbers import format_alike, format_plain, format_ratio, get_unit_word
from views.tables import align, find_numeric, list_cells, list_shown


def split_figure(figure: Figure) -> tuple[str, str, str]:
    """Return a figure's value, empty if it was not measured, its unit, and the remarks on it."""
    unit = get_unit_word(figure.unit)
    if figure.text or figure.value is None:
        return figure.text, unit, figure.note
    more = "> " if figure.is_more_than else ""
    shown, ends = _show_interval(figure.value, figure)
    return more + shown, unit, ", ".join(filter(None, (ends and f"95% interval {ends}", figure.note)))


def _show_interval(value: float, figure: Figure) -> tuple[str, str]:
    """Return a value and its interval, which is empty if its ends look alike."""
    if figure.low is None or figure.high is None:
        return format_plain(value, figure.unit), ""
    if figure.unit == "ratio":
        return format_ratio(value, figure.low, figure.high)
    shown, low, high = format_alike([value, figure.low, figure.high], figure.unit)
    return shown, "" if low == high else f"{low} to {high}"


def list_figure(figure: Figure) -> tuple[str, str, str]:
    """Return a figure as its label, its value with the unit, and the remarks on it."""
    value, unit, remarks = split_figure(figure)
    return figure.label, f"{value} {unit}".strip() if value else "not measured", remarks


def render_text(answer: Answer) -> str:
    """Return an answer as text, whose last lines are the sentence and the next steps."""
    return escape_controls("\n".join(_list_lines(answer))) + "\n"


def _list_lines(answer: Answer) -> Iterator[str]:
    yield answer.title
    yield from (f"  {line}" for line in answer.subject)
    if answer.figures:
        figures = [list_figure(figure) for figure in answer.figures]
        yield from ("", *(f"  {line}" for line in align(figures, (False, True, False))))
    for table in list_shown(answer):
        yield from ("", table.title)
        lines = align(list_cells(table), find_numeric(table), table.marked)
        yield from (f"  {line}" for line in (*lines, *table.notes))
    if answer.doubts:
        yield ""
    yield from map(_describe_doubt, answer.doubts)
    yield ""
    yield f"{answer.state}: {answer.sentence}" if answer.state else answer.sentence
    yield from (f"next: {step}" for step in answer.next)


def _describe_doubt(doubt: DoubtLine) -> str:
    head = "INVALID" if doubt.invalidates else "doubt"
    runs = f" ({doubt.runs})" if doubt.runs else ""
    return f"{head}: {doubt.headline}{runs}: {doubt.text}; {doubt.advice}"


def render_markdown(answer: Answer) -> str:
    """Return an answer as Markdown."""
    title, sentence, *subject = map(escape_markdown, (answer.title, answer.sentence, *answer.subject))
    state = f"**{answer.state}** " if answer.state else ""
    head = (f"## {title}", "", *(f"{line}  " for line in subject), "", f"{state}{sentence}", "")
    return "\n".join([*head, *_list_markdown(answer)]) + "\n"


def _list_markdown(answer: Answer) -> Iterator[str]:
    for figure in answer.figures:
        label, value, remarks = map(escape_markdown, list_figure(figure))
        yield f"- {label}: **{value}** ({remarks})" if remarks else f"- {label}: **{value}**"
    yield from ("", *map(_write_doubt, answer.doubts))
    for table in list_shown(answer):
        yield from ("", f"**{escape_markdown(table.title)}**", "", *list_markdown_table(table), "")
        yield from (f"- {escape_markdown(note)}" for note in table.notes)
    yield from (f"- Next: `{step}`" for step in answer.next)


def _write_doubt(doubt: DoubtLine) -> str:
    head = "**Invalidates**" if doubt.invalidates else "Doubt"
    runs = f" ({escape_markdown(doubt.runs)})" if doubt.runs else ""
    return f"- {head}: {doubt.headline}{runs}: {escape_markdown(doubt.text)}. *{escape_markdown(doubt.advice)}.*"


def list_markdown_table(table: Table) -> list[str]:
    """Return a table as lines of Markdown."""
    head, *rows = [[escape_markdown(cell) for cell in row] for row in list_cells(table)]
    rule = ["---:" if is_right else "---" for is_right in find_numeric(table)]
    return [f"| {' | '.join(head)} |", f"|{'|'.join(rule)}|", *(f"| {' | '.join(row)} |" for row in rows)]


def escape_markdown(text: str) -> str:
    """Escape the characters of a text that Markdown interprets."""
    return re.sub(r"([\\|`*_<>\[\]#])", r"\\\1", " ".join(escape_controls(text).split()))
