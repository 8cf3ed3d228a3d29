"""The cpu tier: one arena of host memory."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address, call
from replayer.tiers.base import align_up, allocate_pages, choose_unit
from replayer.tiers.native import NativeTier
from replayer.tiers.request import TierRequest

_new_memory = call("tier_memory")
_set_budget = call("tier_budget")


def arena_bytes(usable: int, objects: int) -> int:
    """Return the bytes of an arena for `usable` bytes of objects, padding included.

    Args:
        usable: bytes that objects may take.
        objects: most objects at a time; each may waste the rest of one allocation unit.
    """
    unit = choose_unit(usable)
    return align_up(-(-(usable + objects * (unit - 1)) // unit) * unit)


class CpuTier(NativeTier):
    """An arena allocated and touched when the tier opens; an object is a list of its extents.

    Args:
        usable: bytes that objects may take.
        objects: most objects at a time.
    """

    def __init__(self, usable: int, objects: int = 0) -> None:
        unit = choose_unit(usable)
        size = arena_bytes(usable, objects)
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate_pages(size), np.uint8)
        self._arena.fill(0)  # the page faults happen here, before the run
        super().__init__(_new_memory(address(self._arena), size // unit * unit, unit, b"cpu tier"))
        _set_budget(self._open_handle(), usable)

    @classmethod
    def from_request(cls, request: TierRequest) -> Self:
        """Allocate the arena."""
        return cls(request.capacity, request.objects)

    def close(self) -> None:
        super().close()
        self._arena = np.empty(0, np.uint8)
