"""The arithmetic of the error table, by hand and on the published cells."""

import re

import polars as pl
import pytest

from tests.bench.prediction_part import summarise_errors
from tests.support.paths import ROOT


def test_the_published_table_is_that_of_its_cells() -> None:
    """But for roundings: of the page to whole percents, of the file to three digits."""
    page = (ROOT / "docs" / "predicting.md").read_text()
    shown = [re.findall(r"([\d.]+)%", row.partition("| ")[2]) for row in re.findall(r"^\|.*% \|$", page, re.M)]
    found = summarise_errors(pl.read_csv(ROOT / "docs" / "predicting-errors.csv"))
    for row in found.drop("medium").rows():
        percents = pytest.approx([100 * share for share in row], abs=0.6)
        assert percents in [[float(one) for one in cells[-6:]] for cells in shown]
