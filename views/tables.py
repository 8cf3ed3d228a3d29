"""Tables as rows of strings, and aligned as text."""

from collections.abc import Sequence

from tracegen.errors import escape_controls
from views.answer import Cell, Table
from views.numbers import ABSENT, format_alike, format_number


def list_cells(table: Table) -> list[list[str]]:
    """Return a table's cells as people see them, headings first; numbers of a column share decimals."""
    columns = []
    for number, column in enumerate(table.columns):
        cells = [row[number] for row in table.rows]
        columns.append([column.heading, *_format_cells(cells, column.unit)])
    if table.is_turned:
        return columns
    return [list(row) for row in zip(*columns, strict=True)]


def _format_cells(cells: Sequence[Cell], unit: str) -> list[str]:
    formatted = iter(format_alike(filter(_is_number, cells), unit))  # type: ignore[arg-type]
    return [next(formatted) if _is_number(cell) else format_number(cell) for cell in cells]


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def find_numeric(table: Table) -> list[bool]:
    """Return which columns, as people see them, hold numbers and so are aligned to the right."""
    if table.is_turned:
        return [False, *(True for _ in table.rows)]
    columns = range(len(table.columns))
    return [all(row[at] is None or _looks_numeric(row[at]) for row in table.rows) for at in columns]


def _looks_numeric(cell: Cell) -> bool:
    if isinstance(cell, str):
        return cell[:1].isdigit() or cell[:1] in "+-−>(" or cell in ("", ABSENT)
    return not isinstance(cell, bool)


def align(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return rows of strings as lines whose columns are as wide as their widest cell."""
    cells = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return lines


def align_table(table: Table) -> list[str]:
    """Return a table as aligned lines, with a star before the rows that are the answer's."""
    lines = align(list_cells(table), find_numeric(table))
    if not table.marked:
        return lines
    stars = ("*" if number - 1 in table.marked else " " for number in range(len(lines)))
    return [f"{star} {line}" for star, line in zip(stars, lines, strict=True)]
