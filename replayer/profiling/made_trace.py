"""The ops by which a cell is measured: writes, reads, both in turn, deletes; all of one size."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tracegen.schema import DELETE, DTYPES, READ, WRITE, Columns, Metadata

TOKEN_BYTES: Final = 4096
"""Bytes of a token of the made ops: sizes of objects are multiples of it."""
_GAP_NS: Final = 1000


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
        new = np.arange(phases.objects, phases.stored)
        mixed_keys = np.empty(2 * len(new), np.int64)
        mixed_keys[0::2] = np.arange(len(new)) % max(phases.objects, 1)
        mixed_keys[1::2] = new
        keys = [
            np.arange(phases.objects),
            np.arange(phases.reads) % max(phases.objects, 1),
            mixed_keys,
            np.arange(phases.stored),
        ]
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
