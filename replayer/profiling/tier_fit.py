"""The profile of a tier that fits what was measured, and how far it is off."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from replayer.profiles.profile import MeasuredCell, Station, TierProfile
from replayer.profiles.spread import Spread
from replayer.profiling.medians import Median, find_median, find_medians
from replayer.profiling.station_fit import (
    Sample,
    choose_points,
    fit_station,
    predict_removal_us,
    round_figures,
)
from replayer.profiling.tails import pool_spread
from replayer.profiling.visits import WHATS, Cell, Measured, Rounds
from replayer.profiling.weights import fit_weight, predict_mixed_us
from replayer.record.run_info import Tier

JUDGED_BYTES: Final = (256 << 10, 16 << 20)
"""Sizes of objects whose residuals make the error: those that caches hold."""
_SHARE: Final = 0.9  # of residuals that the errors cover
_NINE_TENTHS: Final = 1.645 / 1.349  # half their range ÷ that between the quartiles, if normal
DIRECTIONS: Final = ("read", "write")


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


def find_error(cells: Iterable[MeasuredCell], repeats: Sequence[Measured], repeated: Cell) -> float:
    """Return the relative error of costs: that of the fit and that of noise, at right angles.

    Args:
        cells: of the tier, with the model's times; at least one is of JUDGED_BYTES.
        repeats: what the runs of the repeated cell measured.
        repeated: that cell.
    """
    low, high = JUDGED_BYTES
    judged = [one for one in cells if one.what != "remove" and low <= one.bytes <= high]
    residuals = [abs(one.residual) for one in judged]
    fit = float(np.quantile(residuals, _SHARE))
    noise = 0.0
    if len(repeats) > 1:
        noise = max(_half_range(_times(repeats, repeated, what)) for what in DIRECTIONS)
    return round_figures(float(np.hypot(fit, noise)))


def _times(repeats: Sequence[Measured], repeated: Cell, what: str) -> list[float]:
    return [find_median(repeated, [run], what).sample.time_us for run in repeats]


def _half_range(values: Sequence[float]) -> float:
    """Return half the range of nine tenths of such values, relative to their median.

    It is that of the normal distribution with the same quartiles. The extremes themselves do not
    count: a phase lasts a tenth of a second, and what disturbs one of ten so long is little in a
    replay, which lasts a hundred times as long.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float((high - low) * _NINE_TENTHS / middle)
