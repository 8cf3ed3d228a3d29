"""The weights with which reads and writes of a tier slow each other down."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from replayer.profiles.profile import Station
from replayer.profiling.medians import Median
from replayer.profiling.station_fit import Array, predict_us

_MOST: Final = 8.0
_STEP: Final = 0.02
_FEWEST_OTHERS: Final = 0.25
"""Visits of the other direction that a cell must have to say anything about their weight."""


def fit_weight(station: Station, mixed: Iterable[Median]) -> float:
    """Return the weight, from 0 to 8, with which the model is nearest to the mixed cells.

    It makes the sum of |ln(model ÷ measured)| least, so that no single cell decides.

    Args:
        station: of the visits.
        mixed: medians of the visits in mixed cells.
    """
    cells = [one for one in mixed if one.others >= _FEWEST_OTHERS]
    if not cells:
        return 1.0  # both directions share what serves them: nothing else is known
    candidates: Array = np.arange(0, _MOST + _STEP / 2, _STEP, np.float64)
    distances = np.zeros(len(candidates))
    for one in cells:
        distances += np.abs(np.log(predict_mixed_us(station, one, candidates) / one.sample.time_us))
    return round(float(candidates[int(np.argmin(distances))]), 2)


def predict_mixed_us(station: Station, median: Median, weights: Array) -> Array:
    """Return the time of a visit in a mixed cell by the model, for each of several weights."""
    sample = median.sample
    return predict_us(station, sample.bytes, sample.load + weights * median.others)
