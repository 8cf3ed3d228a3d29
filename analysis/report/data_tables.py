"""Tables of a report's data, with equally many decimals in each column."""

from typing import Final

import polars as pl

from analysis.report.text import format_number
from analysis.summary.numbers import choose_decimals

_EXACT: Final = ("t_s", "share")
"""Columns that name rows, so that no digit may be missing."""
_MOST_DECIMALS: Final = 6


def format_columns(table: pl.DataFrame) -> list[list[str]]:
    """Return the cells of a table by row; numbers of unlike metrics keep decimals of their own."""
    is_mixed = "metric" in table.columns
    columns = [
        list(map(format_number, column)) if is_mixed else _format_column(column) for column in table.iter_columns()
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _format_column(column: pl.Series) -> list[str]:
    if not column.dtype.is_float():
        return list(map(format_number, column))
    values = column.to_list()
    exact = _count_decimals(values) if column.name in _EXACT else choose_decimals(values)
    return ["–" if value is None else f"{value:,.{exact}f}" for value in values]


def _count_decimals(values: list[float | None]) -> int:
    """Return the decimals with which all values are exact."""
    known = [value for value in values if value is not None]
    fitting = (count for count in range(_MOST_DECIMALS) if all(round(value, count) == value for value in known))
    return next(fitting, _MOST_DECIMALS)
