"""What every tier does: I/O and nothing else; what lies where is the plan's."""

import errno
import mmap
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

ALIGNMENT: Final = 4096  # of buffers, offsets and lengths under O_DIRECT; covers devices of 512 and 4,096-byte blocks


def aligned(length: int) -> int:
    """The least multiple of ALIGNMENT that is not less."""
    return -(-length // ALIGNMENT) * ALIGNMENT


class Buffer:
    """A page-aligned staging buffer: the host end of every move.

    Attributes:
        words: the whole buffer as uint64.
        bytes: the whole buffer as uint8.
        view: the whole buffer for system calls.
    """

    def __init__(self, size: int) -> None:
        memory = allocate(size)
        self.view = memoryview(memory)
        self.words: NDArray[np.uint64] = np.frombuffer(memory, np.uint64)
        self.bytes: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)


class Landing(Buffer):
    """A buffer in a device's memory, where reads of some tiers end and writes of some begin."""

    def __init__(self) -> None:
        pass

    def fetch(self, length: int, buffer: Buffer) -> None:
        """Copy the first bytes to a host buffer, to be verified."""
        raise NotImplementedError

    def stage(self, length: int, buffer: Buffer) -> None:
        """Copy the first bytes of a host buffer here, to be written."""
        raise NotImplementedError


def allocate(size: int) -> mmap.mmap:
    """Anonymous memory, page-aligned, backed by huge pages where the kernel gives them."""
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as error:  # a kernel built without them
            if error.errno != errno.EINVAL:
                raise
    return memory


class Object(Protocol):
    """An object of a tier, open for reading or writing; a context manager.

    Attributes:
        device_ns: time spent inside system calls or memory copies so far.
    """

    @property
    def device_ns(self) -> int: ...

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        """Read `length` bytes at `offset` to the front of the buffer.

        Raises:
            OSError: the bytes are not to be had, all of them.
        """

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        """Write the front of the buffer, `length` bytes, at `offset`.

        Raises:
            OSError: not all of them could be written.
        """

    def finish(self) -> None:
        """Called once after the last write: what is written is as durable as the tier makes it.

        Raises:
            OSError: it cannot be made so.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Tier(Protocol):
    """A place for objects. Calls on one key never overlap but for reads; calls on several keys do.

    Attributes:
        keeps_bytes: whether what is read is what was written; only then can it be verified.
    """

    keeps_bytes: bool

    @property
    def engine_handle(self) -> int:
        """The tier as compiled code knows it; of `tier_elsewhere` where moves on it are made in Python."""

    def create(self, key: int, size: int) -> Object:
        """A new object, opened for writing from its start on.

        Raises:
            OSError: there is no room for it, or it cannot be made.
        """

    def open(self, key: int, size: int) -> Object:
        """An object, opened for reading.

        Raises:
            OSError: it is not there.
        """

    def discard(self, key: int) -> None:
        """Remove what there is of an object; nothing to remove is no error.

        Raises:
            OSError: it cannot be removed.
        """

    def throttle(self, mib_s: float, latency_us: float, write_mib_s: float | None = None) -> None:
        """Be no faster from now on.

        Args:
            mib_s: MiB per second of all reads, and of all writes.
            latency_us: of each request.
            write_mib_s: of all writes, where it is not that of reads.
        """

    def hurry(self) -> None:
        """Nobody needs to wait for the throttle any more: the run is being stopped."""

    def close(self) -> None:
        """Give back what the tier holds of the machine."""


class Plain:
    """An object that needs no finishing nor closing."""

    device_ns = 0

    def finish(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
