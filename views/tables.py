"""Tables as rows of strings, and aligned as text."""

import textwrap
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from tracegen.errors import escape_controls
from views.answer import Answer, Cell, Column, Table
from views.numbers import ABSENT, format_alike, format_number

# Characters of a line, and the least of a sentence in its last column
_LINE: Final = 118
_SENTENCE: Final = 50
# Paths and flags stay whole, to be copied
_WRAP: Final = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def list_shown(answer: Answer) -> list[Table]:
    """Return the tables that text and JSON have: those that say something and are not folded."""
    return [table for table in answer.tables if table.rows and not table.is_folded]


def list_cells(table: Table) -> list[list[str]]:
    """Return a table's cells as people see them, headings first; numbers of a column share decimals."""
    columns = [_list_column(column, [row[at] for row in table.rows]) for at, column in enumerate(table.columns)]
    if table.is_turned:
        return columns
    return [list(row) for row in zip(*columns, strict=True)]


def _list_column(column: Column, cells: Sequence[Cell]) -> list[str]:
    numbers = iter(format_alike(filter(_is_number, cells), column.unit))  # type: ignore[arg-type]
    return [column.heading, *(next(numbers) if _is_number(cell) else format_number(cell) for cell in cells)]


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


def align(rows: Sequence[Sequence[str]], right: Sequence[bool], marked: Collection[int] = ()) -> list[str]:
    """Return rows of strings as lines whose columns are as wide as their widest cell.

    Args:
        rows: the headings, if there are any, and the rows.
        right: which columns are aligned to the right.
        marked: numbers of the rows, apart from the headings, that get a star.
    """
    cells = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    stars = ["* " if number - 1 in marked else "  " for number in range(len(cells))] if marked else [""] * len(cells)
    before = len(stars[0]) + sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = []
    for star, (*first, last) in zip(stars, cells, strict=True):
        padded = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(first, widths, right, strict=False)
        ]
        # A sentence in the last column goes on below itself, so that lines stay readable.
        begun, *rest = _WRAP(last, max(_LINE - before, _SENTENCE)) or [""]
        lines.append(star + "  ".join([*padded, begun.rjust(widths[-1]) if right[-1] else begun]).rstrip())
        lines += [" " * before + line for line in rest]
    return lines
