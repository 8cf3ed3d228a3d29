"""The profile of a tier and of workers that fits what was measured, and how far it is off."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from replayer.prediction.profile import CpuProfile, MeasuredCell, TierProfile
from replayer.prediction.stations import SPREAD_AT, Spread, Station, scale_spread
from replayer.profiling.cells import WHATS, Array, Cell, Medians, Rounds, Visits, find_medians
from replayer.profiling.station_fit import choose_points, fit_station, predict_us, round_figures, share_out
from replayer.record.conditions import Tier

# Sizes of objects whose residuals make the error: those that caches hold
JUDGED_BYTES: Final = (256 << 10, 16 << 20)
DIRECTIONS: Final = ("read", "write")
# Bytes of the objects with which sustained rates are measured
SUSTAINED_BYTES: Final = 1 << 20
_SHARE: Final = 0.9  # of residuals that the errors cover
_MOST_WEIGHT: Final = 8.0
_WEIGHT_STEP: Final = 0.02
# Visits of the other direction that a cell must have to say anything about their weight
_FEWEST_OTHERS: Final = 0.25
# Visits from which quantiles are taken; fewer have no tail to speak of
_FEWEST_VISITS: Final = 20
# Bytes of objects whose bytes dominate the time of making and checking them
_LARGE: Final = 1 << 20
_KINDS: Final = (*DIRECTIONS, "remove")
# Of the model's rate: from here on noise of the machine may be the reason for a lower one
_KEPT: Final = 0.8


def fit_cpu(cores: float, medians: Medians) -> CpuProfile:
    """Return the work of a worker, from cells with one worker, which waits for no core.

    Args:
        cores: that workers may use.
        medians: of all tiers.
    """
    alone = {what: [one for cell, one in medians[what].items() if cell.workers == 1] for what in _KINDS}
    sizes = [one.bytes for one in alone["write"]]
    least = min(_LARGE, max(sizes))
    make, check = (
        _median(one.verify_us * 1e3 / one.bytes for one in alone[what] if one.bytes >= least)
        for what in ("write", "read")
    )
    # The time per move in which a lone worker neither moved, made nor checked.
    between = _median(
        1e6 / one.per_s - one.time_us - one.verify_us
        for visits in alone.values()
        for one in visits
        if one.bytes == min(sizes)
    )
    return CpuProfile(cores, make, check, max(between, 0))


def _median(values: Iterable[float]) -> float:
    return round_figures(float(np.median(list(values))))


def fit_tier(tier: Tier, rounds: Rounds, piece_bytes: int) -> TierProfile:
    """Return the profile of a tier.

    Args:
        tier: the tier.
        rounds: what was measured.
        piece_bytes: bytes that a worker moves at once; the times of larger objects are sums, and
            have no part in the spread.
    """
    medians = find_medians(rounds, tier)
    read = _fit_direction(medians["read"], {})
    write = _fit_direction(medians["write"], medians["remove"])
    sizes = [cell.bytes for cell in medians["read"]]
    return TierProfile(
        read=_add_spread(read, "read", medians, rounds, piece_bytes),
        write=_add_spread(write, "write", medians, rounds, piece_bytes),
        writes_on_reads=fit_weight(read, medians["mixed read"].values()),
        reads_on_writes=fit_weight(write, medians["mixed write"].values()),
        smallest_bytes=min(sizes),
        largest_bytes=max(sizes),
        turn_bytes=1 if tier == "cpu" else piece_bytes,  # devices serve piece by piece
    )


def _fit_direction(samples: Mapping[Cell, Visits], removals: Mapping[Cell, Visits]) -> Station:
    workers = sorted({cell.workers for cell in samples})
    loads = [[one.load for cell, one in samples.items() if cell.workers == w] for w in workers]
    return fit_station(list(samples.values()), list(removals.values()), choose_points(loads))


def _add_spread(station: Station, what: str, medians: Medians, rounds: Rounds, piece_bytes: int) -> Station:
    """Return a station with the spread of each of its points, from the cells nearest to it."""
    ratios: list[list[Array]] = [[] for _ in station.in_flight]
    for cell, one in medians[what].items():
        if cell.bytes <= piece_bytes:
            distances = [abs(np.log(one.load / point)) for point in station.in_flight]
            ratios[int(np.argmin(distances))] += [run[what].ratios for run in rounds[cell]]
    spread = tuple(pool_spread(one) for one in ratios)
    return replace(station, spread=spread if any(spread) else ())


def compare_cells(profile: TierProfile, tier: Tier, rounds: Rounds) -> list[MeasuredCell]:
    """Return all cells of a tier, each with the model's time."""
    medians = find_medians(rounds, tier)
    return [
        _compare(profile, cell, what, one, [run[what].time_us for run in rounds[cell]])
        for what in WHATS
        for cell, one in medians[what].items()
    ]


