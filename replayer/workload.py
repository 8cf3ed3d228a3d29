"""The ops that a replay takes of a trace, in memory as the compiled core reads them: about 30 bytes an op."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.compiled import WorkloadStruct, address, call
from replayer.model import TokenBytes
from replayer.selection import Selection
from tracegen.schema import WRITE, InputError, Trace

BATCH_OPS: Final = 1 << 18
_MOST: Final = (1 << 31) - 1  # rows, keys and requests are numbered by 31 bits
_OF_OP: Final = {"op_id": np.int64, "key": np.uint32, "request": np.int32, "step": np.int32, "new_tokens": np.int32}
_OF_REQUEST: Final = {"time_ns": np.int64, "think_ns": np.int64, "session": np.int64, "user": np.int64}
_NAMES: Final = {"request": "request_id", "session": "session_id", "user": "user_id"}

_index = call("workload_index")


class Workload:
    """Ops in the order of the trace, by row; requests and keys by their ids.

    Attributes:
        ops, requests, users, keys: how many there are; ids below them may have no op.
        size: bytes per key, shape (keys,).
        struct: as the core reads it.

    Raises:
        InputError: the trace breaks an invariant of its format, or has more ops than can be numbered.
    """

    def __init__(self, trace: Trace, selection: Selection, bytes_per_token: TokenBytes) -> None:
        most = trace.ops * selection.cycles
        if most > _MOST:
            raise InputError(f"{trace.path}: {most:,} ops are more than {_MOST:,}; pass fewer --cycles, or a slice.")
        self._op: dict[str, NDArray[Any]] = {name: np.empty(most, kind) for name, kind in _OF_OP.items()}
        self._op["what"] = np.empty(most, np.uint8)
        self._request: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _OF_REQUEST.items()}
        self._request["turn"], self._seen = np.zeros(0, np.int32), np.zeros(0, np.bool_)
        self._tokens, self._has_write = np.zeros(0, np.int32), np.zeros(0, np.uint8)
        self.ops = 0
        if selection == Selection():
            batches = trace.checked(BATCH_OPS)
        else:
            trace.check()
            batches = selection.batches(trace, BATCH_OPS)
        for batch in batches:
            self._add(batch, trace)
        self._op = {name: column[: self.ops] for name, column in self._op.items()}
        self.keys = int(self._op["key"].max()) + 1 if self.ops else 0
        self.requests = int(self._op["request"].max(initial=-1)) + 1
        self._tokens, self._has_write = self._tokens[: self.keys], self._has_write[: self.keys]
        self._request = {name: column[: self.requests] for name, column in self._request.items()}
        self._seen = self._seen[: self.requests]
        self.users = int(self._request["user"].max(initial=-1)) + 1
        self.size = bytes_per_token.of(self._tokens)
        self._begins, self._rows = np.zeros(self.requests + 1, np.int64), np.empty(self.ops, np.int32)
        _index(address(self._op["request"]), self.ops, self.requests, address(self._begins), address(self._rows))
        self._next, self._first = self._chains()
        arrays = self._op | self._request
        arrays |= {"rows": self._rows, "begins": self._begins, "next": self._next, "first": self._first}
        arrays |= {"size": self.size, "tokens": self._tokens, "has_write": self._has_write}
        self.struct = WorkloadStruct(self.ops, self.requests, self.users, self.keys)
        for name, array in arrays.items():
            setattr(self.struct, name, address(array))

    def _add(self, batch: dict[str, NDArray[Any]], trace: Trace) -> None:
        begin, self.ops = self.ops, self.ops + len(batch["op_id"])
        keys, requests = batch["key"], batch["request_id"]
        if max(int(keys.max(initial=0)), int(requests.max(initial=0))) > _MOST:
            raise InputError(f"{trace.path}: more than {_MOST:,} keys or requests; replay a slice.")
        for name in _OF_OP:
            self._op[name][begin : self.ops] = batch[_NAMES.get(name, name)]
        self._op["what"][begin : self.ops] = (
            batch["op"] | batch["phase"] << 2 | batch["qos"] << 3 | batch["source"] << 5
        )
        self._tokens, self._has_write = _reaching(self._tokens, keys), _reaching(self._has_write, keys)
        self._tokens[keys] = batch["tokens"]
        self._has_write[keys[batch["op"] == WRITE]] = 1
        self._seen = _reaching(self._seen, requests)
        fresh = np.flatnonzero(~self._seen[requests])[::-1]  # of a request's several ops the first one stays
        self._seen[requests[fresh]] = True
        for name in self._request:
            self._request[name] = _reaching(self._request[name], requests)
            self._request[name][requests[fresh]] = batch[_NAMES.get(name, name)][fresh]

    def _chains(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Of each request the same user's next one, of each user the first one; -1 where there is none."""
        after, first = np.full(self.requests, -1, np.int32), np.full(self.users, -1, np.int32)
        some = np.flatnonzero(self._seen)
        order = some[np.lexsort((self._rows[self._begins[some]], self._request["user"][some]))] if self.ops else some
        users = self._request["user"][order]
        same = users[1:] == users[:-1]
        after[order[:-1][same]] = order[1:][same]
        first[users[::-1]] = order[::-1]
        return after, first

    def one_by_one(self, rows: NDArray[np.int64]) -> bool:
        """Whether, in an order of these rows, all of a user's request comes before any of the next one."""
        requests, places = self._op["request"][rows], np.arange(len(rows))
        first, last = np.full(self.requests, len(rows)), np.full(self.requests, -1)
        np.minimum.at(first, requests, places)
        np.maximum.at(last, requests, places)
        whole = np.bincount(requests, minlength=self.requests) == np.diff(self._begins)
        before = np.flatnonzero(self._next >= 0)
        after = self._next[before]
        return bool(((whole[before] & (last[before] < first[after])) | (last[after] < 0)).all())

    def op_ids(self) -> NDArray[np.int64]:
        """By row."""
        return self._op["op_id"]


def _reaching(table: NDArray[Any], ids: NDArray[np.int64]) -> NDArray[Any]:
    """The table, at least as long as all ids need; grown by more, so that it is not copied for each batch."""
    top = int(ids.max(initial=-1)) + 1
    if top <= len(table):
        return table
    grown = np.zeros(max(top, min(2 * len(table), top + len(table) // 2)), table.dtype)
    grown[: len(table)] = table
    return grown
