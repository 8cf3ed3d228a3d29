"""The arithmetic of the error table, by hand and on the published cells."""

import re
from pathlib import Path

import polars as pl
import pytest

from tests.bench.prediction_part import METRICS, Cell, summarise_errors
from tests.support.paths import ROOT


def test_an_error_is_of_the_median_of_trials_and_moves_that_lack_have_none() -> None:
    cell = Cell("chat", Path("t"), "0.25", 4)
    cell.measured = [dict.fromkeys(METRICS, value) | {"nvme_read_p95_ms": None} for value in (9.0, 10.0, 20.0)]
    cell.predicted = dict.fromkeys(METRICS, 11.0)
    errors = {row["metric"]: row["error"] for row in cell.errors("disk")}
    assert errors == dict.fromkeys(set(METRICS.values()) - {"nvme read P95 ms"}, pytest.approx(0.1))


def test_the_published_table_is_that_of_its_cells() -> None:
    """But for roundings: of the page to whole percents, of the file to three digits."""
    page = (ROOT / "docs" / "predicting.md").read_text()
    shown = [re.findall(r"([\d.]+)%", row.partition("| ")[2]) for row in re.findall(r"^\|.*% \|$", page, re.M)]
    found = summarise_errors(pl.read_csv(ROOT / "docs" / "predicting-errors.csv"))
    for row in found.drop("medium").rows():
        percents = pytest.approx([100 * share for share in row], abs=0.6)
        assert percents in [[float(one) for one in cells[-6:]] for cells in shown]
