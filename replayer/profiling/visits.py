"""The visits of stations, as the log of a cell's run has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.planning.moves import HIT
from replayer.profiling.made_trace import Phases
from replayer.record.run_info import Tier

_FEWEST: Final = 4
_FEWEST_OF_KIND: Final = 2
"""Moves of a kind that must count, in mixed phases of each kind: a rate needs two."""
Mask = NDArray[np.bool_]
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
        load: mean number of such visits during a visit, itself included.
        others: mean number of visits of the other direction during a visit.
        ratios: time of each visit ÷ mean; shape (visits,).
    """

    time_us: float
    open_us: float
    verify_us: float
    per_s: float
    load: float
    others: float
    ratios: NDArray[np.float64]


Measured = dict[str, Visits]
"""What one run of a cell measured, by `WHATS`."""

Rounds = Mapping[Cell, Sequence[Measured]]
"""What all runs of all cells measured."""


def measure_visits(records: NDArray[Any], phases: Phases, workers: int) -> Measured:
    """Return the visits of each kind.

    Args:
        records: the log's rows in the order of ops, shape (ops,).
        phases: of the cell.
        workers: of the cell.
    """
    measured = Measured()
    for phase, ids in phases.ranges().items():
        if not ids:
            continue
        rows = records[ids.start : ids.stop]
        is_read = rows["move"] == HIT
        is_steady = _find_steady(records, ids, workers, is_read)
        if phase == "mixed":
            measured["mixed read"] = _measure(rows, is_steady & is_read, is_read)
            measured["mixed write"] = _measure(rows, is_steady & ~is_read, ~is_read)
        else:
            measured[phase] = _measure(rows, is_steady, np.ones(len(rows), np.bool_))
    return measured


def _find_steady(records: NDArray[Any], ids: range, workers: int, is_read: Mask) -> Mask:
    """Return which moves of a phase count: while all workers were in it.

    While the phase before drains, fewer moves of this one are there than will be. If too few moves
    are left, in mixed phases of either kind, those in the middle count.

    Args:
        records: the log's rows of all phases.
        ids: of the phase.
        workers: of the cell.
        is_read: which moves of the phase are reads.
    """
    rows = records[ids.start : ids.stop]
    places = np.arange(len(rows))
    began = records["end_ns"][: ids.start].max(initial=0)
    ended = records["start_ns"][ids.stop :].min(initial=rows["end_ns"].max())
    is_steady: Mask = (rows["start_ns"] >= began) & (rows["end_ns"] <= ended)
    is_steady &= places >= workers
    is_steady[: int(is_steady.argmax()) + 1] = False  # the move with which the last worker came
    kinds = [kind for kind in (is_read, ~is_read) if kind.any()]
    fewest_of_kind = min(int((is_steady & kind).sum()) for kind in kinds)
    if is_steady.sum() < max(_FEWEST, workers // 2) or fewest_of_kind < _FEWEST_OF_KIND:
        is_steady = (places >= workers) & (places < len(rows) - workers)
    return is_steady


def _measure(rows: NDArray[Any], is_counted: Mask, is_own: Mask) -> Visits:
    """Measure some rows of a phase.

    Args:
        rows: of the phase.
        is_counted: of the rows, those whose times count.
        is_own: of the rows, those in the same station.
    """
    counted = rows[is_counted]
    transfers_ns = counted["read_ns"] + counted["write_ns"]
    device_ns = counted["device_read_ns"] + counted["device_write_ns"]
    is_removal = not transfers_ns.any()
    times_ns = counted["end_ns"] - counted["start_ns"] if is_removal else transfers_ns
    mean_ns = max(float(times_ns.mean()), 1.0)
    span_ns = max(int(np.ptp(counted["end_ns"])), 1)
    return Visits(
        time_us=mean_ns / 1e3,
        open_us=0.0 if is_removal else float((transfers_ns - device_ns).mean()) / 1e3,
        verify_us=float(counted["verify_ns"].mean()) / 1e3,
        per_s=(len(counted) - 1) / span_ns * 1e9,
        load=max(1.0, _count_present(rows[is_own], counted)),
        others=_count_present(rows[~is_own], counted),
        ratios=times_ns / mean_ns,
    )


def _count_present(rows: NDArray[Any], during: NDArray[Any]) -> float:
    """Return how many of some moves are in progress on average, during each of other moves.

    Args:
        rows: the moves that are counted.
        during: the moves during which they are counted.
    """
    if not len(rows):
        return 0.0
    times = np.concatenate([rows["start_ns"], rows["end_ns"]])
    steps = np.repeat([1, -1], len(rows))
    order = np.argsort(times, kind="stable")
    times = times[order]
    counts = np.cumsum(steps[order])
    areas = np.concatenate([[0], np.cumsum(counts[:-1] * np.diff(times))])
    begins, ends = (np.interp(during[name], times, areas) for name in ("start_ns", "end_ns"))
    spans = np.maximum(during["end_ns"] - during["start_ns"], 1)
    return float(((ends - begins) / spans).mean())
