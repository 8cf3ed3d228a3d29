"""A cell of a profile: the ops by which it is measured, and its visits as the log has them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.planning.executing import Records
from replayer.planning.moves import HIT
from replayer.record.conditions import Tier
from tracegen.schema import DELETE, DTYPES, READ, WRITE, Columns, Metadata

# Bytes of a token of the made ops: sizes of objects are multiples of it
TOKEN_BYTES: Final = 4096
_GAP_NS: Final = 1000
_FEWEST: Final = 4
_FEWEST_OF_KIND: Final = 2  # moves of each kind in mixed phases: a rate needs two
# What a cell measures
WHATS: Final = ("read", "write", "remove", "mixed read", "mixed write")

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cell:
    """A part of a profile that is measured together.

    Attributes:
        tier: where.
        bytes: of an object.
        workers: that move objects at once.
    """

    tier: Tier
    bytes: int
    workers: int

    def __str__(self) -> str:
        """Describe it for messages."""
        return f"{self.tier} {name_size(self.bytes)} × {self.workers}"


def name_size(size: int) -> str:
    """Format a size that is a power of two."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


@dataclass(frozen=True)
class Visits:
    """The visits of one kind in one phase of a run, or their medians over runs.

    Attributes:
        bytes: of an object.
        load: mean number of such visits during a visit, itself included.
        time_us: mean time of a visit in the station.
        open_us: of it, opening; 0 for removals.
        others: mean number of visits of the other direction during a visit.
        verify_us: mean time of making or checking bytes, per move.
        per_s: moves of this kind per second.
        ratios: time of each visit ÷ mean; shape (visits,); empty for medians.
    """

    bytes: int
    load: float
    time_us: float
    open_us: float = 0.0
    others: float = 0.0
    verify_us: float = 0.0
    per_s: float = 0.0
    ratios: Array = field(default_factory=lambda: np.empty(0))


# What one run of a cell measured, by `WHATS`
Measured = dict[str, Visits]
# What all runs of all cells measured
Rounds = Mapping[Cell, Sequence[Measured]]
# Medians over the runs of each cell, by `WHATS`
Medians = Mapping[str, Mapping[Cell, Visits]]


def find_medians(rounds: Rounds, tier: Tier | None = None) -> Medians:
    """Return the medians over the runs of the cells of a tier; None: of all tiers."""
    cells = {cell: runs for cell, runs in rounds.items() if runs and tier in (None, cell.tier)}
    return {what: {cell: _take_median(what, runs) for cell, runs in cells.items()} for what in WHATS}


def _take_median(what: str, runs: Sequence[Measured]) -> Visits:
    visits = [run[what] for run in runs]
    names = ("load", "time_us", "open_us", "others", "verify_us", "per_s")
    medians = np.median([[getattr(one, name) for name in names] for one in visits], axis=0)
    return Visits(visits[0].bytes, *medians.tolist())


@dataclass(frozen=True)
class Phases:
    """The numbers of ops of a cell's phases.

    Attributes:
        objects: that are written first.
        reads: of these objects, in turn.
        mixed: ops of the mixed phase, an even number; every second writes one more object.
    """

    objects: int
    reads: int
    mixed: int

    @property
    def stored(self) -> int:
        """Number of objects at the end; then all are deleted."""
        return self.objects + self.mixed // 2

    def ranges(self) -> dict[str, range]:
        """Return the op_ids of each phase: write, read, mixed, remove."""
        ends = np.cumsum([0, self.objects, self.reads, self.mixed, self.stored]).tolist()
        names = ("write", "read", "mixed", "remove")
        return {name: range(ends[at], ends[at + 1]) for at, name in enumerate(names)}


