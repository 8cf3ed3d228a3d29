"""The nvme tier on a file system: one file per object, or slabs of few large files."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Final, Literal

from replayer.tiers.cache_dir import CacheFolder, Direct
from replayer.tiers.contract import ALIGNMENT, Buffer, Object, Plain, aligned
from replayer.tiers.memory import Extents, pieces
from tracegen.schema import InputError

SLAB: Final = 1 << 30

Place = tuple[int, int, int, int]
"""One request: (descriptor, offset in the file, offset in the buffer, bytes)."""


@dataclass(frozen=True)
class BlockIO:
    """How the nvme tier talks to its file system.

    Attributes:
        size: bytes of one request at most.
        depth: requests of one object in flight.
        direct: whether the page cache is passed by; auto: where the file system allows it.
        fsync: data: an object is on the device when its write ends (fdatasync).
    """

    size: int = 1 << 20
    depth: int = 1
    direct: Direct = "auto"
    fsync: Literal["none", "data"] = "none"


class _Requests:
    """Issues the requests of a chunk: one after the other, or as many at once as the depth says.

    Args:
        io: size and depth.
        objects: how many objects at most are moved at once.
    """

    def __init__(self, io: BlockIO, objects: int) -> None:
        self.size, self.fsync = io.size, io.fsync == "data"
        self._helpers = ThreadPoolExecutor(objects * (io.depth - 1), "io") if io.depth > 1 else None

    def run(self, call: Callable[[Place, Buffer], None], places: list[Place], buffer: Buffer) -> int:
        """Nanoseconds in which at least one request was in flight.

        Raises:
            OSError: a request failed; none is in flight any more.
        """
        if self._helpers is None or len(places) == 1:
            began = perf_counter_ns()
            for place in places:
                call(place, buffer)
            return perf_counter_ns() - began

        def timed(place: Place) -> tuple[int, int]:
            began = perf_counter_ns()
            call(place, buffer)
            return began, perf_counter_ns()

        rest = [self._helpers.submit(timed, place) for place in places[1:]]
        try:
            spans = [timed(places[0])]
        finally:
            wait(rest)
        return _union(spans + [future.result() for future in rest])

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()


def _union(spans: list[tuple[int, int]]) -> int:
    """The length of what intervals cover together."""
    covered = latest = 0
    for begin, end in sorted(spans):
        covered += max(0, end - max(begin, latest))
        latest = max(latest, end)
    return covered


def _read_at(place: Place, buffer: Buffer) -> None:
    descriptor, at, start, length = place
    done, whole = 0, aligned(length)
    while done < length:
        count = os.preadv(descriptor, [buffer.view[start + done : start + whole]], at + done)
        if count == 0:
            name = Path(f"/proc/self/fd/{descriptor}").readlink()
            raise OSError(errno.EIO, f"short read: ends at byte {at + done}", str(name))
        done += count


def _write_at(place: Place, buffer: Buffer) -> None:
    descriptor, at, start, length = place
    done, whole = 0, aligned(length)
    while done < whole:
        done += os.pwritev(descriptor, [buffer.view[start + done : start + whole]], at + done)


class _FileObject(Plain):
    """A file, or a piece of one, open for one object."""

    def __init__(self, descriptor: int, requests: _Requests) -> None:
        self._descriptor, self._requests = descriptor, requests

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        self.device_ns += self._requests.run(_read_at, self._places(offset, length), buffer)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        self.device_ns += self._requests.run(_write_at, self._places(offset, length), buffer)

    def _places(self, offset: int, length: int) -> list[Place]:
        size = self._requests.size
        return [(self._descriptor, offset + at, at, min(size, length - at)) for at in range(0, length, size)]

    def finish(self) -> None:
        if self._requests.fsync:
            began = perf_counter_ns()
            os.fdatasync(self._descriptor)
            self.device_ns += perf_counter_ns() - began

    def __exit__(self, *exception: object) -> None:
        os.close(self._descriptor)


class FileTier:
    """One file per object in a folder of its own under `parent`, removed by `close` unless it is to be kept.

    Attributes:
        folder: that folder.
        direct: whether O_DIRECT is in use.

    Raises:
        InputError: as CacheFolder.
    """

    keeps_bytes = chunked = True

    def __init__(
        self, parent: Path, run: str, io: BlockIO = BlockIO(), *, objects: int = 1, keep: bool = False
    ) -> None:
        self._cache, self._keep = CacheFolder(parent, run, io.direct), keep
        self.folder, self.direct = self._cache.path, self._cache.direct
        self._requests, self._keys = _Requests(io, objects), set[int]()
        self._flags = os.O_DIRECT if self.direct else 0

    def _path(self, key: int) -> Path:
        return self.folder / f"{key:08x}.kv"

    def create(self, key: int, size: int) -> Object:
        self._keys.add(key)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | self._flags
        return _FileObject(os.open(self._path(key), flags, 0o600), self._requests)

    def open(self, key: int, size: int) -> Object:
        return _FileObject(os.open(self._path(key), os.O_RDONLY | self._flags), self._requests)

    def discard(self, key: int) -> None:
        self._path(key).unlink(missing_ok=True)
        self._keys.discard(key)

    def close(self) -> None:
        self._requests.close()
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove([self._path(key) for key in self._keys])
            self._keys.clear()


class _SlabObject(_FileObject):
    def __init__(self, slabs: list[int], extents: list[tuple[int, int]], requests: _Requests) -> None:
        self._slabs, self._extents, self._requests = slabs, extents, requests

    def _places(self, offset: int, length: int) -> list[Place]:
        found = []
        for place, start, count in pieces(self._extents, offset, aligned(length)):
            done = 0
            while done < count:
                at = start + done
                size = min(self._requests.size, count - done, SLAB - at % SLAB)
                found.append((self._slabs[at // SLAB], at % SLAB, place + done, size))
                done += size
        return found

    def finish(self) -> None:
        if self._requests.fsync:
            began = perf_counter_ns()
            for start, size in self._extents:
                for slab in range(start // SLAB, (start + size - 1) // SLAB + 1):
                    os.fdatasync(self._slabs[slab])
            self.device_ns += perf_counter_ns() - began

    def __exit__(self, *exception: object) -> None:
        pass


class SlabTier:
    """Extents in few large files, whose room is claimed before the run.

    Attributes: as FileTier.

    Raises:
        InputError: as CacheFolder, or there is not so much room.
    """

    keeps_bytes = chunked = True

    def __init__(
        self,
        parent: Path,
        run: str,
        room: int,
        io: BlockIO = BlockIO(),
        *,
        objects: int = 1,
        keep: bool = False,
    ) -> None:
        self._cache, self._keep = CacheFolder(parent, run, io.direct), keep
        self.folder, self.direct = self._cache.path, self._cache.direct
        self._requests, self._slabs = _Requests(io, objects), list[int]()
        self._files: list[Path] = []
        room = aligned(room)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if self.direct else 0)
        try:
            for start in range(0, room, SLAB):
                self._files.append(self.folder / f"slab-{start // SLAB}.kv")
                self._slabs.append(os.open(self._files[-1], flags, 0o600))
                os.posix_fallocate(self._slabs[-1], 0, min(SLAB, room - start))
        except BaseException as error:  # Ctrl-C, too: claiming room takes its time
            self._keep = False
            self.close()
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"--cache-dir {parent}: cannot claim {room / 2**30:.2f} GiB for slabs ({error.strerror});"
                " pass a smaller --storage-capacity-gb or --layout files."
            ) from None
        self._room = Extents(room, ALIGNMENT)

    def create(self, key: int, size: int) -> Object:
        if (extents := self._room.take(key, size)) is None:
            raise OSError(errno.ENOSPC, f"no {size} bytes free in the slabs")
        return _SlabObject(self._slabs, extents, self._requests)

    def open(self, key: int, size: int) -> Object:
        if (extents := self._room.of(key)) is None:
            raise FileNotFoundError(errno.ENOENT, f"no object {key} in the slabs")
        return _SlabObject(self._slabs, extents, self._requests)

    def discard(self, key: int) -> None:
        self._room.give(key)

    def close(self) -> None:
        self._requests.close()
        while self._slabs:
            os.close(self._slabs.pop())
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove(self._files)
            self._files = []
