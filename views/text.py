"""An answer as text for a terminal, and as Markdown for an issue."""

from collections.abc import Iterator

from tracegen.errors import escape_controls
from views.answer import Answer, Figure, Table
from views.numbers import format_alike, format_value, get_unit_word
from views.tables import align, align_table, find_numeric, list_cells


def list_figure(figure: Figure) -> tuple[str, str, str]:
    """Return a figure as its label, its value with the unit, and the remarks on it."""
    low, high = figure.low, figure.high
    more = "> " if figure.is_more_than else ""
    if low is None or high is None:
        return figure.label, more + format_value(figure.value, figure.unit), figure.note
    shown, *ends = format_alike([figure.value, low, high], figure.unit)
    value = f"{more}{shown} {get_unit_word(figure.unit)}".strip()
    remarks = [f"95% interval {ends[0]} to {ends[1]}", figure.note]
    return figure.label, value, ", ".join(filter(None, remarks))


def render_text(answer: Answer) -> str:
    """Return an answer as text, whose last lines are the sentence and the next steps."""
    return escape_controls("\n".join(_list_lines(answer))) + "\n"


def _list_lines(answer: Answer) -> Iterator[str]:
    yield answer.title
    yield from (f"  {line}" for line in answer.subject)
    if answer.figures:
        figures = [list_figure(figure) for figure in answer.figures]
        yield ""
        yield from (f"  {line}" for line in align(figures, (False, True, False)))
    for table in answer.tables:
        if table.rows and not table.is_folded:
            yield ""
            yield table.title
            yield from (f"  {line}" for line in align_table(table))
            yield from (f"  {note}" for note in table.notes)
    if answer.doubts:
        yield ""
    for doubt in answer.doubts:
        head = "INVALID" if doubt.invalidates else "doubt"
        runs = f" ({doubt.runs})" if doubt.runs else ""
        yield f"{head}: {doubt.headline}{runs}: {doubt.text}; {doubt.advice}"
    yield ""
    yield " ".join(filter(None, (f"{answer.state}:" if answer.state else "", answer.sentence)))
    yield from (f"next: {step}" for step in answer.next)


def render_markdown(answer: Answer) -> str:
    """Return an answer as Markdown."""
    return "\n".join(_list_markdown(answer)) + "\n"


def _list_markdown(answer: Answer) -> Iterator[str]:
    yield f"## {escape_markdown(answer.title)}"
    yield ""
    yield from (f"{escape_markdown(line)}  " for line in answer.subject)
    yield ""
    state = f"**{answer.state}** " if answer.state else ""
    yield state + escape_markdown(answer.sentence)
    yield ""
    for label, value, remarks in map(list_figure, answer.figures):
        behind = f" ({escape_markdown(remarks)})" if remarks else ""
        yield f"- {escape_markdown(label)}: **{escape_markdown(value)}**{behind}"
    yield ""
    for doubt in answer.doubts:
        head = "**Invalidates**" if doubt.invalidates else "Doubt"
        runs = f" ({escape_markdown(doubt.runs)})" if doubt.runs else ""
        text = f"{doubt.headline}{runs}: {escape_markdown(doubt.text)}"
        yield f"- {head}: {text}. *{escape_markdown(doubt.advice)}.*"
    for table in answer.tables:
        if table.rows and not table.is_folded:
            yield from ("", f"**{escape_markdown(table.title)}**", "", *list_markdown_table(table))
            yield from ("", *(f"- {escape_markdown(note)}" for note in table.notes))
    yield from (f"- Next: `{step}`" for step in answer.next)


def list_markdown_table(table: Table) -> list[str]:
    """Return a table as lines of Markdown."""
    head, *rows = [[escape_markdown(cell) for cell in row] for row in list_cells(table)]
    rule = "".join("---:|" if is_right else "---|" for is_right in find_numeric(table))
    return [f"| {' | '.join(head)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)]


def escape_markdown(text: str) -> str:
    """Escape the characters of a text that Markdown interprets."""
    joined = " ".join(escape_controls(text).split())
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#" else char for char in joined)
