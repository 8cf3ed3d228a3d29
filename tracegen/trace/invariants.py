"""The invariants of a trace, checked batch by batch.

Compiled code finds the violations in one pass (`core/invariants.c`). This module puts each into
words, with its row, column and value.
"""

import ctypes
from dataclasses import dataclass
from typing import Final

import numpy as np

from tracegen.trace.columns import Columns
from tracegen.trace.compiled import library
from tracegen.trace.metadata import Fingerprint, Metadata

_COLUMNS: Final = {
    np.int64: ("op_id", "time_ns", "request_id", "session_id", "user_id", "key", "think_ns"),
    np.int32: ("turn", "step", "tokens", "new_tokens"),
    np.uint8: ("qos", "op"),
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
    ("time_ns", "must not be less than in the row before"),
    ("user_id", "ops of the same time must be in order of their users"),
    ("request_id", "a user's ops of the same time must be in order of their requests"),
    ("request_id", "requests are numbered in order of arrival, without gaps"),
    ("session_id", "must be the same on all ops of a request"),
    ("turn", "must be the same on all ops of a request"),
    ("qos", "must be the same on all ops of a request"),
    ("user_id", "must be the same on all ops of a session"),
    ("turn", "turns of a session are 1, 2, … in the order of its requests"),
    ("step", "starts at 0 in a request and grows by at most 1"),
    ("request_id", "this user's next request has begun already"),
    ("think_ns", "must be 0 except on the first op of a request"),
    ("think_ns", "must be 0 on a user's first request"),
    ("key", "keys are numbered in order of first appearance, without gaps"),
    ("key", "used before it was written"),
    ("key", "written twice: a key's first op is its only write"),
    ("tokens", "must be the same on all ops of a key"),
)
"""Column and rule, in the order of the codes in `core/invariants.c`."""

_CORE: Final = library("tracegen._core")
_CORE.invariants_new.restype = ctypes.c_void_p
_CORE.invariants_new.argtypes = (ctypes.c_int64,)
_CORE.invariants_free.restype = None
_CORE.invariants_free.argtypes = (ctypes.c_void_p,)
_CORE.invariants_feed.restype = ctypes.c_int64
_CORE.invariants_feed.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
_CORE.invariants_counts.restype = None
_CORE.invariants_counts.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


class _Broken(ctypes.Structure):
    """A row and the code of the rule that it breaks."""

    _fields_ = (("row", ctypes.c_int64), ("rule", ctypes.c_int64))


@dataclass(frozen=True)
class Problem:
    """One violation of the format."""

    row: int | None  # its row; None if it concerns the file as a whole
    column: str  # the column or the entry of the metadata
    value: object  # the value there
    rule: str  # the rule that it breaks, in words

    def __str__(self) -> str:
        """Return the line that `tracegen validate` prints."""
        place = "file metadata" if self.row is None else f"row {self.row}"
        return f"{place}: {self.column} = {self.value}: {self.rule}"


class TraceCheck:
    """Checker of a trace's rows, and of the counts and fingerprint in its metadata, fed batch by batch.

    It holds the facts that rows must agree on: a few integers per key, request, session and user.

    Raises:
        MemoryError: there is not enough memory.
    """

    def __init__(self, ops: int, metadata: Metadata) -> None:
        self.problems: list[Problem] = []  # the first hundred of rows, then those of the whole file
        self.count = 0  # of all violations
        self._ops = ops
        self._row = 0
        self._metadata = metadata
        self._fingerprint = Fingerprint()
        self._state: int | None = _CORE.invariants_new(ops)
        if self._state is None:
            raise MemoryError(f"to check {ops:,} ops")

    def feed(self, batch: Columns) -> None:
        """Check the next ops."""
        self._fingerprint.update(batch)
        columns = [np.ascontiguousarray(batch[name], dtype) for dtype, names in _COLUMNS.items() for name in names]
        addresses = (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))
        rows = len(columns[0])
        broken = ctypes.POINTER(_Broken)()
        count = ctypes.c_int64()
        described = _CORE.invariants_feed(self._state, addresses, rows, ctypes.byref(broken), ctypes.byref(count))
        self.count = count.value
        for place in broken[:described]:
            column, rule = _RULES[place.rule]
            value = batch[column][place.row - self._row].item()
            self.problems.append(Problem(place.row, column, value, rule.format(self._ops - 1)))
        self._row += rows

    def finish(self) -> None:
        """Check the trace as a whole, after its last ops."""
        seen = np.zeros(9, np.int64)  # as `invariants_counts` writes them; -1: none
        _CORE.invariants_counts(self._state, seen.ctypes.data)
        found = []
        for name, (last, missing) in {"session_id": seen[4:6].tolist(), "user_id": seen[7:9].tolist()}.items():
            if 0 <= missing < last:
                found.append(Problem(None, name, last, f"ids are dense, but {missing} never appears"))
        ops, last_request, last_key, sessions, users = seen[[0, 1, 2, 3, 6]].tolist()
        actual = {"ops": ops, "requests": last_request + 1, "keys": last_key + 1, "sessions": sessions, "users": users}
        for name, number in actual.items():
            recorded = self._metadata.counts.get(name, number)
            if recorded != number:
                found.append(Problem(None, f"counts.{name}", recorded, f"the ops give {number}"))
        fingerprint = self._fingerprint.hexdigest()
        if fingerprint != self._metadata.fingerprint:
            found.append(Problem(None, "fingerprint", self._metadata.fingerprint, f"the ops give {fingerprint}"))
        self.problems += found
        self.count += len(found)

    def __del__(self) -> None:
        if getattr(self, "_state", None) is not None:
            _CORE.invariants_free(self._state)
            self._state = None
