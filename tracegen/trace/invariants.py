"""The invariants of a trace, checked batch by batch.

Compiled code finds the violations in one pass (`core/invariants.c`). This module puts each into
words, with its row, column and value.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from tracegen.trace.columns import Columns
from tracegen.trace.compiled import library

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
_new = _CORE.invariants_new
_new.restype = ctypes.c_void_p
_new.argtypes = (ctypes.c_int64,)
_free = _CORE.invariants_free
_free.restype = None
_free.argtypes = (ctypes.c_void_p,)
_feed = _CORE.invariants_feed
_feed.restype = ctypes.c_int64
_feed.argtypes = (
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_counts = _CORE.invariants_counts
_counts.restype = None
_counts.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


class _Broken(ctypes.Structure):
    """A row and the code of the rule that it breaks."""

    _fields_ = (("row", ctypes.c_int64), ("rule", ctypes.c_int64))


class _Seen(NamedTuple):
    """The numbers that `invariants_counts` fills in, in this order; -1 means none."""

    ops: int
    last_request: int
    last_key: int
    sessions: int
    last_session: int
    missing_session: int
    users: int
    last_user: int
    missing_user: int


@dataclass(frozen=True)
class Problem:
    """One violation of the format.

    Attributes:
        row: its row; None if it concerns the file as a whole.
        column: the column or the entry of the metadata.
        value: the value there.
        rule: the rule that it breaks, in words.
    """

    row: int | None
    column: str
    value: object
    rule: str

    def __str__(self) -> str:
        """Return the line that `tracegen validate` prints."""
        place = "file metadata" if self.row is None else f"row {self.row}"
        return f"{place}: {self.column} = {self.value}: {self.rule}"


class Invariants:
    """Checker of a trace's rows, fed batch by batch.

    Holds the facts that rows must agree on: a few integers per key, request, session and user.

    Args:
        ops: number of ops in the trace.

    Raises:
        MemoryError: there is not enough memory.

    Attributes:
        violations: number of violations so far; only the first hundred are described.
    """

    def __init__(self, ops: int) -> None:
        self._ops = ops
        self._row = 0
        self.violations = 0
        self._state: int | None = _new(ops)
        if self._state is None:
            raise MemoryError(f"to check {ops:,} ops")

    def feed(self, batch: Columns) -> Iterator[Problem]:
        """Yield the violations in the next batch, by row, up to a hundred in the whole trace."""
        columns = [np.ascontiguousarray(batch[name], dtype) for dtype, names in _COLUMNS.items() for name in names]
        addresses = (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))
        count = len(columns[0])
        broken = ctypes.POINTER(_Broken)()
        violations = ctypes.c_int64()
        begin = self._row
        self._row += count
        described = _feed(self._state, addresses, count, ctypes.byref(broken), ctypes.byref(violations))
        self.violations = violations.value
        for i in range(described):
            column, rule = _RULES[broken[i].rule]
            value = batch[column][broken[i].row - begin].item()
            yield Problem(broken[i].row, column, value, rule.format(self._ops - 1))

    def finish(self, counts: dict[str, int]) -> Iterator[Problem]:
        """Yield the violations that only the whole trace shows.

        Args:
            counts: the counts in the trace's metadata, to be compared with the ops.
        """
        out = np.zeros(len(_Seen._fields), np.int64)
        _counts(self._state, out.ctypes.data)
        seen = _Seen(*out.tolist())
        ids = {
            "session_id": (seen.last_session, seen.missing_session),
            "user_id": (seen.last_user, seen.missing_user),
        }
        for name, (last, missing) in ids.items():
            if 0 <= missing < last:
                yield Problem(None, name, last, f"ids are dense, but {missing} never appears")
        actual = {
            "ops": seen.ops,
            "requests": seen.last_request + 1,
            "keys": seen.last_key + 1,
            "sessions": seen.sessions,
            "users": seen.users,
        }
        for name, number in actual.items():
            if name in counts and counts[name] != number:
                yield Problem(None, f"counts.{name}", counts[name], f"the ops give {number}")

    def __del__(self) -> None:
        if getattr(self, "_state", None) is not None:
            _free(self._state)
            self._state = None
