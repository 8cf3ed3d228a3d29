"""The profile of a tier that fits what was measured, and how far it is off."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from replayer.profiles.profile import SPREAD_AT, MeasuredCell, Spread, Station, TierProfile, scale_spread
from replayer.profiling.station_fit import (
    Array,
    Sample,
    choose_points,
    fit_station,
    predict_removal_us,
    predict_us,
    round_figures,
)
from replayer.profiling.visits import WHATS, Cell, Measured, Rounds
from replayer.record.run_info import Tier

JUDGED_BYTES: Final = (256 << 10, 16 << 20)
"""Sizes of objects whose residuals make the error: those that caches hold."""
_SHARE: Final = 0.9  # of residuals that the errors cover
DIRECTIONS: Final = ("read", "write")
_MOST_WEIGHT: Final = 8.0
_WEIGHT_STEP: Final = 0.02
_FEWEST_OTHERS: Final = 0.25
"""Visits of the other direction that a cell must have to say anything about their weight."""
_FEWEST_VISITS: Final = 20
"""Visits from which quantiles are taken; fewer have no tail to speak of."""


@dataclass(frozen=True)
class Median:
    """The medians of one kind of visit in one cell.

    Attributes:
        sample: size, load of the own station, and times.
        others: mean number of visits that a visit meets in the other direction's station.
        low_us: time in the fastest round.
        high_us: time in the slowest round.
    """

    sample: Sample
    others: float
    low_us: float
    high_us: float


def find_median(cell: Cell, runs: Sequence[Measured], what: str) -> Median:
    """Return the medians of the visits of one kind over the runs of a cell."""
    visits = [run[what] for run in runs]
    times = [one.time_us for one in visits]
    sample = Sample(
        cell.bytes,
        _median(one.load for one in visits),
        _median(times),
        _median(one.open_us for one in visits),
    )
    return Median(sample, _median(one.others for one in visits), min(times), max(times))


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def find_medians(tier: Tier, rounds: Rounds, what: str) -> dict[Cell, Median]:
    """Return the medians of one kind of visit for all cells of a tier that were measured."""
    cells = {cell: runs for cell, runs in rounds.items() if cell.tier == tier and runs}
    return {cell: find_median(cell, runs, what) for cell, runs in cells.items()}


def fit_tier(tier: Tier, rounds: Rounds) -> TierProfile:
    """Return the profile of a tier without spreads.

    Args:
        tier: the tier.
        rounds: what was measured.
    """
    read = _fit_direction(tier, rounds, "read")
    write = _fit_direction(tier, rounds, "write")
    sizes = [cell.bytes for cell, runs in rounds.items() if cell.tier == tier and runs]
    return TierProfile(
        read=read,
        write=write,
        writes_on_reads=fit_weight(read, find_medians(tier, rounds, "mixed read").values()),
        reads_on_writes=fit_weight(write, find_medians(tier, rounds, "mixed write").values()),
        smallest_bytes=min(sizes),
        largest_bytes=max(sizes),
    )


def _fit_direction(tier: Tier, rounds: Rounds, what: str) -> Station:
    medians = find_medians(tier, rounds, what)
    samples = {cell: one.sample for cell, one in medians.items()}
    points = choose_points(_by_workers(samples))
    removals = list[Sample]()
    if what == "write":
        removals = [one.sample for one in find_medians(tier, rounds, "remove").values()]
    return fit_station(list(samples.values()), removals, points)


def _by_workers(samples: dict[Cell, Sample]) -> list[list[float]]:
    """Return the loads of the cells with each number of workers."""
    workers = sorted({cell.workers for cell in samples})
    return [[one.load for cell, one in samples.items() if cell.workers == w] for w in workers]


def add_spreads(
    profile: TierProfile,
    tier: Tier,
    rounds: Rounds,
    piece_bytes: int,
) -> TierProfile:
    """Return the profile with the spread of each of its points.

    Args:
        profile: of the tier.
        tier: the tier.
        rounds: what was measured.
        piece_bytes: bytes that a worker moves at once; larger objects do not count, as their times
            are sums.
    """
    rounds = {cell: runs for cell, runs in rounds.items() if cell.bytes <= piece_bytes}
    read = _add_spread(profile.read, tier, rounds, "read")
    write = _add_spread(profile.write, tier, rounds, "write")
    return replace(profile, read=read, write=write)


def _add_spread(station: Station, tier: Tier, rounds: Rounds, what: str) -> Station:
    medians = find_medians(tier, rounds, what)
    pooled = [list[Cell]() for _ in station.in_flight]
    for cell, one in medians.items():
        pooled[_nearest_point(station, one.sample.load)].append(cell)
    spreads = list[Spread]()
    for cells in pooled:
        ratios = [run[what].ratios for cell in cells for run in rounds[cell]]
        spreads.append(pool_spread(ratios))
    return replace(station, spread=tuple(spreads) if any(spreads) else ())


def _nearest_point(station: Station, load: float) -> int:
    return int(np.argmin([abs(np.log(load / point)) for point in station.in_flight]))


def compare_cells(profile: TierProfile, tier: Tier, rounds: Rounds) -> list[MeasuredCell]:
    """Return all cells of a tier, each with the model's time."""
    cells = list[MeasuredCell]()
    for what in WHATS:
        for cell, median in find_medians(tier, rounds, what).items():
            cells.append(_compare(profile, cell, median, what))
    return cells


