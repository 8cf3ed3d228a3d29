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

from tracegen.errors import ToolError
from tracegen.trace.compiled import library

UNLIMITED: Final = 1 << 62
"""A capacity without a limit."""
NONE: Final = -1


def _numbers(names: str, kind: Any = c_int64) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


def _record(*groups: tuple[Any, str], align: bool = False) -> np.dtype[Any]:
    """Make the type of an array of structures, from the types of its fields and their names."""
    fields = [(name, kind) for kind, names in groups for name in names.split()]
    return np.dtype(fields, align=align)


class WorkloadStruct(Structure):
    """The selected ops of a trace, and indices over them."""

    _fields_ = (*_numbers("ops requests users keys"), *_numbers("op request key rows first", c_void_p))


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
        *_numbers("used resident peak peak_objects", c_int64 * 3),
        *_numbers("admitted refused fetches fetches_refused", c_int64 * 3),
        ("largest", c_int64),
        *_numbers("steps preemptions clock_ns"),
        ("held_ns", c_double),
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


class ServingStruct(Structure):
    """The rules of a serving engine, as `ServingRules` in core.h."""

    _fields_ = (
        *_numbers("block_tokens gpu_blocks cpu_blocks seqs batched_tokens"),
        *_numbers("step_ns tokens_per_s has_disk transfer_steps read_steps write_steps"),
    )


class DeviceStruct(Structure):
    """A tier of a reference system."""

    _fields_ = tuple(_numbers("read_bytes_per_s write_bytes_per_s streams read_latency_ns write_latency_ns"))


class TotalsStruct(Structure):
    """Sums over moves; counts and bytes per (move, from, to)."""

    _fields_ = (*_numbers("ops reads recomputed_tokens"), *_numbers("counts bytes", c_int64 * 4 * 4 * 9))


class CountsStruct(Structure):
    """Counts of a part of a plan, as `Counts` in core.h: tables per source, per tier, or per both."""

    _fields_ = (
        ("totals", TotalsStruct),
        *(("reads", c_int64 * 5), ("hits", c_int64 * 3 * 5)),
        *(("prompt_tokens", c_int64 * 5), ("spared_tokens", c_int64 * 3 * 5)),
        *_numbers("requests reading_requests missing_requests headless"),
        *_numbers("entries read_entries drops free_drops", c_int64 * 3),
    )


class CounterStruct(Structure):
    """The counter of a plan, as `Counter` in core.h."""

    _fields_ = (
        ("parts", CountsStruct * 2),
        *_numbers("part_of minute", c_void_p),
        ("minutes", c_int64),
        *_numbers("bytes request key", c_void_p),
    )


class StationStruct(Structure):
    """Reads or writes of a tier of a measured machine, as `Station` in stations.h."""

    _fields_ = (
        *_numbers("points has_spread"),
        *_numbers("load open_ns latency_ns byte_ns remove_ns", c_double * 16),
        ("spread", c_double * 9 * 16),
        ("other_weight", c_double),
        ("turn_bytes", c_double),
    )


class ProfileStruct(Structure):
    """A measured machine, as `Profile` in stations.h; stations by tier and direction."""

    _fields_ = (("tier", StationStruct * 2 * 3), *_numbers("cores make_byte_ns check_byte_ns move_ns", c_double))


