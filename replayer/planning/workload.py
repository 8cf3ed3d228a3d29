"""The ops of a replay in memory, as compiled code reads them: 36 bytes per op."""

import copy
import ctypes
import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.arrangements.arrangement import WATERFALL, Arrangement
from replayer.bindings.compiled import TRACE_KEY, TRACE_OP, TRACE_REQUEST, WorkloadStruct, address, call, reference
from replayer.models.geometry import TokenBytes
from replayer.planning.pace import Pace
from replayer.planning.trace_selection import OpSource, Selection
from tracegen.errors import InputError
from tracegen.memory import PLANNING, require_for_trace
from tracegen.schema import DECODE, DTYPES, ENUMS, Columns

BATCH_OPS: Final = 1 << 18
_MAX_NUMBER: Final = (1 << 31) - 1  # rows, keys and requests are numbered with 31 bits
_COLUMNS: Final = (
    *("op_id", "time_ns", "request_id", "session_id", "user_id", "key", "think_ns"),
    *("turn", "step", "tokens", "new_tokens"),
    *("qos", "phase", "op", "source"),
)

_add_columns = call("workload_add")
_index_requests = call("workload_index")
_store_chunks = call("workload_store")


class Workload:
    """The selected ops by row, in the order of the trace; requests and keys by their ids.

    Attributes:
        ops: number of ops.
        requests: number of requests; an id below it may have no op.
        users: number of users; an id below it may have no op.
        keys: number of keys; an id below it may have no op.
        struct: the workload as compiled code reads it.

    Raises:
        InputError: the trace breaks an invariant of its format, or has more ops, keys or requests
            than can be numbered.
    """

    def __init__(
        self, trace: OpSource, selection: Selection, bytes_per_token: TokenBytes, arrangement: Arrangement = WATERFALL
    ) -> None:
        most_ops = _count_ops(trace, selection)
        self.ops = 0
        self._op = np.empty(most_ops, TRACE_OP)
        self._request = np.zeros(0, TRACE_REQUEST)
        self._key = np.zeros(0, TRACE_KEY)
        # Read once and checked on the way; a selection reads several times, and is checked before.
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
        self._request = self._request[: self.requests]
        self._key = self._key[: self.keys]
        self.users = int(self._request["user"].max(initial=-1)) + 1
        self._index()
        self._block_tokens = trace.metadata.block_tokens or 0
        self._key["size"] = bytes_per_token.object_bytes(self._held_tokens(arrangement))

    def _take(self, batch: Columns, trace: OpSource) -> None:
        """Add the ops of a batch."""
        highest_key, highest_request = (int(batch[name].max(initial=-1)) for name in ("key", "request_id"))
        if max(highest_key, highest_request) > _MAX_NUMBER:
            raise InputError(
                f"it has more than {_MAX_NUMBER:,} keys or requests", "replay a slice of it", subject=trace.path
            )
        self._key = _grow(self._key, highest_key)
        self._request = _grow(self._request, highest_request)
        columns = [np.ascontiguousarray(batch[name], DTYPES[name]) for name in _COLUMNS]
        addresses = (ctypes.c_void_p * len(columns))(*map(address, columns))
        count = len(batch["op_id"])
        new_ops = self._op[self.ops :]
        _add_columns(addresses, count, *map(address, (new_ops, self._request, self._key)))
        self.ops += count

    def _index(self) -> None:
        """Link the ops of each request and the requests of each user."""
        self._rows = np.empty(self.ops, np.int32)
        self._first_request = np.full(self.users, -1, np.int32)
        self.struct = self._make_struct()
        last_request = np.full(self.users, -1, np.int32)
        arrays = (self._request, self._rows, self._first_request, last_request)
        _index_requests(reference(self.struct), *map(address, arrays))

    def _make_struct(self) -> WorkloadStruct:
        arrays = (self._op, self._request, self._key, self._rows, self._first_request)
        numbers = (self.ops, self.requests, self.users, self.keys)
        return WorkloadStruct(*numbers, *map(address, arrays))

    def with_sizes(self, bytes_per_token: TokenBytes, arrangement: Arrangement) -> "Workload":
        """Return the workload for another model and arrangement; it shares all but the keys.

        Args:
            bytes_per_token: of the model.
            arrangement: its chunks count; this workload must be one without chunks.
        """
        other = copy.copy(self)
        other._key = self._key.copy()
        # The struct has the addresses of arrays, and that of the keys is another now.
        other.struct = other._make_struct()
        other._key["size"] = bytes_per_token.object_bytes(other._held_tokens(arrangement))
        return other

    def _held_tokens(self, arrangement: Arrangement) -> NDArray[np.int32]:
        """Return the tokens that each object takes in a tier, shape (keys,).

        With chunks, also note how many of its tokens a hit spares.
        """
        tokens: NDArray[np.int32] = self._key["tokens"]
        if not arrangement.chunk_tokens:
            return tokens
        held = np.zeros(self.keys, np.int32)
        used = np.flatnonzero(self._request["count"])
        sessions = self._request["session"]
        latest = np.zeros(int(sessions.max(initial=-1)) + 1, np.int64)
        latest[sessions[used]] = used  # the last assignment stays
        scratch = np.zeros((3, self.keys), np.int32)
        _store_chunks(
            reference(self.struct),
            address(self._key),
            arrangement.chunk_tokens,
            arrangement.tail == "keep",
            arrangement.unsaved_tokens,
            address(held),
            address(scratch),
            self._block_tokens,
            address(latest),
        )
        return held

    def sizes(self) -> NDArray[np.int64]:
        """Return the bytes of each object, shape (keys,)."""
        return self._key["size"]

    def spared_tokens(self) -> NDArray[np.int32]:
        """Return the tokens that a hit on each object spares, shape (keys,)."""
        spared: NDArray[np.int32] = self._key["stored"]
        return spared

    def op_ids(self) -> NDArray[np.int64]:
        """Return the op_id of each row, shape (ops,)."""
        return self._op["op_id"]

    def tokens(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the tokens of these objects, shape as `keys`."""
        tokens: NDArray[np.int32] = self._key["tokens"][keys]
        return tokens

    def prompts(self) -> tuple[NDArray[np.int32], NDArray[np.uint32], NDArray[np.bool_]]:
        """Return request, key and whether the key is used again, for each op of a prompt.

        Prompts are prefill reads and writes, in the order of the trace. A key is used again if any
        op before, decode ops included, is on it.
        """
        first = np.zeros(self.keys, np.int64)
        first[self._op["key"][::-1]] = np.arange(self.ops)[::-1]  # the last assignment stays
        is_delete = self._op["op"] == ENUMS["op"].index("delete")
        is_prefill = self._op["phase"] == ENUMS["phase"].index("prefill")
        rows = np.flatnonzero(is_prefill & ~is_delete)
        keys = self._op["key"][rows]
        return self._op["request"][rows], keys, first[keys] < rows

    def decode_share(self) -> float:
        """Return the share of the ops that are of decode steps."""
        return float((self._op["phase"] == DECODE).mean()) if self.ops else 0.0

    def arrivals(self) -> NDArray[np.int64]:
        """Return when each request arrives in the trace, in ns; shape (requests,).

        A request without ops arrives with the last one.
        """
        times = self._request["time_ns"]
        return np.where(self._request["count"] > 0, times, times.max(initial=0))

    def longest_request(self, block_tokens: int) -> tuple[int, int]:
        """Return the request that needs the most blocks while a serving engine runs it, and how many.

        Its prompt needs them and its answer, but for the last token, which is not computed.
        """
        is_prefill = self._op["phase"] == ENUMS["phase"].index("prefill")
        is_prompt = is_prefill & (self._op["op"] != ENUMS["op"].index("delete"))
        tokens = np.zeros(self.requests, np.int64)
        for counted in (np.where(is_prompt, self._op["tokens"], 0), self._op["new_tokens"]):
            sums = np.bincount(self._op["request"], weights=counted, minlength=self.requests)
            tokens += np.maximum(sums, 1).astype(np.int64)
        longest = int(tokens.argmax()) if len(tokens) else 0
        return longest, -(-(int(tokens.max(initial=2)) - 1) // block_tokens)

    def total_wait_ns(self, pace: Pace) -> float:
        """Return the time in ns that all requests take one after the other, without any I/O.

        It is the sum of the trace's times, thinking, generation and prefill.
        """
        # Floats, as what is refused are sums that do not fit into 63 bits.
        generated, computed = self._token_sums
        think_ns = self._request["think_ns"].sum(dtype=np.float64)
        asked_ns = self._request["time_ns"].max(initial=0) + think_ns
        prefill_ns = 1e9 / pace.prefill_tok_s if pace.prefill_tok_s else 0.0
        generation_ns = generated * pace.token_ms * 1e6
        return float(asked_ns / pace.speedup + generation_ns + computed * prefill_ns)

    @functools.cached_property
    def _token_sums(self) -> tuple[float, float]:
        """Tokens that all ops generate, and tokens of their objects."""
        names = ("new_tokens", "tokens")
        generated, tokens = (self._op[name].sum(dtype=np.float64) for name in names)
        return float(generated), float(tokens)

    def has_whole_requests(self, rows: NDArray[np.int64]) -> bool:
        """Return whether, in this order of rows, each request of a user ends before the next."""
        requests = self._op["request"][rows]
        positions = np.arange(len(rows))
        first = np.full(self.requests, len(rows))
        last = np.full(self.requests, -1)
        np.minimum.at(first, requests, positions)
        np.maximum.at(last, requests, positions)
        is_whole = np.bincount(requests, minlength=self.requests) == self._request["count"]
        # A user's request may be cut off only if none of the user's later ones is there.
        earlier = np.flatnonzero(self._request["next"] >= 0)
        later = self._request["next"][earlier]
        in_order = is_whole[earlier] & (last[earlier] < first[later])
        is_absent = last[later] < 0
        return bool((in_order | is_absent).all())

    def describe_ops(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the log's columns that belong to the ops of these rows, one value per row."""
        ops = self._op[rows]
        requests = self._request[ops["request"]]
        return {
            "request_id": ops["request"],
            "session_id": requests["session"],
            "user_id": requests["user"],
            "turn": requests["turn"],
            **{name: ops[name] for name in ("step", "qos", "phase", "source", "new_tokens")},
        }


def _count_ops(trace: OpSource, selection: Selection) -> int:
    """Return the most ops that may be selected, unless they are too many or their memory is lacking."""
    most_ops = trace.ops * selection.cycles
    if most_ops > _MAX_NUMBER:
        raise InputError(
            f"{most_ops:,} ops are more than {_MAX_NUMBER:,}",
            "pass fewer `cycles`, or a slice of the trace",
            subject=trace.path,
        )
    counts = trace.metadata.counts
    # An estimate: how many ops a user or a session has is known only after reading.
    likely = most_ops // selection.part[1]
    if selection.users is not None and counts.get("users"):
        likely = min(likely, likely * selection.users // counts["users"])
    require_for_trace(likely, counts, PLANNING, cycles=selection.cycles, subject=trace.path)
    return most_ops


def _grow(table: NDArray[Any], highest: int) -> NDArray[Any]:
    """Return the table with a row for the id `highest`.

    A table that is too short grows by half of its length, so that it is not copied for each batch.
    """
    if highest < len(table):
        return table
    capacity = max(highest + 1, min(2 * len(table), highest + 1 + len(table) // 2))
    grown = np.zeros(capacity, table.dtype)
    grown[: len(table)] = table
    return grown
