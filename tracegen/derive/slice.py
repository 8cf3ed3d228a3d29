"""Cut a slice out of a trace."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracegen.derive.provenance import derived
from tracegen.derive.renumber import renumbered
from tracegen.schema import Columns, Metadata, Trace, take_rows
from tracegen.workload.objects import Window

Range = tuple[float, float]


@dataclass(frozen=True)
class Selection:
    """Which requests a slice keeps: those in every range given, first included, last not; ids and seconds."""

    seconds: Range | None = None
    users: Range | None = None
    sessions: Range | None = None
    requests: Range | None = None


def slice_(trace: Trace, selection: Selection) -> tuple[Metadata, Iterator[Columns]]:
    """The requests of a selection, whole, as a trace of their own; its time begins where that of the slice does."""
    present: set[int] = set()
    for batch in _kept(trace, selection):
        present.update(np.unique(batch["user_id"]).tolist())
    users = np.array(sorted(present), np.int64)
    begin = round(selection.seconds[0] * 10**9) if selection.seconds else 0

    def moved() -> Iterator[Columns]:
        for batch in _kept(trace, selection):
            changed = {"time_ns": batch["time_ns"] - begin, "user_id": np.searchsorted(users, batch["user_id"])}
            yield batch | changed

    how = {name: list(limits) for name, limits in vars(selection).items() if limits is not None}
    return derived([trace], {"slice": how}), renumbered(moved())


def _kept(trace: Trace, selection: Selection) -> Iterator[Columns]:
    """The rows of the requests that are selected; a request counts by its first op."""
    limits = {
        "time_ns": selection.seconds and tuple(limit * 10**9 for limit in selection.seconds),
        "user_id": selection.users,
        "session_id": selection.sessions,
        "request_id": selection.requests,
    }
    keep, highest = Window(np.bool_), -1
    for batch in trace.batches():
        request = batch["request_id"]
        before = np.maximum.accumulate(np.concatenate([[highest], request[:-1]]))
        first = np.flatnonzero(request > before)  # requests are numbered in order of arrival
        highest = max(highest, int(request.max()))
        within = np.ones(len(first), np.bool_)
        for name, limit in limits.items():
            if limit is not None:
                within &= (batch[name][first] >= limit[0]) & (batch[name][first] < limit[1])
        keep.append(within)
        rows = np.flatnonzero(keep[request])
        if len(rows):
            yield take_rows(batch, rows)
