"""Selection of ops: the users, sessions and decode reads of a trace that a replay takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from replayer.record.options import Decode
from tracegen.errors import InputError
from tracegen.schema import DECODE, READ, Columns, Metadata, take_rows

# Columns whose values each further cycle continues where the previous one ended.
_SHIFTED = ("op_id", "time_ns", "key", "request_id", "session_id")


class OpSource(Protocol):
    """A trace as plans need it: a file opened for reading, or ops that the replayer makes itself.

    Attributes:
        path: the file, or what messages call the ops.
        metadata: what the trace records about itself.
        ops: number of ops.
    """

    path: Path
    metadata: Metadata
    ops: int

    def check(self) -> None:
        """Check the whole trace.

        Raises:
            InputError: it breaks an invariant of its format.
        """

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the ops in order, `size` rows at a time; the last batch may have fewer."""

    def checked_batches(self, size: int) -> Iterator[Columns]:
        """Yield the ops as `batches` does, each batch once it is checked."""


@dataclass(frozen=True)
class Selection:
    """A subset of a trace's ops, in the order of the trace; ops keep their op_ids.

    Attributes:
        decode: decode reads that are kept: all, the first of each request, or none.
        users: number of users, the first ones of the trace; None: all.
        part: (rank, ranks): keep the sessions with session_id mod ranks = rank.
        cycles: number of times that the subset is replayed, each time with its own keys, requests
            and sessions.

    Raises:
        InputError: there is less than one user or cycle.
    """

    decode: Decode = "reread"
    users: int | None = None
    part: tuple[int, int] = (0, 1)
    cycles: int = 1

    def __post_init__(self) -> None:
        for setting in ("users", "cycles"):
            value = getattr(self, setting)
            if value is not None and value < 1:
                raise InputError("must be at least 1", subject=value, setting=setting)

    def batches(self, trace: OpSource, size: int) -> Iterator[Columns]:
        """Yield the selected ops, from at most `size` ops of the trace at a time."""
        ends = dict.fromkeys(_SHIFTED, 0) | {"op_id": trace.ops}
        shift = dict.fromkeys(_SHIFTED, 0)
        for cycle in range(self.cycles):
            for batch in self._filter_decode_reads(trace, size):
                if cycle:
                    yield batch | {name: batch[name] + shift[name] for name in _SHIFTED}
                    continue
                # The first cycle tells how much later those that follow are.
                if len(batch["op_id"]):
                    highest = {name: int(batch[name].max()) for name in _SHIFTED}
                    ends = {name: max(ends[name], highest[name] + 1) for name in _SHIFTED}
                yield batch
            shift = {name: shift[name] + ends[name] for name in _SHIFTED}

    def _subset(self, trace: OpSource, size: int) -> Iterator[Columns]:
        """Yield the ops of the selected users and sessions."""
        rank, ranks = self.part
        for batch in trace.batches(size):
            kept = np.ones(len(batch["op_id"]), np.bool_)
            if self.users is not None:
                kept &= batch["user_id"] < self.users
            # By session, as its requests read what the ones before stored.
            if ranks > 1:
                kept &= batch["session_id"] % ranks == rank
            # Most batches are kept whole, and need no copy.
            yield batch if kept.all() else take_rows(batch, kept)

    def _filter_decode_reads(self, trace: OpSource, size: int) -> Iterator[Columns]:
        """Yield the subset without the decode reads that are left out.

        `once` keeps the first decode read of each request, `none` keeps no decode read. The
        new_tokens of the others move to the decode read that is kept, else to the last op of the
        request that is kept.
        """
        if self.decode == "reread":
            yield from self._subset(trace, size)
            return
        # Request ids are dense, so trace.ops bounds them; the kernel backs only the pages used.
        moved_tokens = np.zeros(trace.ops, np.int64)
        receiver = np.zeros(trace.ops, np.int64)
        first_read = np.full(trace.ops, trace.ops)
        for batch in self._subset(trace, size):
            requests, op_ids, is_read = batch["request_id"], batch["op_id"], _is_decode_read(batch)
            if self.decode == "once":
                np.minimum.at(first_read, requests[is_read], op_ids[is_read])
            kept = ~is_read | (op_ids == first_read[requests])
            np.add.at(moved_tokens, requests[~kept], batch["new_tokens"][~kept])
            receives = kept & is_read if self.decode == "once" else kept
            receiver[requests[receives]] = op_ids[receives]
        for batch in self._subset(trace, size):
            ops = take_rows(batch, ~_is_decode_read(batch) | (batch["op_id"] == first_read[batch["request_id"]]))
            requests = ops["request_id"]
            extra_tokens = np.where(receiver[requests] == ops["op_id"], moved_tokens[requests], 0)
            yield ops | {"new_tokens": (ops["new_tokens"] + extra_tokens).astype(np.int32)}


def _is_decode_read(batch: Columns) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (batch["phase"] == DECODE) & (batch["op"] == READ)
    return mask
