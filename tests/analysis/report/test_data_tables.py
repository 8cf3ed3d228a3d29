"""Decimals of the tables under charts."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.page import format_columns


def test_a_table_worked_by_hand() -> None:
    table = pl.DataFrame(
        {
            "t_s": [0.0, 0.05, 12.5],
            "share": [0.5, 0.99, 0.9999],
            "tier": ["cpu", "nvme", "nvme"],
            "count": [1234, 5, 60],
            "p95_ms": [105.83, 3.8724, None],
        }
    )
    assert format_columns(table) == [
        ["0.00", "0.5000", "cpu", "1,234", "105.8"],
        ["0.05", "0.9900", "nvme", "5", "3.9"],
        ["12.50", "0.9999", "nvme", "60", "–"],
    ]


def test_unlike_metrics_keep_their_own_decimals() -> None:
    table = pl.DataFrame({"metric": ["wall_clock_tok_s", "hit_rate"], "mean": [12714.4, 0.98123]})
    assert format_columns(table) == [["wall_clock_tok_s", "12,714"], ["hit_rate", "0.9812"]]


@given(st.lists(st.none() | st.floats(0, 1e9), min_size=1))
def test_a_column_has_one_number_of_decimals(values: list[float | None]) -> None:
    table = pl.DataFrame({"ms": values}, schema={"ms": pl.Float64})
    cells = [row[0] for row in format_columns(table)]
    assert [cell == "–" for cell in cells] == [value is None for value in values]
    assert len({len(cell.partition(".")[2]) for cell in cells if cell != "–"}) <= 1
