"""Errors of predictions: of one metric of a pair, and over pairs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PredictionError:
    """One metric of a pair, in the metric's unit.

    Attributes:
        trials: measured trials that have the metric.
        measured: their median; None if none has it.
        low: the least of them.
        high: the greatest.
        predicted: the predicted value; None if the prediction has none.
        is_thin: whether it is a percentile of too few samples.
    """

    trials: int
    measured: float | None
    low: float | None
    high: float | None
    predicted: float | None
    is_thin: bool

    @property
    def error(self) -> float | None:
        """The predicted value over the measured one, less 1; None unless both are above 0."""
        if not self.measured or not self.predicted:
            return None
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Accuracy:
    """The errors of one metric over pairs.

    Attributes:
        pairs: pairs with an error.
        median_error: median of the errors with their signs, which shows a bias; None without one.
        median: median of their magnitudes.
        p90: 90% quantile of their magnitudes, interpolated linearly.
    """

    pairs: int
    median_error: float | None
    median: float | None
    p90: float | None


def compute_accuracy(errors: Iterable[PredictionError]) -> Accuracy:
    """Compute how far predictions of one metric were off."""
    known = [one.error for one in errors if one.error is not None]
    if not known:
        return Accuracy(0, None, None, None)
    sizes = np.abs(known)
    return Accuracy(
        pairs=len(known),
        median_error=float(np.median(known)),
        median=float(np.median(sizes)),
        p90=float(np.quantile(sizes, 0.9)),
    )
