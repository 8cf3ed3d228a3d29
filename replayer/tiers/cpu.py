"""The cpu tier: one arena of host memory."""

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address
from replayer.tiers.base import allocate_pages, arena_bytes
from replayer.tiers.native import MemoryTier
from replayer.tiers.request import TierRequest


class CpuTier(MemoryTier):
    """An arena allocated and touched when the tier opens; an object is a list of its extents."""

    def __init__(self, request: TierRequest) -> None:
        size = arena_bytes(request.capacity, request.objects)
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate_pages(size), np.uint8)
        self._arena.fill(0)  # the page faults happen here, before the run
        super().__init__("cpu tier", request.capacity, size, address(self._arena))

    def close(self) -> None:
        super().close()
        self._arena = np.empty(0, np.uint8)
