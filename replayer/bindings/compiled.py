"""The compiled core through ctypes: its functions, and its structures as the headers declare them.

The headers are `core/core.h` and `core/engine.h`. Calls release the GIL. The caller keeps arrays
that it passes alive for as long as the core uses them.
"""

import ctypes
from collections.abc import Callable
from ctypes import Structure, c_char, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.trace.compiled import library

UNLIMITED: Final = 1 << 62
"""A capacity without a limit."""
NONE: Final = -1


def _numbers(names: str) -> list[tuple[str, Any]]:
    return [(name, c_int64) for name in names.split()]


class WorkloadStruct(Structure):
    """The selected ops of a trace, and indices over them."""

    _fields_ = (
        *_numbers("ops requests users keys"),
        *((name, c_void_p) for name in ("op", "request", "key", "rows", "first")),
    )


class TierRulesStruct(Structure):
    """Rules of a tier, as `TierRules` in core.h."""

    _fields_ = (
        *_numbers("usable capacity down touches admit_touches admit_table up policy high low"),
        *_numbers("evict_ppm fetch_tokens fetch_in_flight user_quota"),
    )


class Rules(Structure):
    """Rules of placement, as `Rules` in core.h."""

    _fields_ = (
        ("tier", TierRulesStruct * 3),
        *_numbers("inclusive contiguous first_writes with_room touch_all tail_first ttl_ns pinned"),
    )


class AccountStruct(Structure):
    """The account of a placement so far, per tier; see `Account` in core.h."""

    _fields_ = (
        *((name, c_int64 * 3) for name in ("used", "resident", "peak", "peak_objects")),
        *((name, c_int64 * 3) for name in ("admitted", "refused", "fetches", "fetches_refused")),
        ("largest", c_int64),
    )


class Load(Structure):
    """The load: when requests start, and how much may be in flight.

    Codes of `pace`: asap 0, closed 1, open 2.
    """

    _fields_ = (
        ("pace", c_int64),
        ("speedup", c_double),
        ("token_ms", c_double),
        ("prefill_tok_s", c_double),
        *_numbers("depth allocs workers"),
    )


class DeviceStruct(Structure):
    """A tier of a reference system."""

    _fields_ = tuple(_numbers("read_bytes_per_s write_bytes_per_s streams read_latency_ns write_latency_ns"))


class TotalsStruct(Structure):
    """Sums over moves; counts and bytes per (move, from, to)."""

    _fields_ = (
        *_numbers("ops reads recomputed_tokens"),
        ("counts", c_int64 * (9 * 4 * 4)),
        ("bytes", c_int64 * (9 * 4 * 4)),
    )


class CountsStruct(Structure):
    """The counts of a plan, as `Counts` in core.h: tables per source, per tier, or per both."""

    _fields_ = (
        ("reads", c_int64 * 5),
        ("hits", c_int64 * 15),
        ("prompt_tokens", c_int64 * 5),
        ("spared_tokens", c_int64 * 15),
        *_numbers("requests reading_requests missing_requests"),
        *((name, c_int64 * 3) for name in ("entries", "read_entries", "drops", "free_drops")),
        *((name, c_void_p) for name in ("totals", "bytes", "minute", "request", "key")),
    )


class StationStruct(Structure):
    """Reads or writes of a tier of a measured machine, as `Station` in stations.h."""

    _fields_ = (
        *_numbers("points has_spread"),
        *((name, c_double * 16) for name in ("load", "open_ns", "latency_ns", "byte_ns", "remove_ns")),
        ("spread", c_double * 9 * 16),
        ("other_weight", c_double),
        ("turn_bytes", c_double),
    )


class ProfileStruct(Structure):
    """A measured machine, as `Profile` in stations.h; stations by tier and direction."""

    _fields_ = (
        ("tier", StationStruct * 2 * 3),
        *((name, c_double) for name in ("cores", "make_byte_ns", "check_byte_ns", "move_ns")),
    )


class EngineSettings(Structure):
    """Settings of an execution; -1: no limit."""

    _fields_ = (
        *_numbers("workers chunk verify window_ops window_bytes duration_ns drain_ns most_ops"),
        *_numbers("warmup_position warmup_ns max_errors trace_order"),
    )


