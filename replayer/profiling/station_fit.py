"""The costs of a station, such that the sum of |ln(model ÷ measured)| over its cells is least."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from replayer.prediction.stations import Station
from replayer.profiling.cells import Array, Mask, Visits

# Factor between two loads at which costs are fitted: noise would decide between closer ones
_APART: Final = 1.4
_MB: Final = 1e6
_LEAST_NS_PER_BYTE: Final = 1e-5
_DIGITS: Final = 5
_ROUNDS: Final = 8  # of least squares with new weights
_CLOSE: Final = 0.03  # residuals below it weigh alike
_TOLERANCE: Final = 1e-9


def choose_points(loads: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the loads at which costs are fitted, ascending from 1.

    Args:
        loads: of the cells with one number of workers, for each number of workers.
    """
    points = [1.0]
    for load in sorted(float(np.mean(one)) for one in loads if len(one) > 1):
        if load >= _APART * points[-1]:
            points.append(round_figures(load))
    return tuple(points)


def share_out(load: float, points: Sequence[float]) -> Array:
    """Return the weight of each point's cost in the cost at a load; shape (points,)."""
    units = np.eye(len(points))
    weights: Array = np.array([np.interp(load, points, unit) for unit in units])
    return weights * max(load / points[-1], 1)


def fit_station(samples: Sequence[Visits], removals: Sequence[Visits], points: tuple[float, ...]) -> Station:
    """Return the station whose times are nearest to those of the samples.

    The cost of a byte does not fall as the load grows: where only small objects were measured,
    noise would else decide what is latency and what is bandwidth.

    Args:
        samples: of transfers.
        removals: the same of removals; empty for a read station.
        points: the loads at which it has costs.
    """
    shares = np.array([share_out(one.load, points) for one in samples])
    times = np.array([one.time_us for one in samples])
    opens = np.array([one.open_us for one in samples])
    sizes = np.array([one.bytes for one in samples]) / _MB
    # A solution without negative values is then what each point's cost adds to the one before.
    sums = np.cumsum(shares[:, ::-1], axis=1)[:, ::-1]
    both = np.hstack([shares, sums * sizes[:, None]])
    weights = 1 / times
    for _ in range(_ROUNDS):
        costs = solve_nonnegative(both * weights[:, None], (times - opens) * weights)
        weights = _reweigh(both @ costs + opens, times)
    us_per_mb = np.cumsum(costs[len(points) :])
    ns_per_byte = np.maximum(us_per_mb * 1e3 / _MB, _LEAST_NS_PER_BYTE)
    return Station(
        in_flight=points,
        open_us=_round_all(solve_nonnegative(shares / times[:, None], opens / times)),
        latency_us=_round_all(costs[: len(points)]),
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


def _fit_removals(samples: Sequence[Visits], points: tuple[float, ...]) -> tuple[float, ...]:
    if not samples:
        return ()
    shares = np.array([share_out(one.load, points) for one in samples])
    relative = np.array([1 / one.time_us for one in samples])
    costs = solve_nonnegative(shares * relative[:, None], np.ones(len(samples)))
    is_unseen = ~shares.any(axis=0)  # removals are so short that high loads may not occur
    costs[is_unseen] = costs[~is_unseen][-1]
    return _round_all(costs)


def solve_nonnegative(matrix: Array, target: Array) -> Array:
    """Return the x ≥ 0 for which |matrix · x − target| is least (Lawson and Hanson, 1974).

    Args:
        matrix: shape (rows, columns).
        target: shape (rows,).

    Returns:
        x, shape (columns,).
    """
    norms = np.linalg.norm(matrix, axis=0)
    norms[norms == 0] = 1
    scaled = matrix / norms
    columns = matrix.shape[1]
    solution = np.zeros(columns)
    is_free = np.zeros(columns, np.bool_)
    for _ in range(3 * columns):
        gradient = scaled.T @ (target - scaled @ solution)
        gradient[is_free] = -np.inf
        best = int(gradient.argmax())
        if gradient[best] <= _TOLERANCE * max(1.0, float(np.linalg.norm(target))):
            break
        is_free[best] = True
        solution = _settle(scaled, target, solution, is_free)
    unscaled: Array = solution / norms
    return unscaled


def _settle(matrix: Array, target: Array, solution: Array, is_free: Mask) -> Array:
    """Solve for the free columns; hold those at 0 that would become negative."""
    while is_free.any():
        wanted = np.zeros(len(solution))
        wanted[is_free] = np.linalg.lstsq(matrix[:, is_free], target, rcond=None)[0]
        falling = is_free & (wanted <= 0)
        if not falling.any():
            return wanted
        steps = solution[falling] / np.maximum(solution[falling] - wanted[falling], 1e-300)
        solution = solution + steps.min() * (wanted - solution)
        is_free &= solution > _TOLERANCE * max(1.0, float(np.abs(solution).max()))
        solution[~is_free] = 0
    return np.zeros(len(solution))


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


def round_figures(value: float) -> float:
    """Round to five significant digits, as profiles have them."""
    return float(f"{value:.{_DIGITS}g}")


def _round_all(values: Array) -> tuple[float, ...]:
    return tuple(round_figures(float(value)) for value in values)
