"""Errors of predictions: of one metric of a pair, and over pairs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from analysis.summary.run_summary import Interval


@dataclass(frozen=True)
class PredictionError:
    """One metric of a pair, in the metric's unit.

    Attributes:
        trials: measured trials that have the metric.
        measured: their median; None if none has it.
        low: the least of them.
        high: the greatest.
        predicted: the predicted value; None if the prediction has none.
        interval: the ends of the prediction's interval; None without one.
        is_thin: whether it is a percentile of too few samples.
    """

    trials: int
    measured: float | None
    low: float | None
    high: float | None
    predicted: float | None
    interval: Interval | None
    is_thin: bool

    @property
    def error(self) -> float | None:
        """The predicted value over the measured one, less 1; None unless both are above 0."""
        if not self.measured or not self.predicted:
            return None
        return self.predicted / self.measured - 1

    @property
    def is_inside(self) -> bool | None:
        """Whether the measured median is inside the interval; None without an interval."""
        if self.interval is None or self.measured is None:
            return None
        return self.interval[0] <= self.measured <= self.interval[1]


@dataclass(frozen=True)
class Accuracy:
    """The errors of one metric over pairs.

    Attributes:
        pairs: pairs with an error.
        median_error: median of the errors with their signs, which shows a bias; None without one.
        median: median of their magnitudes.
        p90: 90% quantile of their magnitudes, interpolated linearly.
        bounded: pairs whose prediction has an interval.
        inside: those of them whose measured median is inside it.
    """

    pairs: int
    median_error: float | None
    median: float | None
    p90: float | None
    bounded: int
    inside: int


def compute_accuracy(errors: Iterable[PredictionError]) -> Accuracy:
    """Compute how far predictions of one metric were off, and how often their intervals held."""
    found = list(errors)
    known = [one.error for one in found if one.error is not None]
    inside = [one.is_inside for one in found if one.is_inside is not None]
    if not known:
        return Accuracy(0, None, None, None, len(inside), sum(inside))
    sizes = np.abs(known)
    return Accuracy(
        pairs=len(known),
        median_error=float(np.median(known)),
        median=float(np.median(sizes)),
        p90=float(np.quantile(sizes, 0.9)),
        bounded=len(inside),
        inside=sum(inside),
    )
