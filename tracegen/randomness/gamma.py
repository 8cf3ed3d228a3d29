"""Gaps between arrivals under a gamma law, from integer tables: equal on every platform.

`gamma_gaps.csv` has a column per shape. Entry i is the mean of the law with mean 2^20 between its
quantiles i/1024 and (i + 1)/1024, rounded; tests/tracegen/randomness/make_gamma_gaps.py makes the
file. The spread within a bin is lost: the tables have 99.2, 99.7 and 99.8% of the variance of
shapes 0.1, 0.25 and 0.5.
"""

import csv
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("gamma_gaps.csv")


@cache
def load_gaps(shape: float) -> tuple[int, ...]:
    """Load the gaps of a gamma law with mean 2^20, one per 1024th of the draws, ascending.

    Raises:
        KeyError: the file has no column for the shape.
    """
    with FILE.open(newline="", encoding="ascii") as file:
        return tuple(int(row[f"shape_{shape}"]) for row in csv.DictReader(file))