class EngineSettings(Structure):
    """Settings of an execution; -1: no limit."""

    _fields_ = (
        *_numbers("workers chunk verify window_ops window_bytes duration_ns drain_ns most_ops"),
        *_numbers("warmup_position warmup_ns max_errors trace_order cores"),
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
            " in_flight queued refused_bytes"
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


# Rows as the headers declare them: of the trace, by op, request and key; of plans; of the log.
TRACE_OP: Final = _record(
    (np.int64, "op_id"),
    (np.uint32, "key"),
    (np.int32, "request step new_tokens tokens"),
    (np.uint8, "op phase qos source"),
)
TRACE_REQUEST: Final = _record((np.int64, "time_ns think_ns session user"), (np.int32, "turn next begin count"))
TRACE_KEY: Final = _record((np.int64, "size"), (np.int32, "tokens stored has_write"), align=True)
PLANNED_OP: Final = _record((np.int64, "row role moves"))
PLANNED: Final = _record(
    (np.int64, "size"), (np.uint32, "key"), (np.int8, "move from_tier to_tier background"), align=True
)
RECORD: Final = _record(
    (np.int64, "op_id position request_id session_id user_id key size_bytes due_ns ready_ns start_ns end_ns"),
    (np.int64, "read_ns write_ns device_read_ns device_write_ns verify_ns window_ns order_ns"),
    (np.int32, "seq turn step new_tokens tokens worker error"),
    (np.int8, "qos phase op source move status from_tier to_tier waited_for warmup"),
    align=True,
)
UNFINISHED: Final = _record((np.int64, "request due_ns"), (np.int32, "qos in_prefill"))

_LIBRARY: Final = library("replayer._core")
_CODES: Final[dict[str, type[Any] | None]] = {
    "p": c_void_p,
    "i": c_int64,
    "u": c_uint64,
    "c": c_int,
    "d": c_double,
    "s": c_char_p,
    "v": None,
    "n": c_void_p,
    "m": c_int64,
}
"""Types of C; v is void, and n and m are a pointer and a number that say whether memory ran out."""
# What functions of the types n and m return then.
_OUT_OF_MEMORY: Final = (None, -2)
_SIGNATURES: Final = {
    "memory": "refused i",
    "clock": "ns i",
    "workload": "add v pippp, index v ppppp, store v ppicippip",
    "stretch": "count v ppippp",
    "placement": "new n pppi, free v p",
    "planner": "new n ppipipppi, free v p, next m pipp, account v pp",
    "payload": "new n p, free v p, fill v ppuii, pad v ppuiii, check c ppuiicsi",
    "tier": (
        "null n, elsewhere n, memory n piis, files n cspc, slab n piiiips, free v p, "
        "budget v pi, reserve v pi, throttle v pddd, wait_turn v pcii, wait_at_most v pi"
    ),
    "object": ("create c ppuip, open c ppuip, read c piipp, write c piipp, finish c pp, close v p, discard c pup"),
    "uring": "probe c",
    "engine": "new n pppppppp, free v p, feed v p, start i pi, work c pippc, wait c pi, stop v p, fault v pip",
    "prediction": "new n ppppppp, free v p, run c pi, stop v p",
    "run": "state v pp, totals v pp, unfinished i ppi, take_records i pp, take_rows i pp",
    "records": "split v piippi",
}
"""The functions by the first word of their names: the rest of the name, result and arguments, as codes."""


def call(name: str) -> Callable[..., Any]:
    """Return a function of the core, with its signature set."""
    first, _, rest = name.partition("_")
    codes = next(entry.split()[1:] for entry in _SIGNATURES[first].split(", ") if entry.split()[0] == rest)
    result, arguments = codes[0], "".join(codes[1:])
    # Without its types ctypes would pass pointers as 32-bit integers.
    function: Any = getattr(_LIBRARY, name)
    function.restype = _CODES[result]
    function.argtypes = [_CODES[code] for code in arguments]
    if result in "nm":
        # Compiled code cannot raise: it returns NULL or -2 and notes how much it asked for.
        function.errcheck = _require_memory
    callee: Callable[..., Any] = function
    return callee


def _require_memory(result: int | None, *_call: object) -> int | None:
    """Return what a function of the core returned, unless memory ran out in it."""
    if result in _OUT_OF_MEMORY:
        refuse_memory(call("memory_refused")() or 1)
    return result


def refuse_memory(size: int) -> None:
    """Raise the error of a call of the core that ran out of memory; 0 bytes: none did.

    Raises:
        ToolError: says how much more was asked for.
    """
    if size:
        raise ToolError(
            f"memory ran out: {size / 2**20:,.1f} MiB more are not available",
            "pass smaller tiers, a smaller `window` or fewer `workers`, or replay a slice of the trace",
        )


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
    # The array does not own the memory, nor keep it alive.
    memory: Any = (c_char * (count * dtype.itemsize)).from_address(pointer)
    array: NDArray[Any] = np.frombuffer(memory, dtype)
    return array


def reference(structure: Any) -> Any:
    """Return a structure's address as an argument of a call."""
    return ctypes.byref(structure)
