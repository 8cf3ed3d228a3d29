"""The ops that a replay takes of a trace, in memory as the compiled core reads them: about 30 bytes an op."""

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.compiled import WorkloadStruct, address, call, reference
from replayer.model import TokenBytes
from replayer.selection import Selection
from tracegen.schema import DTYPES, InputError, Trace

BATCH_OPS: Final = 1 << 18
_MOST: Final = (1 << 31) - 1  # rows, keys and requests are numbered by 31 bits
_OF_OP: Final = {"op_id": np.int64, "key": np.uint32, "request": np.int32, "step": np.int32, "new_tokens": np.int32, "what": np.uint8}
_OF_REQUEST: Final = {"time_ns": np.int64, "think_ns": np.int64, "session": np.int64, "user": np.int64, "turn": np.int32}
_OF_KEY: Final = {"tokens": np.int32, "has_write": np.uint8}
_IN_CORE: Final = "op_id time_ns request_id session_id user_id key think_ns turn step tokens new_tokens qos phase op source"

_add, _chain, _index = (call(f"workload_{name}") for name in ("add", "chain", "index"))


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
        self._request: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _OF_REQUEST.items()}
        self._key: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in _OF_KEY.items()}
        self.ops = 0
        if selection == Selection():
            batches = trace.checked(BATCH_OPS)
        else:
            trace.check()
            batches = selection.batches(trace, BATCH_OPS)
        for batch in batches:
            self._take(batch, trace)
        self._op = {name: column[: self.ops] for name, column in self._op.items()}
        self.keys = int(self._op["key"].max()) + 1 if self.ops else 0
        self.requests = int(self._op["request"].max(initial=-1)) + 1
        self._key = {name: column[: self.keys] for name, column in self._key.items()}
        self._request = {name: column[: self.requests] for name, column in self._request.items()}
        self.users = int(self._request["user"].max(initial=-1)) + 1
        self.size = bytes_per_token.of(self._key["tokens"])
        self._begins, self._rows = np.zeros(self.requests + 1, np.int64), np.empty(self.ops, np.int32)
        _index(address(self._op["request"]), self.ops, self.requests, address(self._begins), address(self._rows))
        self._next, self._first = np.full(self.requests, -1, np.int32), np.full(self.users, -1, np.int32)
        arrays = self._op | self._request | self._key
        arrays |= {"rows": self._rows, "begins": self._begins, "next": self._next, "first": self._first}
        arrays |= {"size": self.size}
        self.struct = WorkloadStruct(self.ops, self.requests, self.users, self.keys)
        for name, array in arrays.items():
            setattr(self.struct, name, address(array))
        last = np.full(self.users, -1, np.int32)
        _chain(reference(self.struct), address(self._next), address(self._first), address(last))

    def _take(self, batch: dict[str, NDArray[Any]], trace: Trace) -> None:
        begin, self.ops = self.ops, self.ops + len(batch["op_id"])
        key, request = int(batch["key"].max(initial=-1)), int(batch["request_id"].max(initial=-1))
        if max(key, request) > _MOST:
            raise InputError(f"{trace.path}: more than {_MOST:,} keys or requests; replay a slice.")
        self._key = {name: _reaching(table, key) for name, table in self._key.items()}
        self._request = {name: _reaching(table, request) for name, table in self._request.items()}
        columns = [np.ascontiguousarray(batch[name], DTYPES[name]) for name in _IN_CORE.split()]
        tables = [*self._op.values(), *self._request.values(), *self._key.values()]
        _add(_addresses(columns), self.ops - begin, begin, _addresses(tables))

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


def _addresses(arrays: list[NDArray[Any]]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*map(address, arrays))


def _reaching(table: NDArray[Any], highest: int) -> NDArray[Any]:
    """The table, long enough for an id; grown by more, so that it is not copied for each batch."""
    if highest < len(table):
        return table
    grown = np.zeros(max(highest + 1, min(2 * len(table), highest + 1 + len(table) // 2)), table.dtype)
    grown[: len(table)] = table
    return grown
