"""An answer as text for a terminal, and as Markdown for an issue."""

from collections.abc import Iterator

from tracegen.errors import escape_controls
from views.answer import Answer, DoubtLine, Figure, Table
from views.numbers import format_alike, format_plain, format_ratio, get_unit_word
from views.tables import align, find_numeric, list_cells


def split_figure(figure: Figure) -> tuple[str, str, str]:
    """Return a figure's value, empty if it was not measured, its unit, and the remarks on it."""
    unit = get_unit_word(figure.unit)
    if figure.text or figure.value is None:
        return figure.text, unit, figure.note
    shown, remarks = format_plain(figure.value, figure.unit), [figure.note]
    if figure.low is not None and figure.high is not None:
        shown, low, high = format_alike([figure.value, figure.low, figure.high], figure.unit)
        ends = f"{low} to {high}"
        if figure.unit == "ratio":
            shown, ends = format_ratio(figure.value, figure.low, figure.high)
        remarks.insert(0, "" if low == high else f"95% interval {ends}")
    more = "> " if figure.is_more_than else ""
    return more + shown, unit, ", ".join(filter(None, remarks))


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
        yield ""
        yield from (f"  {line}" for line in align(figures, (False, True, False)))
    for table in answer.tables:
        if table.rows and not table.is_folded:
            yield ""
            yield table.title
            yield from (f"  {line}" for line in align(list_cells(table), find_numeric(table), table.marked))
            yield from (f"  {note}" for note in table.notes)
    if answer.doubts:
        yield ""
    yield from map(_describe_doubt, answer.doubts)
    yield ""
    yield " ".join(filter(None, (f"{answer.state}:" if answer.state else "", answer.sentence)))
    yield from (f"next: {step}" for step in answer.next)


def _describe_doubt(doubt: DoubtLine) -> str:
    head = "INVALID" if doubt.invalidates else "doubt"
    runs = f" ({doubt.runs})" if doubt.runs else ""
    return f"{head}: {doubt.headline}{runs}: {doubt.text}; {doubt.advice}"


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
    yield from map(_write_doubt, answer.doubts)
    for table in answer.tables:
        if table.rows and not table.is_folded:
            yield from ("", f"**{escape_markdown(table.title)}**", "", *list_markdown_table(table))
            yield from ("", *(f"- {escape_markdown(note)}" for note in table.notes))
    yield from (f"- Next: `{step}`" for step in answer.next)


def _write_doubt(doubt: DoubtLine) -> str:
    head = "**Invalidates**" if doubt.invalidates else "Doubt"
    runs = f" ({escape_markdown(doubt.runs)})" if doubt.runs else ""
    text = f"{doubt.headline}{runs}: {escape_markdown(doubt.text)}"
    return f"- {head}: {text}. *{escape_markdown(doubt.advice)}.*"


def list_markdown_table(table: Table) -> list[str]:
    """Return a table as lines of Markdown."""
    head, *rows = [[escape_markdown(cell) for cell in row] for row in list_cells(table)]
    rule = "".join("---:|" if is_right else "---|" for is_right in find_numeric(table))
    return [f"| {' | '.join(head)} |", f"|{rule}", *(f"| {' | '.join(row)} |" for row in rows)]


def escape_markdown(text: str) -> str:
    """Escape the characters of a text that Markdown interprets."""
    joined = " ".join(escape_controls(text).split())
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#" else char for char in joined)
