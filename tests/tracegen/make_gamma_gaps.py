"""The generator of tracegen/gamma_gaps.csv: run `python -m tests.tracegen.make_gamma_gaps`.

Entry i of shape k is the mean of the gamma law with shape k and mean 2^20 between its quantiles i/1024 and
(i + 1)/1024, rounded: 2^20 · 1024 · (P(k + 1, q(i + 1)) - P(k + 1, q(i))), with P the regularised incomplete
gamma function and q the quantiles of shape k. Double precision suffices: no entry is within 10^-4 of a half.
"""

import math
from itertools import pairwise

from tests.support.paths import ROOT

SHAPES = (0.5, 0.25, 0.1)
BINS = 1024
MEAN = 2**20


def lower_gamma(shape: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function P(shape, x), by its power series.

    Source: NIST Digital Library of Mathematical Functions, 8.7.1.
    """
    if x == 0:
        return 0
    term = total = 1 / shape
    n = shape
    while term > total * 1e-18:
        n += 1
        term *= x / n
        total += term
    return total * math.exp(shape * math.log(x) - x - math.lgamma(shape))


def quantile(shape: float, share: float) -> float:
    """Return the x with P(shape, x) = share, by bisection."""
    low, high = 0.0, 100.0
    while low < (middle := (low + high) / 2) < high:
        if lower_gamma(shape, middle) < share:
            low = middle
        else:
            high = middle
    return high


def exact_gaps(shape: float) -> list[float]:
    """Return the mean gap of each bin, before rounding."""
    bounds = [quantile(shape, number / BINS) for number in range(1, BINS)]
    parts = [0.0, *(lower_gamma(shape + 1, bound) for bound in bounds), 1.0]
    return [MEAN * BINS * (end - begin) for begin, end in pairwise(parts)]


def table() -> str:
    """Return the text of the CSV file."""
    columns = [[round(gap) for gap in exact_gaps(shape)] for shape in SHAPES]
    lines = [",".join(f"shape_{shape}" for shape in SHAPES)]
    lines += [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "tracegen" / "gamma_gaps.csv").write_text(table())
