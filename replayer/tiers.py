"""Where objects lie while a trace is replayed. A tier does I/O and nothing else: what lies where is the plan's."""

import errno
import mmap
import os
import threading
from bisect import bisect
from pathlib import Path
from time import perf_counter_ns
from typing import Final, Protocol, Self

import click
import numpy as np
from numpy.typing import NDArray

from tracegen.schema import InputError

ALIGNMENT: Final = 4096  # of buffers, offsets and lengths under O_DIRECT; covers devices of 512 and 4,096-byte blocks
MARKER: Final = "kv-replay-cache"


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

    device_ns: int

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

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class Tier(Protocol):
    """A place for objects. Calls on one key never overlap but for reads; calls on several keys do.

    Attributes:
        keeps_bytes: whether what is read is what was written; only then can it be verified.
    """

    keeps_bytes: bool

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

    def close(self) -> None:
        """Give back what the tier holds of the machine."""


class _Base:
    device_ns = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class _NullObject(_Base):
    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        pass

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        pass


class NullTier:
    """Keeps nothing and takes no time: shows what the replayer itself costs. Its reads cannot be verified."""

    keeps_bytes = False

    def __init__(self) -> None:
        self._keys: set[int] = set()

    def create(self, key: int, size: int) -> Object:
        self._keys.add(key)
        return _NullObject()

    def open(self, key: int, size: int) -> Object:
        if key not in self._keys:
            raise FileNotFoundError(errno.ENOENT, f"no object {key} in the null tier")
        return _NullObject()

    def discard(self, key: int) -> None:
        self._keys.discard(key)

    def close(self) -> None:
        self._keys.clear()


class _FileObject(_Base):
    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        done = 0
        while done < length:
            began = perf_counter_ns()
            count = os.preadv(self._descriptor, [buffer.view[done : _aligned(length)]], offset + done)
            self.device_ns += perf_counter_ns() - began
            if count == 0:
                raise OSError(errno.EIO, f"short read: ends at byte {offset + done}", str(self._path))
            done += count

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        done, whole = 0, _aligned(length)
        while done < whole:
            began = perf_counter_ns()
            done += os.pwritev(self._descriptor, [buffer.view[done:whole]], offset + done)
            self.device_ns += perf_counter_ns() - began

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)


class FileTier:
    """One file per object in a fresh subdirectory of `parent`, with O_DIRECT where the file system takes it.

    Attributes:
        folder: the subdirectory; it and the files in it that this tier made are removed by `close`.
        direct: whether O_DIRECT is in use.

    Raises:
        InputError: `parent` is no directory, or nothing can be written in it.
    """

    keeps_bytes = True

    def __init__(self, parent: Path, run: str, *, keep: bool = False) -> None:
        self.folder, self._keep = parent / f"{MARKER}-{run}", keep
        self._keys: set[int] = set()
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
            self.direct = self._probe()
        except FileExistsError:
            raise InputError(f"--cache-dir {parent} is a file; name a directory.") from None
        except OSError as error:
            if self.folder.is_dir():
                self.close()
            raise InputError(f"--cache-dir {parent}: {error.strerror}; name a directory with room to write.") from None
        self._flags = os.O_DIRECT if self.direct else 0

    def _probe(self) -> bool:
        """Write one block with O_DIRECT and read it back."""
        probe = self.folder / "probe"
        block = Buffer(ALIGNMENT)
        try:
            probe.write_bytes(block.view)  # buffered: fails where nothing can be written at all
            with _FileObject(os.open(probe, os.O_RDWR | os.O_DIRECT), probe) as file:
                file.write(0, ALIGNMENT, block)
                file.read(0, ALIGNMENT, block)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what file systems without O_DIRECT answer
                raise
            return False
        finally:
            probe.unlink(missing_ok=True)
        return True

    def _path(self, key: int) -> Path:
        return self.folder / f"{key:08x}.kv"

    def create(self, key: int, size: int) -> Object:
        self._keys.add(key)
        path = self._path(key)
        return _FileObject(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | self._flags, 0o600), path)

    def open(self, key: int, size: int) -> Object:
        path = self._path(key)
        return _FileObject(os.open(path, os.O_RDONLY | self._flags), path)

    def discard(self, key: int) -> None:
        self._path(key).unlink(missing_ok=True)
        self._keys.discard(key)

    def close(self) -> None:
        if self._keep:
            return
        try:
            for key in list(self._keys):
                self.discard(key)
            self.folder.rmdir()
        except OSError as error:  # a file that is not ours, or a file system that has turned read-only
            click.secho(f"Warning: {self.folder} is left behind: {error.strerror}.", err=True, bold=True)


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


