"""The axis of a forest plot: how many times better a system is, on a log scale about 1."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import count_better

_NICE: Final = (1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_LEAST: Final = math.log(1.05)
"""The least that the axis shows on each side of 1."""
_GAP: Final = 0.12
"""The least distance of two ticks, as a share of the axis."""


Mark = tuple[float, float | None, float | None]
"""A ratio and the ends of its interval, turned so that more is better; None without an interval."""


@dataclass(frozen=True)
class ForestAxis:
    """A log scale of how many times better a system is, from e^`low` to e^`high`."""

    low: float
    high: float

    def place(self, ratio: float) -> float:
        """Return the place of a number of times better, in percent of the width."""
        return round(100 * (math.log(ratio) - self.low) / (self.high - self.low), 2)

    def ticks(self) -> list[tuple[float, str]]:
        """Return places and labels; 1 is one of them, and both directions count from it."""
        found = [(self.place(1.0), "1")]
        steps = [(sign * math.log(nice), f"{nice:g}×") for nice in _NICE for sign in (1, -1)]
        order = sorted(steps, key=lambda step: (step[1] not in _ROUND, -abs(step[0])))
        for log, label in order:
            place = self.place(math.exp(log))
            is_free = all(abs(place - other) >= 100 * _GAP for other, _ in found)
            if 2 <= place <= 98 and is_free:
                found.append((place, label))
        return sorted(found)

    def mark(self, ratio: Ratio) -> list[float | None] | None:
        """Return the places of a ratio and of its ends; None if there is nothing to show."""
        turned = turn(ratio)
        return None if turned is None else [value and self.place(value) for value in turned]


_ROUND: Final = ("1.1×", "1.5×", "2×", "5×", "10×")
"""The labels that are placed first."""


def fit_axis(ratios: Iterable[Ratio]) -> ForestAxis:
    """Return an axis that shows ratios with their intervals, and 1."""
    logs = [0.0]
    for ratio in ratios:
        logs += [math.log(value) for value in turn(ratio) or () if value]
    low, high = min(*logs, -_LEAST), max(*logs, _LEAST)
    margin = 0.08 * (high - low)
    return ForestAxis(low - margin, high + margin)


def turn(ratio: Ratio) -> Mark | None:
    """Return how many times better a ratio and its ends are; None if it is not judged."""
    if ratio.ratio is None or ratio.better is None:
        return None
    at = count_better(ratio.ratio, ratio.better)
    if ratio.low is None or ratio.high is None:
        return at, None, None
    low, high = sorted(count_better(end, ratio.better) for end in (ratio.low, ratio.high))
    return at, low, high
