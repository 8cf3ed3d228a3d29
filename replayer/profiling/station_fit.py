"""The costs of a station, such that the sum of |ln(model ÷ measured)| over its cells is least."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.profiles.profile import Station
from replayer.profiling.nonnegative import solve_nonnegative

Array = NDArray[np.float64]
_APART: Final = 1.4
"""Factor between two loads at which costs are fitted: noise would decide between closer ones."""
_MB: Final = 1e6
_LEAST_NS_PER_BYTE: Final = 1e-5
_DIGITS: Final = 5
_ROUNDS: Final = 8  # of least squares with new weights
_CLOSE: Final = 0.03  # residuals below it weigh alike


@dataclass(frozen=True)
class Sample:
    """A time at one size and load.

    Attributes:
        bytes: of the object.
        load: of the station.
        time_us: of a visit.
        open_us: of it, opening.
    """

    bytes: int
    load: float
    time_us: float
    open_us: float = 0.0


def choose_points(loads: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the loads at which costs are fitted, ascending from 1.

    Args:
        loads: of the samples with one number of workers, for each number of workers.
    """
    points = [1.0]
    for load in sorted(float(np.mean(one)) for one in loads if len(one) > 1):
        if load >= _APART * points[-1]:
            points.append(round_figures(load))
    return tuple(points)


def share_out(load: float, points: Sequence[float]) -> Array:
    """Return the weight of each point's cost in the cost at a load; shape (points,)."""
    weights = np.zeros(len(points))
    if load >= points[-1]:
        weights[-1] = load / points[-1]
        return weights
    above = int(np.searchsorted(points, load, "right"))
    if above == 0:
        weights[0] = 1
        return weights
    low, high = points[above - 1], points[above]
    weights[above] = (load - low) / (high - low)
    weights[above - 1] = 1 - weights[above]
    return weights


def fit_station(
    samples: Sequence[Sample],
    removals: Sequence[Sample],
    points: tuple[float, ...],
) -> Station:
    """Return the station whose times are nearest to those of the samples.

    Args:
        samples: of transfers.
        removals: times of removals; empty for a read station.
        points: the loads at which it has costs.
    """
    shares = np.array([share_out(one.load, points) for one in samples])
    times = np.array([one.time_us for one in samples])
    opens = np.array([one.open_us for one in samples])
    sizes = np.array([one.bytes for one in samples]) / _MB
    both = np.hstack([shares, shares * sizes[:, None]])
    weights = 1 / times
    for _ in range(_ROUNDS):
        costs = solve_nonnegative(both * weights[:, None], (times - opens) * weights)
        weights = _reweigh(both @ costs + opens, times)
    open_us = solve_nonnegative(shares / times[:, None], opens / times)
    latency_us, us_per_mb = costs[: len(points)], costs[len(points) :]
    ns_per_byte = np.maximum(us_per_mb * 1e3 / _MB, _LEAST_NS_PER_BYTE)
    return Station(
        in_flight=points,
        open_us=_round_all(open_us),
        latency_us=_round_all(latency_us),
        bandwidth_gb_s=_round_all(np.array(points) / ns_per_byte),
        remove_us=_fit_removals(removals, points),
    )


def _reweigh(model: Array, measured: Array) -> Array:
    """Return the weights with which least squares become the least sum of |ln(model ÷ measured)|.

    Squares would follow the few cells in which something else disturbed the machine.
    """
    positive = np.maximum(model, 1e-3 * measured)
    distance = np.maximum(np.abs(np.log(positive / measured)), _CLOSE)
    weights: Array = 1 / np.sqrt(distance * positive * measured)
    return weights


def _fit_removals(samples: Sequence[Sample], points: tuple[float, ...]) -> tuple[float, ...]:
    if not samples:
        return ()
    shares = np.array([share_out(one.load, points) for one in samples])
    relative = np.array([1 / one.time_us for one in samples])
    costs = solve_nonnegative(shares * relative[:, None], np.ones(len(samples)))
    is_unseen = ~shares.any(axis=0)  # removals are so short that high loads may not occur
    seen = costs[~is_unseen]
    costs[is_unseen] = seen[-1] if len(seen) else 0.0
    return _round_all(costs)


def predict_us(station: Station, size: int, loads: Array) -> Array:
    """Return the mean time of visits by the model, removing excluded.

    Args:
        station: of the visits.
        size: bytes of the object.
        loads: shape (visits,), as the result.
    """
    points = np.array(station.in_flight)
    us_per_byte = points / np.array(station.bandwidth_gb_s) / 1e3
    costs = np.array(station.open_us) + np.array(station.latency_us) + us_per_byte * size
    times: Array = np.interp(loads, points, costs) * np.maximum(loads / points[-1], 1)
    return times


def predict_removal_us(station: Station, load: float) -> float:
    """Return the mean time of a removal by the model."""
    return float(share_out(load, station.in_flight) @ np.array(station.remove_us))


def round_figures(value: float) -> float:
    """Round to five significant digits, as profiles have them."""
    return float(f"{value:.{_DIGITS}g}")


def _round_all(values: Array) -> tuple[float, ...]:
    return tuple(round_figures(float(value)) for value in values)
