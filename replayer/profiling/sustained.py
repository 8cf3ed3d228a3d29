"""Rates that the nvme tier keeps up: caches and credits hide them from phases of a quarter of a second."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from replayer.profiles.profile import Station, TierProfile
from replayer.profiling.made_trace import Phases
from replayer.profiling.rig import Rig
from replayer.profiling.schedule import Seconds
from replayer.profiling.station_fit import predict_us, round_figures
from replayer.profiling.tier_fit import DIRECTIONS
from replayer.profiling.visits import Cell, Visits, measure_visits

TIER: Final = "nvme"
_BYTES: Final = 1 << 20
_MOST_WORKERS: Final = 16
SHARE: Final = 1 / 12
"""Of the budget, for each direction."""
_RUNS: Final = 4  # of a direction, about; the last one counts
_KEPT: Final = 0.8
"""A sustained rate below this share of the model's is the tier's; above it, noise of the machine may be the reason."""

Sustained = Mapping[str, Visits]
"""The visits of the last run of each direction."""


def choose_cell(cells: Iterable[Cell]) -> Cell | None:
    """Return the cell that is measured for longer, of those that were measured; None: it has none of its size."""
    known = [cell for cell in cells if (cell.tier, cell.bytes) == (TIER, _BYTES) and cell.workers <= _MOST_WORKERS]
    return max(known, key=lambda cell: cell.workers, default=None)


def measure_sustained(rig: Rig, cell: Cell, guess: Seconds, room: int, budget_s: float) -> Sustained:
    """Write, and read, for SHARE of the budget each, and return the visits at the end of it.

    Args:
        rig: the open tiers.
        cell: size and workers.
        guess: its times per op in short phases.
        room: bytes that objects may take.
        budget_s: for the whole profile.

    Raises:
        ToolError: a move failed.
    """
    per_op_s = {"write": guess.write, "read": guess.read}
    return {what: _sustain(rig, cell, what, per_op_s[what], room, budget_s * SHARE) for what in ("write", "read")}


def _sustain(rig: Rig, cell: Cell, what: str, per_op_s: float, room: int, lasting_s: float) -> Visits:
    """Repeat one direction until it has lasted long enough; each run is as long as the one before suggests.

    What is written is removed, and what is read is written, between runs.
    """
    fewest, most, spent_s = 4 * cell.workers, room // cell.bytes, 0.0
    while True:
        ops = max(fewest, int(lasting_s / _RUNS / per_op_s))
        phases = Phases(min(ops, most), 0, 0) if what == "write" else Phases(min(max(fewest, ops // 4), most), ops, 0)
        records = rig.run(cell.tier, cell.bytes, cell.workers, phases)
        rows = records[slice(phases.ranges()[what].start, phases.ranges()[what].stop)]
        took_s = float(rows["end_ns"].max() - rows["start_ns"].min()) / 1e9
        spent_s, per_op_s = spent_s + took_s, took_s / len(rows)
        if spent_s >= lasting_s:
            return measure_visits(records, phases, cell.workers)[what]


def compute_rate(visits: Visits) -> float:
    """Return the GB/s of sustained visits."""
    return round_figures(visits.load * _BYTES / visits.time_us / 1e3)


def limit_rates(tier: TierProfile, sustained: Sustained) -> tuple[TierProfile, list[str]]:
    """Return the profile with bandwidths of at most the sustained ones where these are lower, and warnings.

    Args:
        tier: as the short phases have it.
        sustained: what was measured.
    """
    limited, warnings = tier, list[str]()
    for what in DIRECTIONS:
        if what not in sustained:
            continue
        visits, station = sustained[what], getattr(tier, what)
        (model_us,) = predict_us(station, _BYTES, np.array([visits.load]))
        if model_us >= _KEPT * visits.time_us:
            continue
        rate = compute_rate(visits)
        burst = visits.load * _BYTES / model_us / 1e3
        limited = replace(limited, **{what: _limit(station, rate)})
        warnings.append(
            f"the nvme tier sustains {rate:.3g} GB/s of {what}s, and does {burst:.3g} in short phases, which a cache or"
            " a credit serves: the profile has the sustained rate."
        )
    return limited, warnings


def _limit(station: Station, gb_s: float) -> Station:
    ranges = dict(station.ranges)
    if "bandwidth_gb_s" in ranges:
        ranges["bandwidth_gb_s"] = tuple((min(low, gb_s), min(high, gb_s)) for low, high in ranges["bandwidth_gb_s"])
    bandwidths = tuple(min(one, gb_s) for one in station.bandwidth_gb_s)
    return replace(station, bandwidth_gb_s=bandwidths, ranges=ranges)
