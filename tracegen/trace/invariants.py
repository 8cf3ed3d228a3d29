"""The invariants of a trace, checked batch by batch; each violation names its row, column and value.

Compiled code finds the violations in one pass (`core/invariants.c`); this says what they mean.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.trace.compiled import library

Batch = dict[str, NDArray[Any]]

_COLUMNS: Final = {
    np.int64: "op_id time_ns request_id session_id user_id key think_ns",
    np.int32: "turn step tokens new_tokens",
    np.uint8: "qos op",
}
_DENSE: Final = "ids are dense: 0 to {} at most"
_RULES: Final = (
    ("op_id", "must be the row's number"),
    ("time_ns", "must be at least 0"),
    ("turn", "must be at least 1"),
    ("step", "must be at least 0"),
    ("tokens", "must be at least 1"),
    ("new_tokens", "must be at least 0"),
    ("think_ns", "must be at least 0"),
    ("request_id", _DENSE),
    ("session_id", _DENSE),
    ("user_id", _DENSE),
    ("key", _DENSE),
    ("time_ns", "time must not go back"),
    ("user_id", "ops of one time are sorted by user"),
    ("request_id", "a user's ops of one time are sorted by request"),
    ("request_id", "requests are numbered in order of arrival, without gaps"),
    ("session_id", "must be the same on all ops of a request"),
    ("turn", "must be the same on all ops of a request"),
    ("qos", "must be the same on all ops of a request"),
    ("user_id", "must be the same on all ops of a session"),
    ("turn", "turns of a session are 1, 2, … in the order of its requests"),
    ("step", "starts at 0 in a request and grows by at most 1"),
    ("request_id", "this user's next request has begun already"),
    ("think_ns", "must be 0 but on the first op of a request"),
    ("think_ns", "must be 0 on a user's first request"),
    ("key", "keys are numbered in order of first appearance, without gaps"),
    ("key", "used before it was written"),
    ("key", "written twice: a key's first op is its only write"),
    ("tokens", "must be the same on all ops of a key"),
)
"""Column and rule, by the codes of `core/invariants.c`."""

_CORE: Final = library("tracegen._core")
_new, _free, _feed, _counts = (getattr(_CORE, f"invariants_{name}") for name in ("new", "free", "feed", "counts"))
_new.restype, _new.argtypes = ctypes.c_void_p, (ctypes.c_int64,)
_free.restype, _free.argtypes = None, (ctypes.c_void_p,)
_feed.restype = ctypes.c_int64
_feed.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_counts.restype, _counts.argtypes = None, (ctypes.c_void_p, ctypes.c_void_p)


class _Broken(ctypes.Structure):
    _fields_ = (("row", ctypes.c_int64), ("rule", ctypes.c_int64))


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
    """Takes batches in order; holds what must agree between rows: a few integers per key, request, session, user.

    Attributes:
        found: violations so far; only the first hundred are given.
    """

    def __init__(self, ops: int) -> None:
        self._ops, self._row, self.found = ops, 0, 0
        self._state: int | None = _new(ops)

    def feed(self, batch: Batch) -> Iterator[Problem]:
        """Violations in the next batch, by row, as long as no hundred have been given."""
        columns = [
            np.ascontiguousarray(batch[name], dtype) for dtype, names in _COLUMNS.items() for name in names.split()
        ]
        addresses = (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))
        count, broken, found = len(columns[0]), ctypes.POINTER(_Broken)(), ctypes.c_int64()
        begin, self._row = self._row, self._row + count
        given = _feed(self._state, addresses, count, ctypes.byref(broken), ctypes.byref(found))
        self.found = found.value
        for i in range(given):
            column, rule = _RULES[broken[i].rule]
            value = batch[column][broken[i].row - begin].item()
            yield Problem(broken[i].row, column, value, rule.format(self._ops - 1))

    def finish(self, counts: dict[str, int]) -> Iterator[Problem]:
        """Violations that only the whole trace shows."""
        out = np.zeros(9, np.int64)
        _counts(self._state, out.ctypes.data)
        ops, request, key, sessions, last_session, no_session, users, last_user, no_user = out.tolist()
        for name, last, missing in (("session_id", last_session, no_session), ("user_id", last_user, no_user)):
            if 0 <= missing < last:
                yield Problem(None, name, last, f"ids are dense, but {missing} never appears")
        found = {"ops": ops, "requests": request + 1, "keys": key + 1, "sessions": sessions, "users": users}
        for name, number in found.items():
            if name in counts and counts[name] != number:
                yield Problem(None, f"counts.{name}", counts[name], f"the ops give {number}")

    def __del__(self) -> None:
        if getattr(self, "_state", None) is not None:
            _free(self._state)
            self._state = None
