"""The compiled scheduler, for tests: as core.h declares it, without threads and without a clock."""

import importlib.util
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_bool, c_int, c_int8, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import PLANNED, UNLIMITED, Load, address, reference
from replayer.planning.pace import Demand
from replayer.planning.plan import Usable
from replayer.planning.workload import Workload

Planned = tuple[int, ...]
"""(size, key, kind, from_tier, to_tier) and, if not 0, background; as PLANNED."""


class OpStruct(Structure):
    _fields_ = (
        *((name, c_int64) for name in "position due_ns end_ns wait_ns admitted_ns".split()),
        *(
            (name, c_int32)
            for name in "row request first_move last_move next moves planned place left foreground".split()
        ),
        *((name, c_int8) for name in "qos role is_due retired".split()),
    )


class MoveStruct(Structure):
    _fields_ = (
        *((name, c_int64) for name in "number size ready_ns order_ns pulled_ns".split()),
        ("key", c_uint32),
        *((name, c_int32) for name in "op next dependents blockers group ledger needs seq".split()),
        *((name, c_int8) for name in "kind source target waited_for background".split()),
    )


def library() -> CDLL:
    found = importlib.util.find_spec("replayer._core")
    assert found is not None
    assert found.origin is not None
    return CDLL(found.origin)


PLANNED_FIELDS: Final = len(PLANNED.names or ())
_CORE: Final = library()
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "new": (c_void_p, (c_void_p, POINTER(c_int64), POINTER(Load), c_void_p, c_bool)),
    "free": (None, (c_void_p,)),
    "begin": (None, (c_void_p, c_int64)),
    "admit": (None, (c_void_p, c_int64, c_int64, c_int, c_void_p, c_int64, c_int64)),
    "release": (None, (c_void_p, c_int64)),
    "next_due": (c_int64, (c_void_p,)),
    "take": (c_int32, (c_void_p,)),
    "give_back": (None, (c_void_p, c_int32)),
    "complete": (None, (c_void_p, c_int32, c_int64, c_int64)),
    "ready": (c_int64, (c_void_p,)),
    "op": (POINTER(OpStruct), (c_void_p, c_int32)),
    "move": (POINTER(MoveStruct), (c_void_p, c_int32)),
    "lowest": (c_int32, (c_void_p,)),
    "retire": (None, (c_void_p,)),
    "decided": (c_int64, (c_void_p,)),
    "decide_no_more": (None, (c_void_p, c_int64)),
    "window_bytes": (c_int64, (c_void_p,)),
    "in_window": (c_int64, (c_void_p,)),
    "account": (None, (c_void_p, c_void_p)),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(_CORE, f"scheduler_{_name}")
    _function.restype, _function.argtypes = _result, _arguments


@dataclass(frozen=True)
class Move:
    """A move that was taken, as it was then."""

    slot: int
    number: int
    seq: int
    size: int
    key: int
    kind: int
    source: int
    target: int
    ready_ns: int
    waited_for: int
    pulled_ns: int
    background: int
    op: "Op"


@dataclass(frozen=True)
class Op:
    """An op that has its position."""

    slot: int
    position: int
    row: int
    planned: int
    request: int
    moves: int
    left: int
    foreground: int
    due_ns: int
    end_ns: int
    admitted_ns: int
    wait_ns: int


@dataclass(frozen=True)
class Account:
    """What a scheduler remembers."""

    ledgers: tuple[int, int, int]
    ops: int
    moves: int
    edges: int
    groups: int
    needs: int
    keys: int


def _values(struct: Structure, kind: type[Move] | type[Op]) -> dict[str, Any]:
    """What a structure of the core says for the fields of a class."""
    return {name: getattr(struct, name) for name in kind.__dataclass_fields__ if name not in ("slot", "op")}