def _compare(profile: TierProfile, cell: Cell, median: Median, what: str) -> MeasuredCell:
    sample = median.sample
    model_us = _predict(profile, median, what)
    return MeasuredCell(
        tier=cell.tier,
        what=what,
        bytes=cell.bytes,
        workers=cell.workers,
        in_flight=round(sample.load + median.others, 2),
        measured_us=round_figures(sample.time_us),
        low_us=round_figures(median.low_us),
        high_us=round_figures(median.high_us),
        model_us=round_figures(model_us),
        residual=round(model_us / sample.time_us - 1, 4),
    )


def _predict(profile: TierProfile, median: Median, what: str) -> float:
    sample = median.sample
    if what == "remove":
        return predict_removal_us(profile.write, sample.load)
    is_read = what in ("read", "mixed read")
    station = profile.read if is_read else profile.write
    weight = profile.writes_on_reads if is_read else profile.reads_on_writes
    return float(predict_mixed_us(station, median, np.array([weight]))[0])


def find_error(cells: Iterable[MeasuredCell]) -> float:
    """Return the relative error that nine tenths of the cells of JUDGED_BYTES do not exceed."""
    low, high = JUDGED_BYTES
    judged = [one for one in cells if one.what != "remove" and low <= one.bytes <= high]
    return round_figures(float(np.quantile([abs(one.residual) for one in judged], _SHARE)))


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
    candidates: Array = np.arange(0, _MOST_WEIGHT + _WEIGHT_STEP / 2, _WEIGHT_STEP, np.float64)
    distances = np.zeros(len(candidates))
    for one in cells:
        distances += np.abs(np.log(predict_mixed_us(station, one, candidates) / one.sample.time_us))
    return round(float(candidates[int(np.argmin(distances))]), 2)


def predict_mixed_us(station: Station, median: Median, weights: Array) -> Array:
    """Return the time of a visit in a mixed cell by the model, for each of several weights."""
    sample = median.sample
    return predict_us(station, sample.bytes, sample.load + weights * median.others)


def pool_spread(cells: Sequence[Array]) -> Spread:
    """Return the nine quantiles of (time ÷ mean), each cell with the same weight.

    The last one is the mean of the highest hundredth: a single outlier does not repeat.

    Args:
        cells: the ratios of each cell's visits.
    """
    kept = [ratios for ratios in cells if len(ratios) >= _FEWEST_VISITS]
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
