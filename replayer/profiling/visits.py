"""What the log of a cell's run says about the visits of its stations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.planning.moves import HIT
from replayer.profiling.made_trace import Phases
from replayer.record.run_info import Tier

WHATS: Final = ("read", "write", "remove", "mixed read", "mixed write")
"""What a cell measures."""


@dataclass(frozen=True)
class Cell:
    """A cell: what is measured together.

    Attributes:
        tier: where.
        bytes: of an object.
        workers: that move objects at once.
    """

    tier: Tier
    bytes: int
    workers: int


@dataclass(frozen=True)
class Visits:
    """The visits of one kind in one phase, its first and last ones left out.

    Attributes:
        time_us: mean time of a visit in the station.
        open_us: of it, opening; 0 for removals.
        verify_us: mean time of making or checking bytes, per move.
        per_s: moves of this kind per second.
        present: mean number of workers in such a visit.
        ratios: time of each visit ÷ mean; shape (visits,).
    """

    time_us: float
    open_us: float
    verify_us: float
    per_s: float
    present: float
    ratios: NDArray[np.float64]


Measured = dict[str, Visits]
"""What one run of a cell measured, by `WHATS`."""

Rounds = Mapping[Cell, Sequence[Measured]]
"""What all runs of all cells measured."""


def find_load(visits: Visits, workers: int) -> float:
    """Return the load that a visit meets in its own station, itself included.

    Another worker is there for the share of its time that it spends in such visits.
    """
    return 1 + (workers - 1) * min(1.0, visits.present / workers)


def measure_visits(records: NDArray[Any], phases: Phases, workers: int) -> Measured:
    """Return the visits of each kind.

    Args:
        records: the log's rows in the order of ops, shape (ops,).
        phases: of the cell.
        workers: of the cell.
    """
    measured = Measured()
    for phase, ids in phases.ranges().items():
        middle = records[ids.start + workers : ids.stop - workers]
        if phase != "mixed":
            measured[phase] = _measure(middle, middle, workers)
            continue
        is_read = middle["move"] == HIT
        measured["mixed read"] = _measure(middle[is_read], middle, workers)
        measured["mixed write"] = _measure(middle[~is_read], middle, workers)
    return measured


def _measure(rows: NDArray[Any], phase: NDArray[Any], workers: int) -> Visits:
    """Measure the rows of one kind; the span is that of the whole phase."""
    transfers_ns = rows["read_ns"] + rows["write_ns"]
    device_ns = rows["device_read_ns"] + rows["device_write_ns"]
    is_removal = not transfers_ns.any()
    times_ns = rows["end_ns"] - rows["start_ns"] if is_removal else transfers_ns
    mean_ns = max(float(times_ns.mean()), 1.0)
    span_ns = max(int(np.ptp(phase["end_ns"])), 1)
    per_ns = (len(phase) - 1) / span_ns * len(rows) / len(phase)
    return Visits(
        time_us=mean_ns / 1e3,
        open_us=0.0 if is_removal else float((transfers_ns - device_ns).mean()) / 1e3,
        verify_us=float(rows["verify_ns"].mean()) / 1e3,
        per_s=per_ns * 1e9,
        present=min(mean_ns * per_ns, float(workers)),
        ratios=times_ns / mean_ns,
    )
