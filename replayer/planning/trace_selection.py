"""Which ops of a trace a replay takes: of some users, of a rank's sessions, some decode reads; cycle after cycle."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tracegen.errors import InputError
from tracegen.schema import DECODE, READ, Columns, Trace, take_rows


@dataclass(frozen=True)
class Selection:
    """A subset of a trace's ops, in its order; ops keep their op_ids.

    Attributes:
        decode: decode reads: all, the first of each request, none.
        users: the first so many users; None: all.
        part: (rank, ranks): sessions with session_id mod ranks = rank.
        cycles: the whole so many times, one after the other, each with keys, requests and sessions of its own.
    """

    decode: Literal["reread", "once", "none"] = "reread"
    users: int | None = None
    part: tuple[int, int] = (0, 1)
    cycles: int = 1

    def batches(self, trace: Trace, size: int) -> Iterator[Columns]:
        """The ops chosen, read at most `size` ops of the trace at a time.

        Raises:
            InputError: fewer than one user or cycle is asked for.
        """
        for flag, value in (("--users", self.users), ("--cycles", self.cycles)):
            if value is not None and value < 1:
                raise InputError(f"{flag} {value} must be at least 1.")
        ends = {"op_id": trace.ops, "time_ns": 0, "key": 0, "request_id": 0, "session_id": 0}
        shift = dict.fromkeys(ends, 0)
        for cycle in range(self.cycles):
            for batch in self._decode_filter(trace, size):
                if cycle == 0:
                    last = {name: int(batch[name].max()) + 1 for name in ends if len(batch[name])}
                    ends |= {name: max(ends[name], last.get(name, 0)) for name in ends}
                yield batch | {name: batch[name] + shift[name] for name in ends} if cycle else batch
            shift = {name: shift[name] + ends[name] for name in ends}

    def _subset(self, trace: Trace, size: int) -> Iterator[Columns]:
        rank, ranks = self.part
        for batch in trace.batches(size):
            kept = np.ones(len(batch["op_id"]), np.bool_)
            if self.users is not None:
                kept &= batch["user_id"] < self.users
            if ranks > 1:
                kept &= batch["session_id"] % ranks == rank
            yield batch if kept.all() else take_rows(batch, kept)

    def _decode_filter(self, trace: Trace, size: int) -> Iterator[Columns]:
        """Without the decode reads that are left out; their new_tokens move to an op that stays.

        `once` keeps the first decode read of each request, `none` keeps none. The tokens go to the decode read that
        is kept, else to the request's last op that is.
        """
        if self.decode == "reread":
            yield from self._subset(trace, size)
            return
        requests = trace.ops  # ids are dense, so never more; the kernel backs only the pages used
        moved, receiver = np.zeros(requests, np.int64), np.zeros(requests, np.int64)
        for batch, kept in self._kept(trace, size):
            np.add.at(moved, batch["request_id"][~kept], batch["new_tokens"][~kept])
            receives = kept & (_is_decode_read(batch) if self.decode == "once" else True)
            receiver[batch["request_id"][receives]] = batch["op_id"][receives]
        for batch, kept in self._kept(trace, size):
            ops = take_rows(batch, kept)
            extra = np.where(receiver[ops["request_id"]] == ops["op_id"], moved[ops["request_id"]], 0)
            yield ops | {"new_tokens": (ops["new_tokens"] + extra).astype(np.int32)}

    def _kept(self, trace: Trace, size: int) -> Iterator[tuple[Columns, NDArray[np.bool_]]]:
        has_read = np.zeros(trace.ops, np.bool_)
        for batch in self._subset(trace, size):
            reads = np.flatnonzero(_is_decode_read(batch))
            kept = np.ones(len(batch["op_id"]), np.bool_)
            kept[reads] = False
            if self.decode == "once":
                requests = batch["request_id"][reads]
                first = np.unique(requests, return_index=True)[1]
                kept[reads[first[~has_read[requests[first]]]]] = True
                has_read[requests] = True
            yield batch, kept


def _is_decode_read(batch: Columns) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (batch["phase"] == DECODE) & (batch["op"] == READ)
    return mask