def _compare(profile: TierProfile, cell: Cell, what: str, median: Visits, times_us: Sequence[float]) -> MeasuredCell:
    is_read = what in ("read", "mixed read")
    station = profile.read if is_read else profile.write
    weight = profile.writes_on_reads if is_read else profile.reads_on_writes
    if what == "remove":
        model_us = float(share_out(median.load, station.in_flight) @ np.array(station.remove_us))
    else:
        model_us = float(predict_mixed_us(station, median, np.array([weight]))[0])
    return MeasuredCell(
        tier=cell.tier,
        what=what,
        bytes=cell.bytes,
        workers=cell.workers,
        in_flight=round(median.load + median.others, 2),
        measured_us=round_figures(median.time_us),
        low_us=round_figures(min(times_us)),
        high_us=round_figures(max(times_us)),
        model_us=round_figures(model_us),
        residual=round(model_us / median.time_us - 1, 4),
    )


def find_error(cells: Iterable[MeasuredCell]) -> float:
    """Return the relative error that nine tenths of the cells of JUDGED_BYTES do not exceed."""
    low, high = JUDGED_BYTES
    judged = [one for one in cells if one.what != "remove" and low <= one.bytes <= high]
    return round_figures(float(np.quantile([abs(one.residual) for one in judged], _SHARE)))


def fit_weight(station: Station, mixed: Iterable[Visits]) -> float:
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
    models = [predict_mixed_us(station, one, candidates) / one.time_us for one in cells]
    distances = np.abs(np.log(models)).sum(axis=0)
    return round(float(candidates[int(np.argmin(distances))]), 2)


def predict_mixed_us(station: Station, median: Visits, weights: Array) -> Array:
    """Return the time of a visit in a mixed cell by the model, for each of several weights."""
    return predict_us(station, median.bytes, median.load + weights * median.others)


def pool_spread(cells: Sequence[Array]) -> Spread:
    """Return the nine quantiles of (time ÷ mean), each run with the same weight.

    The last one is the mean of the highest hundredth: a single outlier does not repeat.

    Args:
        cells: the ratios of each run's visits.
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


def compute_rate(sustained: Visits) -> float:
    """Return the GB/s of sustained visits."""
    return round_figures(sustained.load * sustained.bytes / sustained.time_us / 1e3)


def limit_rate(station: Station, what: str, sustained: Visits) -> tuple[Station, str]:
    """Return a station of nvme with its sustained rate, and a warning, if that is lower."""
    (model_us,) = predict_us(station, sustained.bytes, np.array([sustained.load]))
    if model_us >= _KEPT * sustained.time_us:
        return station, ""
    rate, burst = compute_rate(sustained), sustained.load * sustained.bytes / model_us / 1e3
    limited = tuple(min(one, rate) for one in station.bandwidth_gb_s)
    return replace(station, bandwidth_gb_s=limited), (
        f"the nvme tier sustains {rate:.3g} GB/s of {what}s, and does {burst:.3g} in short phases,"
        " which a cache or a credit serves: the profile has the sustained rate."
    )
