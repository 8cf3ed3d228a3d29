"""Tiers in memory: one that keeps nothing, and the host's."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address, call
from replayer.tiers.base import ALIGNMENT, aligned, allocate
from replayer.tiers.native import NativeTier

_UNITS: Final = 1 << 24  # of a tier's room at most: each takes 16 bytes of book-keeping

_null, _memory, _budget = call("tier_null"), call("tier_memory"), call("tier_budget")


def unit_of(size: int) -> int:
    """Bytes by which room is given out: small, but not more of them than can be kept account of."""
    unit = ALIGNMENT
    while size // unit > _UNITS:
        unit *= 2
    return unit


class NullTier(NativeTier):
    """Keeps nothing and takes no time: shows what the replayer itself costs. Its reads cannot be verified."""

    keeps_bytes = False

    def __init__(self) -> None:
        super().__init__(_null())


def arena_bytes(usable: int, objects: int) -> int:
    """What a tier in memory allocates: each object may waste a part of a unit of room."""
    unit = unit_of(usable)
    return aligned(-(-(usable + objects * (unit - 1)) // unit) * unit)


class CpuTier(NativeTier):
    """One arena of memory, allocated and touched at the start; an object is a list of extents of it.

    Args:
        usable: bytes that objects may take.
        objects: how many there are at most.
    """

    def __init__(self, usable: int, objects: int = 0) -> None:
        unit, size = unit_of(usable), arena_bytes(usable, objects)
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate(size), np.uint8)
        self._arena.fill(0)  # page faults belong before the run
        super().__init__(_memory(address(self._arena), size // unit * unit, unit, b"cpu tier"))
        _budget(self._open_handle(), usable)

    def close(self) -> None:
        super().close()
        self._arena = np.empty(0, np.uint8)