class Scheduler:
    """Without a waterfall ops are admitted with their moves; with one (`live`), they are decided when taken.

    `inclusive`: several tiers may hold an object.
    """

    def __init__(
        self, workload: Workload, capacity: Usable, demand: Demand, live: int | None = None, *, inclusive: bool = False
    ) -> None:
        self._workload, self._load = workload, demand.struct()
        limits = (c_int64 * 3)(*(UNLIMITED if limit is None else limit for limit in capacity))
        self._handle: int = _CORE.scheduler_new(reference(workload.struct), limits, byref(self._load), live, inclusive)

    def begin(self, now: int) -> None:
        _CORE.scheduler_begin(self._handle, now)

    def admit(self, position: int, row: int, role: int, moves: Sequence[Planned] | NDArray[Any], now: int) -> None:
        planned = np.array([(*move, 0)[:PLANNED_FIELDS] for move in moves], PLANNED)
        _CORE.scheduler_admit(self._handle, position, row, role, address(planned), len(planned), now)

    def release(self, now: int) -> None:
        _CORE.scheduler_release(self._handle, now)

    def next_due(self) -> int:
        return int(_CORE.scheduler_next_due(self._handle))

    def take(self) -> Move | None:
        slot = int(_CORE.scheduler_take(self._handle))
        return None if slot < 0 else self.move(slot)

    def move(self, slot: int) -> Move:
        found = _CORE.scheduler_move(self._handle, slot).contents
        return Move(**_values(found, Move), slot=slot, op=self.op(found.op))

    def op(self, slot: int) -> Op:
        return Op(**_values(_CORE.scheduler_op(self._handle, slot).contents, Op), slot=slot)

    def give_back(self, move: Move) -> None:
        _CORE.scheduler_give_back(self._handle, move.slot)

    def complete(self, move: Move, end: int, now: int | None = None) -> None:
        _CORE.scheduler_complete(self._handle, move.slot, end, end if now is None else now)

    def ready(self) -> int:
        return int(_CORE.scheduler_ready(self._handle))

    def lowest(self) -> Op | None:
        slot = int(_CORE.scheduler_lowest(self._handle))
        return None if slot < 0 else self.op(slot)

    def retire(self) -> None:
        _CORE.scheduler_retire(self._handle)

    def decided(self) -> int:
        return int(_CORE.scheduler_decided(self._handle))

    def decide_no_more(self, positions: int) -> None:
        _CORE.scheduler_decide_no_more(self._handle, positions)

    def window_bytes(self) -> int:
        return int(_CORE.scheduler_window_bytes(self._handle))

    def in_window(self) -> int:
        return int(_CORE.scheduler_in_window(self._handle))

    def account(self) -> Account:
        out = np.zeros(9, np.int64)
        _CORE.scheduler_account(self._handle, address(out))
        gpu, cpu, nvme, *rest = out.tolist()
        return Account((gpu, cpu, nvme), *rest)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            _CORE.scheduler_free(self._handle)


class Extents:
    """Free room in units."""

    def __init__(self, units: int) -> None:
        self._handle: int = _EXTENTS["new"](units)

    def room(self) -> int:
        return int(_EXTENTS["room"](self._handle))

    def take(self, units: int, most: int) -> list[tuple[int, int]] | None:
        """(start, units); None: `most` are too few, []: so much is not free."""
        out = np.full((most + 1, 2), -7, np.int64)
        count = int(_EXTENTS["take"](self._handle, units, address(out), most))
        assert (out[max(count, most if count < 0 else 0) :] == -7).all(), "written past what was asked for"
        return None if count < 0 else [(start, size) for start, size in out[:count].tolist()]

    def give(self, start: int, units: int) -> None:
        _EXTENTS["give"](self._handle, start, units)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            _EXTENTS["free"](self._handle)


_EXTENTS: Final = {name: _CORE[f"extents_{name}"] for name in ("new", "free", "room", "take", "give")}
_EXTENTS["new"].restype, _EXTENTS["new"].argtypes = c_void_p, (c_int64,)
_EXTENTS["free"].restype, _EXTENTS["free"].argtypes = None, (c_void_p,)
_EXTENTS["room"].restype, _EXTENTS["room"].argtypes = c_int64, (c_void_p,)
_EXTENTS["take"].restype, _EXTENTS["take"].argtypes = c_int64, (c_void_p, c_int64, c_void_p, c_int64)
_EXTENTS["give"].restype, _EXTENTS["give"].argtypes = None, (c_void_p, c_int64, c_int64)


def sizes() -> list[int]:
    """Of the structures that core.h and engine.h declare for callers, in their order."""
    out = np.zeros(64, np.int64)
    function = _CORE.core_sizes
    function.restype, function.argtypes = c_int64, (c_void_p,)
    count = int(function(address(out)))
    return [int(size) for size in out[:count]]
