"""The ops that a replay takes of a trace, in memory as the compiled core reads them: 36 bytes an op."""

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import TRACE_KEY, TRACE_OP, TRACE_REQUEST, WorkloadStruct, address, call, reference
from replayer.planning.model import TokenBytes
from replayer.planning.pace import Pace
from replayer.planning.trace_selection import Selection
from tracegen.errors import InputError
from tracegen.schema import DTYPES, Columns, Trace

BATCH_OPS: Final = 1 << 18
_MOST: Final = (1 << 31) - 1  # rows, keys and requests are numbered by 31 bits
_COLUMNS: Final = (
    *("op_id", "time_ns", "request_id", "session_id", "user_id", "key", "think_ns"),
    *("turn", "step", "tokens", "new_tokens"),
    *("qos", "phase", "op", "source"),
)

_add, _index = call("workload_add"), call("workload_index")


class Workload:
    """Ops in the order of the trace, by row; requests and keys by their ids.

    Attributes:
        ops, requests, users, keys: how many there are; ids below them may have no op.
        struct: as the core reads it.

    Raises:
        InputError: the trace breaks an invariant of its format, or has more ops than can be numbered.
    """

    def __init__(self, trace: Trace, selection: Selection, bytes_per_token: TokenBytes) -> None:
        most = trace.ops * selection.cycles
        if most > _MOST:
            raise InputError(f"{trace.path}: {most:,} ops are more than {_MOST:,}; pass fewer --cycles, or a slice.")
        self.ops = 0
        self._op, self._request, self._key = (
            np.empty(most, TRACE_OP),
            np.zeros(0, TRACE_REQUEST),
            np.zeros(0, TRACE_KEY),
        )
        if selection == Selection():
            batches = trace.checked_batches(BATCH_OPS)
        else:
            trace.check()
            batches = selection.batches(trace, BATCH_OPS)
        for batch in batches:
            self._take(batch, trace)
        self._op = self._op[: self.ops]
        self.keys = int(self._op["key"].max(initial=0)) + 1 if self.ops else 0
        self.requests = int(self._op["request"].max(initial=-1)) + 1
        self._request, self._key = self._request[: self.requests], self._key[: self.keys]
        self.users = int(self._request["user"].max(initial=-1)) + 1
        self._key["size"] = bytes_per_token.of(self._key["tokens"])
        self._rows, self._first = np.empty(self.ops, np.int32), np.full(self.users, -1, np.int32)
        self.struct = WorkloadStruct(
            self.ops, self.requests, self.users, self.keys,
            *map(address, (self._op, self._request, self._key, self._rows, self._first)),
        )  # fmt: skip
        last = np.full(self.users, -1, np.int32)
        _index(reference(self.struct), *map(address, (self._request, self._rows, self._first, last)))

    def _take(self, batch: Columns, trace: Trace) -> None:
        key, request = int(batch["key"].max(initial=-1)), int(batch["request_id"].max(initial=-1))
        if max(key, request) > _MOST:
            raise InputError(f"{trace.path}: more than {_MOST:,} keys or requests; replay a slice.")
        self._key, self._request = _reaching(self._key, key), _reaching(self._request, request)
        columns = [np.ascontiguousarray(batch[name], DTYPES[name]) for name in _COLUMNS]
        addresses = (ctypes.c_void_p * len(columns))(*map(address, columns))
        count = len(batch["op_id"])
        _add(addresses, count, *map(address, (self._op[self.ops :], self._request, self._key)))
        self.ops += count

    def sizes(self) -> NDArray[np.int64]:
        """Bytes per key, shape (keys,)."""
        return self._key["size"]

    def waits_ns(self, pace: Pace) -> float:
        """How long its requests take one after the other, without any I/O: times, thinking, generation, prefill."""
        generated, computed = (self._op[name].sum(dtype=np.float64) for name in ("new_tokens", "tokens"))
        asked = self._request["time_ns"].max(initial=0) + self._request["think_ns"].sum(dtype=np.float64)
        prefill_ns = 1e9 / pace.prefill_tok_s if pace.prefill_tok_s else 0.0
        return float(asked / pace.speedup + generated * pace.token_ms * 1e6 + computed * prefill_ns)

    def arrivals(self) -> NDArray[np.int64]:
        """When each request arrives in the trace, in ns; shape (requests,)."""
        return np.where(self._request["count"] > 0, self._request["time_ns"], self._request["time_ns"].max(initial=0))

    def requests_of(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """The requests of rows."""
        requests: NDArray[np.int32] = self._op["request"][rows]
        return requests

    def one_by_one(self, rows: NDArray[np.int64]) -> bool:
        """Whether, in an order of these rows, all of a user's request comes before any of the next one."""
        requests, places = self._op["request"][rows], np.arange(len(rows))
        first, last = np.full(self.requests, len(rows)), np.full(self.requests, -1)
        np.minimum.at(first, requests, places)
        np.maximum.at(last, requests, places)
        whole = np.bincount(requests, minlength=self.requests) == self._request["count"]
        before = np.flatnonzero(self._request["next"] >= 0)
        after = self._request["next"][before]
        return bool(((whole[before] & (last[before] < first[after])) | (last[after] < 0)).all())

    def least_s(self, pace: str, speedup: float) -> float:
        """Seconds that pass at least until the last request starts, however fast the system is."""
        taken = self._request[self._request["count"] > 0]
        if pace == "asap" or not len(taken):
            return 0.0
        if pace == "open":
            return float(taken["time_ns"].max()) / 1e9 / speedup
        pauses = np.bincount(taken["user"], weights=taken["think_ns"], minlength=self.users)
        first = self._first[self._first >= 0]
        users = self._request["user"][first]
        begun = self._request["time_ns"][first] - self._request["think_ns"][first]
        return float((pauses[users] + begun).max()) / 1e9 / speedup

    def described(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What the log says of the ops of these rows, whatever moves they make; one value per row."""
        ops = self._op[rows]
        requests = self._request[ops["request"]]
        return {
            "request_id": ops["request"],
            **{f"{name}_id": requests[name] for name in ("session", "user")},
            "turn": requests["turn"],
            **{name: ops[name] for name in ("step", "qos", "phase", "source", "new_tokens")},
        }

    def tokens(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Tokens of these objects."""
        found: NDArray[np.int32] = self._key["tokens"][keys]
        return found

    def op_ids(self) -> NDArray[np.int64]:
        """By row."""
        return self._op["op_id"]


def _reaching(table: NDArray[Any], highest: int) -> NDArray[Any]:
    """The table, long enough for an id; grown by more, so that it is not copied for each batch."""
    if highest < len(table):
        return table
    grown = np.zeros(max(highest + 1, min(2 * len(table), highest + 1 + len(table) // 2)), table.dtype)
    grown[: len(table)] = table
    return grown
