"""The invariants of a trace, checked batch by batch; each violation names its row, column and value."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Batch = dict[str, NDArray[Any]]
Mask = NDArray[np.bool_]
WRITE = 0


@dataclass(frozen=True)
class Problem:
    """One violation; `row` is None where the file as a whole is at fault."""

    row: int | None
    column: str
    value: Any
    rule: str

    def __str__(self) -> str:
        """As printed by `tracegen validate`."""
        place = "file metadata" if self.row is None else f"row {self.row}"
        return f"{place}: {self.column} = {self.value}: {self.rule}"


class Invariants:
    """Feeds on batches in order; holds what must agree between rows: a few integers per key, request, session, user.

    Tables are sized by the number of ops, the most that a dense id can reach; the kernel backs only the pages used.
    """

    def __init__(self, ops: int) -> None:
        self._ops, self._row = ops, 0
        self._last: Batch = {}
        self._highest = dict.fromkeys(("request_id", "key"), -1)
        self._key_tokens = np.zeros(ops, np.int32)  # 0: not seen; the tables below hold value + 1, 0: not seen
        self._of_request = {name: np.zeros(ops, np.int64) for name in ("session_id", "turn", "qos")}
        self._step_of_request = np.zeros(ops, np.int64)
        self._user_of_session = np.zeros(ops, np.int64)
        self._turn_of_session = np.zeros(ops, np.int64)
        self._request_of_user = np.zeros(ops, np.int64)

    def feed(self, batch: Batch) -> Iterator[Problem]:
        """Violations in the next batch, by row."""
        problems = [
            Problem(self._row + int(i), column, batch[column][i].item(), rule)
            for column, rule, broken in self._checks(batch)
            for i in np.flatnonzero(broken)
        ]
        yield from sorted(problems, key=lambda problem: problem.row or 0)
        self._row += len(batch["op_id"])
        self._last = {name: column[-1:] for name, column in batch.items()}

    def _checks(self, batch: Batch) -> Iterator[tuple[str, str, Mask]]:
        size = len(batch["op_id"])
        yield "op_id", "must be the row's number", batch["op_id"] != np.arange(self._row, self._row + size)
        for name, least in (
            ("time_ns", 0),
            ("turn", 1),
            ("step", 0),
            ("tokens", 1),
            ("new_tokens", 0),
            ("think_ns", 0),
        ):
            yield name, f"must be at least {least}", batch[name] < least
        in_range = np.ones(size, np.bool_)
        for name in ("request_id", "session_id", "user_id", "key"):
            outside = (batch[name] < 0) | (batch[name] >= self._ops)
            yield name, f"ids are dense: 0 to {self._ops - 1} at most", outside
            in_range &= ~outside
        yield from self._order(batch)
        rows = np.flatnonzero(in_range)  # the tables below are indexed by id
        kept = {name: column[rows] for name, column in batch.items()}
        for checks in (self._requests, self._keys):
            for column, rule, broken in checks(kept):
                yield column, rule, _mask(size, rows[broken])

    def _order(self, batch: Batch) -> Iterator[tuple[str, str, Mask]]:
        """Sorted by (time, user, request, order in the request)."""
        before = {name: self._previous(batch, name) for name in ("time_ns", "user_id", "request_id")}
        same_time = batch["time_ns"] == before["time_ns"]
        same_user = same_time & (batch["user_id"] == before["user_id"])
        yield "time_ns", "time must not go back", batch["time_ns"] < before["time_ns"]
        yield "user_id", "ops of one time are sorted by user", same_time & (batch["user_id"] < before["user_id"])
        later = same_user & (batch["request_id"] < before["request_id"])
        yield "request_id", "a user's ops of one time are sorted by request", later

    def _previous(self, batch: Batch, name: str) -> NDArray[Any]:
        first = self._last[name] if self._last else batch[name][:1]
        return np.concatenate([first, batch[name][:-1]])

    def _requests(self, batch: Batch) -> Iterator[tuple[str, str, Mask]]:
        request, user, session = batch["request_id"], batch["user_id"], batch["session_id"]
        first, gaps = self._first_appearances("request_id", request, self._of_request["session_id"])
        yield "request_id", "requests are numbered in order of arrival, without gaps", gaps
        for name, table in self._of_request.items():
            table[request[first]] = batch[name][first].astype(np.int64) + 1
            yield name, "must be the same on all ops of a request", batch[name] != table[request] - 1
        new = first[self._user_of_session[session[first]] == 0][::-1]  # assigned last: the session's first request
        self._user_of_session[session[new]] = user[new] + 1
        yield "user_id", "must be the same on all ops of a session", user != self._user_of_session[session] - 1
        turn = batch["turn"][first].astype(np.int64)
        turn_before = np.maximum(_previous_in_group(session[first], turn, self._turn_of_session), 0)
        broken = _mask(len(request), first[turn != turn_before + 1])
        yield "turn", "turns of a session are 1, 2, … in the order of its requests", broken
        step = batch["step"].astype(np.int64)
        step_before = _previous_in_group(request, step, self._step_of_request)
        yield "step", "starts at 0 in a request and grows by at most 1", (step < step_before) | (step > step_before + 1)
        request_before = _previous_in_group(user, request, self._request_of_user)
        yield "request_id", "this user's next request has begun already", request < request_before
        pauses = batch["think_ns"] != 0
        yield "think_ns", "must be 0 but on the first op of a request", pauses & ~_mask(len(request), first)
        yield "think_ns", "must be 0 on a user's first request", pauses & (request_before < 0)

    def _keys(self, batch: Batch) -> Iterator[tuple[str, str, Mask]]:
        key, tokens = batch["key"], batch["tokens"]
        first, gaps = self._first_appearances("key", key, self._key_tokens)
        yield "key", "keys are numbered in order of first appearance, without gaps", gaps
        is_first = _mask(len(key), first)
        is_write = batch["op"] == WRITE
        yield "key", "used before it was written", is_first & ~is_write
        yield "key", "written twice: a key's first op is its only write", ~is_first & is_write
        self._key_tokens[key[first]] = np.maximum(tokens[first], 1)
        wrong = (tokens != self._key_tokens[key]) & (tokens >= 1)
        yield "tokens", "must be the same on all ops of a key", wrong

    def _first_appearances(self, name: str, ids: NDArray[Any], table: NDArray[Any]) -> tuple[NDArray[Any], Mask]:
        """Rows where an id appears for the first time, and the mask of those that do not follow the one before.

        Args:
            name: of the column.
            ids: its values.
            table: by id, 0 where it has not appeared.
        """
        fresh = np.flatnonzero(table[ids] == 0)
        rows = fresh[np.sort(np.unique(ids[fresh], return_index=True)[1])]
        sequence = np.concatenate([[self._highest[name]], ids[rows]])
        self._highest[name] = int(sequence[-1])
        return rows, _mask(len(ids), rows[np.diff(sequence) != 1])

    def finish(self, counts: dict[str, int]) -> Iterator[Problem]:
        """Violations that only the whole trace shows."""
        found = {"ops": self._row, "requests": self._highest["request_id"] + 1, "keys": self._highest["key"] + 1}
        for name, table in (("session_id", self._turn_of_session), ("user_id", self._request_of_user)):
            used = np.flatnonzero(table)
            found[name.removesuffix("_id") + "s"] = len(used)
            if len(used) and used[-1] != len(used) - 1:
                missing = int(np.flatnonzero(table == 0)[0])
                yield Problem(None, name, int(used[-1]), f"ids are dense, but {missing} never appears")
        for name, number in found.items():
            if name in counts and counts[name] != number:
                yield Problem(None, f"counts.{name}", counts[name], f"the ops give {number}")


def _mask(size: int, rows: NDArray[Any]) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[rows] = True
    return mask


def _previous_in_group(group: NDArray[Any], values: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
    """The value before each row within its group, -1 where there is none; `table` carries value + 1 between batches."""
    order = np.argsort(_compact(group), kind="stable")
    groups, ordered = group[order], values[order]
    size, differs = len(group), groups[1:] != groups[:-1]
    starts, ends = np.concatenate([[True], differs])[:size], np.concatenate([differs, [True]])[:size]
    before = np.empty(size, np.int64)
    before[order] = np.where(starts, table[groups] - 1, np.concatenate([ordered[:1], ordered[:-1]]))
    table[groups[ends]] = ordered[ends] + 1
    return before


def _compact(ids: NDArray[Any]) -> NDArray[Any]:
    """The same order in 16 bits, where they suffice: numpy sorts those by radix, ten times as fast."""
    least = ids.min() if len(ids) else 0
    return (ids - least).astype(np.uint16) if len(ids) and ids.max() - least < 1 << 16 else ids