class FaultStruct(Structure):
    """Why a move failed.

    Kind 0: `text` is a path; 1: `text` is the reason; 2: the bytes read are wrong, `text` says how.
    """

    _fields_ = (*_numbers("error kind"), ("text", c_char * 240))


class Job(Structure):
    """A move, its times and its outcome."""

    _fields_ = (
        *_numbers("kind key source target size"),
        *_numbers("status start_ns done_ns read_ns write_ns device_read_ns device_write_ns verify_ns"),
        ("fault", FaultStruct),
    )


class State(Structure):
    """Counters and times of an execution so far."""

    _fields_ = tuple(
        _numbers(
            "over cut cut_ns stopped_ns issued_ns ended_ns steady_ns retired executed failures"
            " warmup_position nvme_read_bytes log_stalled_ns in_window too_many_errors stuck left"
            " in_flight queued"
        )
    )


class BlockIOStruct(Structure):
    """Requests of a tier to its file system."""

    _fields_ = tuple(_numbers("request_bytes depth fsync uring"))


class Extent(Structure):
    """A range of a tier's bytes."""

    _fields_ = tuple(_numbers("start bytes"))


class ObjectStruct(Structure):
    """An open object of a tier."""

    _fields_ = (
        ("tier", c_void_p),
        ("key", c_uint64),
        *_numbers("size device_ns extents claimed"),
        ("extent", Extent),
        ("extent_list", c_void_p),
        ("descriptor", c_int),
    )


TRACE_OP: Final = np.dtype(
    [
        ("op_id", np.int64),
        ("key", np.uint32),
        *((name, np.int32) for name in ("request", "step", "new_tokens", "tokens")),
        *((name, np.uint8) for name in ("op", "phase", "qos", "source")),
    ]
)
TRACE_REQUEST: Final = np.dtype(
    [
        *((name, np.int64) for name in ("time_ns", "think_ns", "session", "user")),
        *((name, np.int32) for name in ("turn", "next", "begin", "count")),
    ]
)
TRACE_KEY: Final = np.dtype(
    [
        ("size", np.int64),
        *((name, np.int32) for name in ("tokens", "stored", "has_write")),
    ],
    align=True,
)
PLANNED_OP: Final = np.dtype([(name, np.int64) for name in ("row", "role", "moves")])
PLANNED: Final = np.dtype(
    [
        ("size", np.int64),
        ("key", np.uint32),
        ("move", np.int8),
        ("from_tier", np.int8),
        ("to_tier", np.int8),
        ("background", np.int8),
    ],
    align=True,
)
RECORD: Final = np.dtype(
    [
        (name, kind)
        for kind, names in (
            (np.int64, "op_id position request_id session_id user_id key size_bytes due_ns ready_ns start_ns end_ns"),
            (np.int64, "read_ns write_ns device_read_ns device_write_ns verify_ns window_ns order_ns"),
            (np.int32, "seq turn step new_tokens tokens worker error"),
            (np.int8, "qos phase op source move status from_tier to_tier waited_for warmup"),
        )
        for name in names.split()
    ],
    align=True,
)

UNFINISHED: Final = np.dtype([("request", np.int64), ("due_ns", np.int64), ("qos", np.int32), ("in_prefill", np.int32)])