class MadeTrace:
    """A trace in memory whose ops have the phases of a cell; each op is a request of its own.

    Args:
        phases: of the cell.
        size: bytes of each object, a multiple of TOKEN_BYTES.

    Attributes:
        path: what messages call it.
        metadata: as a trace's.
        ops: number of ops.
    """

    def __init__(self, phases: Phases, size: int) -> None:
        assert size % TOKEN_BYTES == 0, "an object consists of whole tokens"
        self.path = Path("the ops of a profile")
        self.metadata = Metadata(seed=0, recipe={}, generator="replayer profile")
        written = np.arange(phases.objects)
        new = np.arange(phases.objects, phases.stored)
        # Reads go round over what was written first; np.resize repeats it.
        mixed = np.stack([np.resize(written, len(new)), new], axis=1).ravel()
        keys = [written, np.resize(written, phases.reads), mixed, np.arange(phases.stored)]
        ops = [
            np.full(phases.objects, WRITE),
            np.full(phases.reads, READ),
            np.tile([READ, WRITE], len(new)),
            np.full(phases.stored, DELETE),
        ]
        self.ops = sum(map(len, keys))
        ids = np.arange(self.ops)
        values = dict.fromkeys(DTYPES, np.zeros(self.ops, np.int64))
        values |= dict.fromkeys(("op_id", "request_id", "session_id", "user_id"), ids)
        values |= {"time_ns": ids * _GAP_NS, "turn": np.ones(self.ops, np.int64)}
        values |= {"key": np.concatenate(keys), "op": np.concatenate(ops)}
        values |= {"tokens": np.full(self.ops, size // TOKEN_BYTES)}
        self._columns = {name: values[name].astype(dtype) for name, dtype in DTYPES.items()}

    def check(self) -> None:
        """Do nothing: what is made here keeps the format's invariants."""

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the ops in order, `size` rows at a time."""
        for start in range(0, self.ops, size):
            yield {name: column[start : start + size] for name, column in self._columns.items()}

    checked_batches = batches


def measure_visits(cell: Cell, phases: Phases, records: Records) -> Measured:
    """Return the visits of each kind in a run of a cell.

    Args:
        cell: the cell.
        phases: of the run.
        records: the log's rows in the order of ops, shape (ops,).
    """
    measured = Measured()
    for phase, ids in phases.ranges().items():
        if not ids:
            continue
        rows = records[ids.start : ids.stop]
        is_read = rows["move"] == HIT
        is_steady = _find_steady(records, ids, cell.workers, is_read)
        kinds = {phase: np.ones(len(rows), np.bool_)}
        if phase == "mixed":
            kinds = {"mixed read": is_read, "mixed write": ~is_read}
        for what, is_own in kinds.items():
            measured[what] = _measure(cell, rows, is_steady & is_own, is_own)
    return measured


def _find_steady(records: Records, ids: range, workers: int, is_read: Mask) -> Mask:
    """Return which moves of a phase count: while all workers were in it.

    While the phase before drains, fewer moves of this one are there than will be. If too few moves
    are left, in mixed phases of either kind, those in the middle count.
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


def _measure(cell: Cell, rows: Records, is_counted: Mask, is_own: Mask) -> Visits:
    """Measure the counted rows of a phase; its own rows are those in the same station."""
    counted = rows[is_counted]
    transfers_ns = counted["read_ns"] + counted["write_ns"]
    device_ns = counted["device_read_ns"] + counted["device_write_ns"]
    is_removal = not transfers_ns.any()
    times_ns = counted["end_ns"] - counted["start_ns"] if is_removal else transfers_ns
    mean_ns = max(float(times_ns.mean()), 1.0)
    return Visits(
        cell.bytes,
        load=max(1.0, count_present(rows[is_own], counted)),
        time_us=mean_ns / 1e3,
        open_us=float((transfers_ns - device_ns).mean()) / 1e3,
        others=count_present(rows[~is_own], counted),
        verify_us=float(counted["verify_ns"].mean()) / 1e3,
        per_s=(len(counted) - 1) / max(int(np.ptp(counted["end_ns"])), 1) * 1e9,
        ratios=times_ns / mean_ns,
    )


def count_present(rows: Records, during: Records) -> float:
    """Return how many of some moves are in progress on average, during each of other moves."""
    if not len(rows):
        return 0.0
    times = np.concatenate([rows["start_ns"], rows["end_ns"]])
    order = np.argsort(times, kind="stable")
    times = times[order]
    counts = np.cumsum(np.repeat([1, -1], len(rows))[order])
    areas = np.concatenate([[0], np.cumsum(counts[:-1] * np.diff(times))])
    begins, ends = (np.interp(during[name], times, areas) for name in ("start_ns", "end_ns"))
    spans = np.maximum(during["end_ns"] - during["start_ns"], 1)
    return float(((ends - begins) / spans).mean())