class _ArenaObject(_Base):
    def __init__(self, arena: NDArray[np.uint8], extents: list[tuple[int, int]]) -> None:
        self._arena, self._extents = arena, extents

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        for place, start, count in self._pieces(offset, length):
            buffer.bytes[place : place + count] = self._arena[start : start + count]
        self.device_ns += perf_counter_ns() - began

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        for place, start, count in self._pieces(offset, length):
            self._arena[start : start + count] = buffer.bytes[place : place + count]
        self.device_ns += perf_counter_ns() - began

    def _pieces(self, offset: int, length: int) -> list[tuple[int, int, int]]:
        """(place in the buffer, place in the arena, bytes) that cover the object's bytes offset … offset+length-1."""
        pieces, begin = [], 0
        for start, size in self._extents:
            low, high = max(offset, begin), min(offset + length, begin + size)
            if low < high:
                pieces.append((low - offset, start + low - begin, high - low))
            begin += size
        return pieces


class CpuTier:
    """One arena of memory, allocated and touched at the start; an object is a list of extents of it.

    Extents make fragmentation harmless: whatever the free bytes look like, an object of that many bytes fits.
    """

    keeps_bytes = True

    def __init__(self, usable: int) -> None:
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate(usable), np.uint8)[:usable]
        self._arena.fill(0)  # page faults belong before the run
        self._free = [(0, usable)]  # (start, bytes), by start, neighbours joined
        self._extents: dict[int, list[tuple[int, int]]] = {}
        self._lock = threading.Lock()

    def create(self, key: int, size: int) -> Object:
        with self._lock:
            if size > sum(count for _, count in self._free):
                raise OSError(errno.ENOMEM, f"no {size} bytes free in the cpu tier's arena")
            extents = self._extents[key] = self._take(size)
        return _ArenaObject(self._arena, extents)

    def _take(self, size: int) -> list[tuple[int, int]]:
        """The first free extent that is large enough; where none is, as many from the front as it takes."""
        whole = next((i for i, (_, count) in enumerate(self._free) if count >= size), 0)
        taken: list[tuple[int, int]] = []
        while size:
            start, count = self._free[whole]
            used = min(size, count)
            taken.append((start, used))
            self._free[whole : whole + 1] = [(start + used, count - used)] if used < count else []
            size -= used
        return taken

    def open(self, key: int, size: int) -> Object:
        with self._lock:
            if key not in self._extents:
                raise FileNotFoundError(errno.ENOENT, f"no object {key} in the cpu tier")
            return _ArenaObject(self._arena, self._extents[key])

    def discard(self, key: int) -> None:
        with self._lock:
            for start, count in self._extents.pop(key, ()):
                self._give(start, count)

    def _give(self, start: int, count: int) -> None:
        at = bisect(self._free, (start,))
        if at < len(self._free) and start + count == self._free[at][0]:
            count += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == start:
            start, count = self._free[at - 1][0], self._free[at - 1][1] + count
            at -= 1
            self._free.pop(at)
        self._free.insert(at, (start, count))

    def close(self) -> None:
        self._extents.clear()
        self._arena = np.empty(0, np.uint8)
