"""Spreads: nine quantiles of (time of a visit ÷ mean time of such a visit)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

SPREAD_AT: Final = (0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
"""The probabilities of the quantiles."""
_ROUNDING: Final = 1e-9  # a mean this close to 1 is one that was scaled before

Spread = tuple[float, ...]
"""The nine quantiles in ascending order; empty: every visit takes the mean time."""


def compute_spread_mean(quantiles: Sequence[float]) -> float:
    """Return the mean of the distribution that is linear between nine quantiles."""
    widths = [high - low for low, high in pairwise(SPREAD_AT)]
    middles = [(low + high) / 2 for low, high in pairwise(quantiles)]
    return sum(width * middle for width, middle in zip(widths, middles, strict=True))


def scale_spread(quantiles: Sequence[float]) -> Spread:
    """Scale nine quantiles such that their mean is 1; those whose mean is 1 stay as they are."""
    mean = compute_spread_mean(quantiles)
    if abs(mean - 1) <= _ROUNDING:
        return tuple(quantiles)
    return tuple(quantile / mean for quantile in quantiles)
