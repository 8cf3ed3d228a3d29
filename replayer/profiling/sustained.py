"""Rates that the nvme tier keeps up: caches and credits hide them from short phases."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from replayer.profiles.profile import Station, TierProfile
from replayer.profiling.made_trace import Phases
from replayer.profiling.rig import Rig
from replayer.profiling.station_fit import predict_us, round_figures
from replayer.profiling.visits import Cell, Visits, measure_visits

TIER: Final = "nvme"
SHARE: Final = 1 / 12
"""Of the budget, for each direction."""
_BYTES: Final = 1 << 20
_MOST_WORKERS: Final = 16
_RUNS: Final = 4  # of a direction, about; the last one counts
_KEPT: Final = 0.8
"""Of the model's rate: from here on noise of the machine may be the reason for a lower one."""

Sustained = Mapping[str, Visits]
"""The visits of the last run of each direction."""


def choose_cell(cells: Iterable[Cell]) -> Cell | None:
    """Return the measured cell that is to be sustained; None: no object of its size fits."""
    known = [one for one in cells if (one.tier, one.bytes) == (TIER, _BYTES)]
    usual = [one for one in known if one.workers <= _MOST_WORKERS]
    return max(usual, key=lambda one: one.workers, default=None)


def sustain(
    rig: Rig,
    cell: Cell,
    what: str,
    per_op_s: float,
    room: int,
    lasting_s: float,
) -> Visits:
    """Repeat one direction until it has lasted long enough, and return the last run's visits.

    Each run is as long as the one before suggests. What is written is removed, and what is read is
    written, between runs.

    Args:
        rig: the open tiers.
        cell: size and workers.
        what: write or read.
        per_op_s: time of an op in short phases.
        room: bytes that objects may take.
        lasting_s: seconds of all runs.

    Raises:
        ToolError: a move failed.
    """
    fewest, most, spent_s = 4 * cell.workers, room // cell.bytes, 0.0
    while True:
        ops = max(fewest, int(lasting_s / _RUNS / per_op_s))
        phases = Phases(min(ops, most), 0, 0)
        if what == "read":
            phases = Phases(min(max(fewest, ops // 4), most), ops, 0)
        records = rig.run(cell.tier, cell.bytes, cell.workers, phases)
        rows = records[phases.ranges()[what].start : phases.ranges()[what].stop]
        took_s = float(rows["end_ns"].max() - rows["start_ns"].min()) / 1e9
        spent_s, per_op_s = spent_s + took_s, took_s / len(rows)
        if spent_s >= lasting_s:
            return measure_visits(records, phases, cell.workers)[what]


def compute_rate(visits: Visits) -> float:
    """Return the GB/s of sustained visits."""
    return round_figures(visits.load * _BYTES / visits.time_us / 1e3)


def limit_rates(tier: TierProfile, sustained: Sustained) -> tuple[TierProfile, list[str]]:
    """Return the profile with the sustained rates where these are lower, and warnings.

    Args:
        tier: as the short phases have it.
        sustained: what was measured, in both directions.
    """
    stations, warnings = [tier.read, tier.write], list[str]()
    for at, what in enumerate(("read", "write")):
        visits = sustained[what]
        (model_us,) = predict_us(stations[at], _BYTES, np.array([visits.load]))
        if model_us >= _KEPT * visits.time_us:
            continue
        rate, burst = compute_rate(visits), visits.load * _BYTES / model_us / 1e3
        stations[at] = _limit(stations[at], rate)
        warnings.append(
            f"the nvme tier sustains {rate:.3g} GB/s of {what}s, and does {burst:.3g} in short"
            " phases, which a cache or a credit serves: the profile has the sustained rate."
        )
    return replace(tier, read=stations[0], write=stations[1]), warnings


def _limit(station: Station, gb_s: float) -> Station:
    return replace(station, bandwidth_gb_s=tuple(min(one, gb_s) for one in station.bandwidth_gb_s))