_LIBRARY: Final = library("replayer._core")
_VOID: Final = None
_P: Final = c_void_p
_I: Final = c_int64
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "clock_ns": (_I, ()),
    "workload_add": (_VOID, (_P, _I, _P, _P, _P)),
    "workload_index": (_VOID, (_P, _P, _P, _P, _P)),
    "stretch_tell": (_VOID, (_P, _P, _I, _P, _P, _P)),
    "stretch_offer": (_VOID, (_P, _P, _I, _P, _P, _P)),
    "stretch_count": (_VOID, (_P, _P, _I, _P, _P)),
    "placement_new": (_P, (_P, _P, _P, _I)),
    "workload_store": (_VOID, (_P, _P, _I, c_int, _I, _P)),
    "policy_count": (_I, ()),
    "policy_at": (_P, (_I,)),
    "placement_free": (_VOID, (_P,)),
    "placement_account": (_VOID, (_P, _P)),
    "planner_new": (_P, (_P, _P, _I, _P, _I, _P, _P, _I)),
    "planner_free": (_VOID, (_P,)),
    "planner_next": (_I, (_P, _I, _P, _P)),
    "planner_placement": (_P, (_P,)),
    "policy_run": (_VOID, (_I, _I, _P, _P, _P, _P, _I, _P, _P)),
    "payload_new": (_P, (_P,)),
    "payload_free": (_VOID, (_P,)),
    "payload_fill": (_VOID, (_P, _P, c_uint64, _I, _I)),
    "payload_pad": (_VOID, (_P, _P, c_uint64, _I, _I, _I)),
    "payload_check": (c_int, (_P, _P, c_uint64, _I, _I, c_int, c_char_p, _I)),
    "tier_null": (_P, ()),
    "tier_elsewhere": (_P, ()),
    "tier_memory": (_P, (_P, _I, _I, c_char_p)),
    "tier_files": (_P, (c_int, c_char_p, _P, c_int)),
    "tier_slab": (_P, (_P, _I, _I, _I, _I, _P, c_char_p)),
    "tier_free": (_VOID, (_P,)),
    "tier_budget": (_VOID, (_P, _I)),
    "tier_reserve": (_VOID, (_P, _I)),
    "tier_throttle": (_VOID, (_P, c_double, c_double, c_double)),
    "tier_wait_turn": (_VOID, (_P, c_int, _I, _I)),
    "tier_stop_waiting": (_VOID, (_P,)),
    "object_create": (c_int, (_P, _P, c_uint64, _I, _P)),
    "object_open": (c_int, (_P, _P, c_uint64, _I, _P)),
    "object_read": (c_int, (_P, _I, _I, _P, _P)),
    "object_write": (c_int, (_P, _I, _I, _P, _P)),
    "object_finish": (c_int, (_P, _P)),
    "object_close": (_VOID, (_P,)),
    "object_discard": (c_int, (_P, c_uint64, _P)),
    "uring_probe": (c_int, ()),
    "engine_new": (_P, (_P, _P, _P, _P, _P, _P, _P, _P)),
    "engine_free": (_VOID, (_P,)),
    "engine_feed": (_VOID, (_P,)),
    "engine_start": (_I, (_P, _I)),
    "engine_work": (c_int, (_P, _I, _P, _P, c_int)),
    "engine_wait": (c_int, (_P, _I)),
    "engine_stop": (_VOID, (_P,)),
    "engine_run_delay": (_I, (_P,)),
    "engine_state": (_VOID, (_P, _P)),
    "engine_totals": (_VOID, (_P, _P)),
    "engine_unfinished": (_I, (_P, _P, _I)),
    "engine_take_records": (_I, (_P, _P)),
    "engine_take_rows": (_I, (_P, _P)),
    "prediction_new": (_P, (_P, _P, _P, _P, _P, _P, _P)),
    "prediction_free": (_VOID, (_P,)),
    "prediction_run": (c_int, (_P, _I)),
    "prediction_stop": (_VOID, (_P,)),
    "prediction_state": (_VOID, (_P, _P)),
    "prediction_totals": (_VOID, (_P, _P)),
    "prediction_unfinished": (_I, (_P, _P, _I)),
    "prediction_take_records": (_I, (_P, _P)),
    "prediction_take_rows": (_I, (_P, _P)),
    "records_split": (_VOID, (_P, _I, _I, _P, _P, _I)),
    "engine_fault": (_VOID, (_P, _I, _P)),
}


def call(name: str) -> Callable[..., Any]:
    """Return a function of the core, with its signature set."""
    function: Any = getattr(_LIBRARY, name)
    result, arguments = _SIGNATURES[name]
    function.restype = result
    function.argtypes = arguments
    callee: Callable[..., Any] = function
    return callee


def variable(name: str) -> c_void_p:
    """Return a variable of the core, for example a function pointer that tests replace."""
    return c_void_p.in_dll(_LIBRARY, name)


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's data."""
    return int(array.ctypes.data)


def view(pointer: int | None, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array over memory of the core, without a copy.

    Args:
        pointer: of the memory; it is valid for as long as the core's function says.
        count: elements.
        dtype: of an element.
    """
    if not count or not pointer:
        return np.empty(0, dtype)
    memory: Any = (c_char * (count * dtype.itemsize)).from_address(pointer)
    array: NDArray[Any] = np.frombuffer(memory, dtype)
    return array


def reference(structure: Any) -> Any:
    """Return a structure's address as an argument of a call."""
    return ctypes.byref(structure)
