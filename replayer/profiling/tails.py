"""Spreads of the times of visits, pooled over cells."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.profiles.spread import SPREAD_AT, Spread, scale_spread
from replayer.profiling.station_fit import round_figures

_FEWEST: Final = 20
"""Visits from which quantiles are taken; fewer have no tail to speak of."""


def pool_spread(cells: Sequence[NDArray[np.float64]]) -> Spread:
    """Return the nine quantiles of (time ÷ mean), each cell with the same weight.

    The last one is the mean of the highest hundredth: a single outlier does not repeat.

    Args:
        cells: the ratios of each cell's visits.
    """
    kept = [ratios for ratios in cells if len(ratios) >= _FEWEST]
    if not kept:
        return ()
    ratios = np.concatenate(kept)
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in kept])
    order = np.argsort(ratios)
    ratios, weights = ratios[order], weights[order] / weights.sum()
    middles = np.cumsum(weights) - weights / 2
    quantiles = np.interp(SPREAD_AT[:-1], middles, ratios)
    is_top = middles >= SPREAD_AT[-2]
    top = float(np.average(ratios[is_top], weights=weights[is_top])) if is_top.any() else 0.0
    rising = np.maximum.accumulate([*quantiles, max(top, float(quantiles[-1]))])
    return tuple(round_figures(float(one)) for one in scale_spread(rising.tolist()))
