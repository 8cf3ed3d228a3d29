"""The compiled scheduler, for tests: as core.h declares it, without threads and without a clock."""

import importlib.util
from collections.abc import Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_bool, c_int, c_int8, c_int32, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.arrangements.rules import Usable
from replayer.bindings.compiled import PLANNED, UNLIMITED, Load, address, reference
from replayer.planning.pace import Demand
from replayer.planning.workload import Workload

Planned = tuple[int, ...]
"""(size, key, kind, from_tier, to_tier) and, if not 0, background; as PLANNED."""


class Op(Structure):
    """An op that has its position, as core.h declares it."""

    _fields_ = (
        *((name, c_int64) for name in "position due_ns end_ns wait_ns admitted_ns".split()),
        *(
            (name, c_int32)
            for name in "row request first_move last_move next moves planned place left foreground".split()
        ),
        *((name, c_int8) for name in "qos role is_due retired".split()),
    )


class MoveStruct(Structure):
    """A move, as core.h declares it."""

    _fields_ = (
        *((name, c_int64) for name in "number size ready_ns order_ns pulled_ns".split()),
        ("key", c_uint32),
        *((name, c_int32) for name in "op next dependents blockers group ledger needs seq".split()),
        *((name, c_int8) for name in "kind source target waited_for background".split()),
    )


class Move(MoveStruct):
    """A move that was taken, as it was then, with its slot and with its op instead of the op's slot."""

    slot: int
    op: Op = Op()


def library() -> CDLL:
    found = importlib.util.find_spec("replayer._core")
    assert found is not None
    assert found.origin is not None
    return CDLL(found.origin)


PLANNED_FIELDS: Final = len(PLANNED.names or ())
_CORE: Final = library()
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "scheduler_new": (c_void_p, (c_void_p, POINTER(c_int64), POINTER(Load), c_void_p, c_bool)),
    "scheduler_free": (None, (c_void_p,)),
    "scheduler_begin": (None, (c_void_p, c_int64)),
    "scheduler_admit": (None, (c_void_p, c_int64, c_int64, c_int, c_void_p, c_int64, c_int64)),
    "scheduler_release": (None, (c_void_p, c_int64)),
    "scheduler_next_due": (c_int64, (c_void_p,)),
    "scheduler_take": (c_int32, (c_void_p,)),
    "scheduler_complete": (None, (c_void_p, c_int32, c_int64, c_int64)),
    "scheduler_op": (POINTER(Op), (c_void_p, c_int32)),
    "scheduler_move": (POINTER(MoveStruct), (c_void_p, c_int32)),
    "scheduler_lowest": (c_int32, (c_void_p,)),
    "scheduler_retire": (None, (c_void_p,)),
    "scheduler_decided": (c_int64, (c_void_p,)),
    "scheduler_window_bytes": (c_int64, (c_void_p,)),
    "scheduler_in_window": (c_int64, (c_void_p,)),
    "scheduler_account": (None, (c_void_p, c_void_p)),
    "extents_new": (c_void_p, (c_int64,)),
    "extents_free": (None, (c_void_p,)),
    "extents_room": (c_int64, (c_void_p,)),
    "extents_take": (c_int64, (c_void_p, c_int64, c_void_p, c_int64)),
    "extents_give": (None, (c_void_p, c_int64, c_int64)),
    "core_sizes": (c_int64, (c_void_p,)),
}
for _name, (_result, _arguments) in _SIGNATURES.items():
    _function = getattr(_CORE, _name)  # which keeps it, unlike _CORE[_name]
    _function.restype, _function.argtypes = _result, _arguments


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
        move = Move.from_buffer_copy(found)
        move.slot = slot
        move.op = self.op(found.op)
        return move

    def op(self, slot: int) -> Op:
        return Op.from_buffer_copy(_CORE.scheduler_op(self._handle, slot).contents)

    def complete(self, move: Move, end: int, now: int | None = None) -> None:
        _CORE.scheduler_complete(self._handle, move.slot, end, end if now is None else now)

    def lowest(self) -> Op | None:
        slot = int(_CORE.scheduler_lowest(self._handle))
        return None if slot < 0 else self.op(slot)

    def retire(self) -> None:
        _CORE.scheduler_retire(self._handle)

    def decided(self) -> int:
        return int(_CORE.scheduler_decided(self._handle))

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
        self._handle: int = _CORE.extents_new(units)

    def room(self) -> int:
        return int(_CORE.extents_room(self._handle))

    def take(self, units: int, most: int) -> list[tuple[int, int]] | None:
        """(start, units); None: `most` are too few, []: so much is not free."""
        out = np.full((most + 1, 2), -7, np.int64)
        count = int(_CORE.extents_take(self._handle, units, address(out), most))
        assert (out[max(count, most if count < 0 else 0) :] == -7).all(), "written past what was asked for"
        return None if count < 0 else [(start, size) for start, size in out[:count].tolist()]

    def give(self, start: int, units: int) -> None:
        _CORE.extents_give(self._handle, start, units)

    def __del__(self) -> None:
        if hasattr(self, "_handle"):
            _CORE.extents_free(self._handle)


def sizes() -> list[int]:
    """Of the structures that core.h and engine.h declare for callers, in their order."""
    out = np.zeros(64, np.int64)
    count = int(_CORE.core_sizes(address(out)))
    return [int(size) for size in out[:count]]
