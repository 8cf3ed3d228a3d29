"""Traces made from one: some of its requests, or more users."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracegen.arrays import IdTable
from tracegen.derive.derivation import Derivation, count_of, describe_origin, merge_streams, renumber
from tracegen.trace.columns import COMMON, RAG, SYSTEM, Columns, take_rows
from tracegen.trace.reading import Trace

Range = tuple[float, float]
"""The first value of a range, and the first value beyond it."""


@dataclass(frozen=True)
class SliceRanges:
    """The requests that a slice keeps: those within every range that is given."""

    seconds: Range | None = None  # time of the request's first op
    users: Range | None = None  # ids of users
    sessions: Range | None = None  # ids of sessions
    requests: Range | None = None  # ids of requests


def slice_trace(trace: Trace, ranges: SliceRanges) -> Derivation:
    """Select whole requests; time, ids and turns are counted from the start of the slice."""
    present: set[int] = set()
    for batch in _select_rows(trace, ranges):
        present.update(np.unique(batch["user_id"]).tolist())
    users = np.array(sorted(present), np.int64)
    begin_ns = round(ranges.seconds[0] * 10**9) if ranges.seconds else 0

    def shift() -> Iterator[Columns]:
        for batch in _select_rows(trace, ranges):
            yield batch | {"time_ns": batch["time_ns"] - begin_ns, "user_id": np.searchsorted(users, batch["user_id"])}

    given = {name: list(limits) for name, limits in vars(ranges).items() if limits is not None}
    return Derivation(describe_origin([trace], {"slice": given}), renumber(shift()))


def _select_rows(trace: Trace, ranges: SliceRanges) -> Iterator[Columns]:
    """Yield the rows of the selected requests; the first op of a request decides."""
    limits = {
        "time_ns": ranges.seconds and tuple(limit * 10**9 for limit in ranges.seconds),
        "user_id": ranges.users,
        "session_id": ranges.sessions,
        "request_id": ranges.requests,
    }
    is_selected = IdTable(np.bool_)  # by request
    highest = -1
    for batch in trace.batches():
        request = batch["request_id"]
        before = np.maximum.accumulate(np.concatenate([[highest], request[:-1]]))
        first = np.flatnonzero(request > before)  # requests are numbered in order of arrival
        highest = max(highest, int(request.max()))
        within = np.ones(len(first), np.bool_)
        for name, limit in limits.items():
            if limit is not None:
                values = batch[name][first]
                within &= (values >= limit[0]) & (values < limit[1])
        is_selected.append(within)
        rows = np.flatnonzero(is_selected[request])
        if len(rows):
            yield take_rows(batch, rows)


_ROWS: Final = 1 << 16  # rows per batch of the scaled trace
SHARED_SOURCES: Final = (SYSTEM, COMMON, RAG)


def scale_trace(trace: Trace, users: int) -> Derivation:
    """Make copies of every user with objects of their own.

    Objects of the sources system, common and rag are shared by all copies.
    """
    is_shared = np.zeros(count_of(trace, "keys"), np.bool_)
    for batch in trace.batches():
        is_shared[batch["key"][np.isin(batch["source"], SHARED_SOURCES)]] = True

    def repeat() -> Iterator[Columns]:
        for batch in trace.batches(max(1, _ROWS // users)):
            copy = np.tile(np.arange(users), len(batch["op_id"]))
            rows = {name: np.repeat(column, users) for name, column in batch.items()}
            ids = {name: rows[name] * users + copy for name in ("request_id", "session_id", "user_id")}
            key = rows["key"] * users + np.where(is_shared[rows["key"]], 0, copy)
            yield rows | ids | {"key": key}

    return Derivation(describe_origin([trace], {"scale": {"users": users}}), renumber(merge_streams([repeat()])))
