"""The buffers that bytes move through, and how tiers divide their room."""

import errno
import mmap
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import address

ALIGNMENT: Final = 4096
"""Bytes that buffers, offsets and lengths are aligned to: O_DIRECT needs 512 or 4,096."""
_MOST_UNITS: Final = 1 << 24
"""Allocation units of a tier at most: each takes 16 bytes of book-keeping."""


def align_up(length: int) -> int:
    """Round a number of bytes up to a multiple of ALIGNMENT."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def choose_unit(size: int) -> int:
    """Choose the allocation unit of a tier in bytes, as small as the book-keeping allows.

    Args:
        size: bytes that the tier holds.
    """
    unit = ALIGNMENT
    # Units waste room at the end of objects, book-keeping wastes memory.
    while size // unit > _MOST_UNITS:
        unit *= 2
    return unit


def arena_bytes(usable: int, objects: int) -> int:
    """Return the bytes of an arena for `usable` bytes of objects, padding included.

    Args:
        usable: bytes that objects may take.
        objects: most objects at a time; each may waste the rest of one allocation unit.
    """
    unit = choose_unit(usable)
    return align_up(-(-(usable + objects * (unit - 1)) // unit) * unit)


class HostBuffer:
    """A page-aligned staging buffer in host memory.

    Args:
        size: in bytes, a multiple of 8.
        memory: to be used instead of new memory; of `size` bytes, page-aligned.

    Attributes:
        words: the whole buffer as uint64.
        bytes: the whole buffer as uint8.
        view: the whole buffer for system calls.
        address: of its first byte.
    """

    def __init__(self, size: int, memory: Any = None) -> None:
        if memory is None:
            memory = allocate_pages(size)
        self.view = memoryview(memory)
        self.words: NDArray[np.uint64] = np.frombuffer(memory, np.uint64)
        self.bytes: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.address = address(self.words)


class DeviceMemory(Protocol):
    """A buffer in a device's memory, which only tiers of that device reach."""

    def copy_to_host(self, host: HostBuffer, length: int) -> None:
        """Copy the first `length` bytes to the front of a buffer in host memory."""

    def copy_from_host(self, host: HostBuffer, length: int) -> None:
        """Copy the first `length` bytes of a buffer in host memory to the front of this one."""


Buffer = HostBuffer | DeviceMemory
"""Memory of a worker that objects are read into and written from."""


def allocate_pages(size: int) -> mmap.mmap:
    """Allocate anonymous memory, page-aligned, on huge pages if the kernel gives them."""
    # Huge pages: copies of megabytes would miss in the TLB for each 4 KiB.
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:  # EINVAL: the kernel was built without huge pages
            if error.errno != errno.EINVAL:
                raise
    return memory
