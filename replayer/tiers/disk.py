"""The nvme tier on a drive: one file per object, or extents of a few large files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from replayer.bindings.compiled import address, call, reference
from replayer.tiers.base import align_up, choose_unit
from replayer.tiers.cache_dir import CacheFolder
from replayer.tiers.native import NativeTier
from replayer.tiers.request import PLAIN_IO, BlockIO, TierRequest
from tracegen.errors import InputError

SLAB: Final = 1 << 30
"""Bytes of one slab; the last one may be smaller."""

_probe_uring = call("uring_probe")
_new_files = call("tier_files")
_new_slab = call("tier_slab")
_set_reserve = call("tier_reserve")


def uring_error() -> int:
    """Return the errno with which this machine refuses io_uring; 0 if io_uring works."""
    return int(_probe_uring())


class DiskTier(NativeTier):
    """A tier whose objects are in files of a folder of its own.

    Args:
        handle: the compiled core's tier.
        cache: the folder, open.
        keep: whether to leave the folder when the tier closes.

    Attributes:
        folder: path of the folder.
        direct: whether O_DIRECT is in use.
        is_counted: whether /proc/self/io counts what this process reads and writes in the folder.
    """

    def __init__(self, handle: int, cache: CacheFolder, *, keep: bool) -> None:
        super().__init__(handle)
        self._cache = cache
        self._keep = keep
        self.folder: Path = cache.path
        self.direct: bool = cache.direct
        self.is_counted: bool = cache.is_counted

    def close(self) -> None:
        if self.handle is None:
            return
        super().close()
        self._close_files()
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove(self._list_files())

    def _list_files(self) -> list[str]:
        """List the names of the files to remove."""
        return self._cache.list_files()

    def _close_files(self) -> None:
        """Close the files that the tier keeps open."""


def file_name(key: int) -> str:
    """Return the name of an object's file."""
    return f"{key:08x}.kv"


class FileTier(DiskTier):
    """One file per object, in a folder of the run's own; closing removes the folder.

    Args:
        parent: directory in which the folder is made.
        run: name of the run, which names the folder.
        io: requests to the file system.
        keep: whether to leave the folder and its files when the tier closes.
        say: takes a warning if the folder cannot be removed.

    Raises:
        InputError: as CacheFolder.
    """

    def __init__(
        self,
        parent: Path,
        run: str,
        io: BlockIO = PLAIN_IO,
        *,
        keep: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        cache = CacheFolder(parent, run, io.direct, say)
        path = os.fsencode(cache.path)
        handle = _new_files(cache.descriptor, path, reference(io.struct()), cache.direct)
        super().__init__(handle, cache, keep=keep)

    @classmethod
    def from_request(cls, request: TierRequest) -> Self:
        """Open the tier.

        Raises:
            InputError: as CacheFolder, or the request names no cache directory.
        """
        parent = request.require_cache_dir()
        tier = cls(parent, request.run, request.io, keep=request.keep_cache, say=request.say)
        tier.reserve(request.reserve.bytes_on(parent))
        return tier

    def path(self, key: int) -> Path:
        """Return the path of an object's file."""
        return self.folder / file_name(key)

    def reserve(self, left: int) -> None:
        """Make new objects leave `left` bytes free on the file system; 0: they may fill it."""
        _set_reserve(self._open_handle(), left)


class SlabTier(DiskTier):
    """Extents of a few large files, whose bytes are claimed when the tier opens.

    Args:
        parent: directory in which the folder is made.
        run: name of the run, which names the folder.
        room: bytes that objects may take, each of them padded to `choose_unit(room)`.
        io: requests to the file system.
        keep: whether to leave the folder and its files when the tier closes.
        say: takes a warning if the folder cannot be removed.

    Raises:
        InputError: as CacheFolder, or the file system has too little free space.
    """

    def __init__(
        self,
        parent: Path,
        run: str,
        room: int,
        io: BlockIO = PLAIN_IO,
        *,
        keep: bool = False,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        unit = choose_unit(room)
        room = -(-align_up(room) // unit) * unit
        names = [f"slab-{number}.kv" for number in range(-(-room // SLAB))]
        cache = CacheFolder(parent, run, io.direct, say)
        self._names = names
        self._slabs = list[int]()
        try:
            self._claim(cache, room)
        except BaseException as error:  # Ctrl-C, too: claiming gigabytes takes time
            self._close_files()
            cache.remove(names)
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"cannot claim {room / 2**30:.2f} GiB for slabs ({error.strerror})",
                "pass a smaller `storage_capacity_gb` or `layout=files`",
                subject=parent,
                setting="cache_dir",
            ) from None
        files: Any = np.array(self._slabs, np.int32)
        path = os.fsencode(cache.path)
        handle = _new_slab(address(files), len(files), SLAB, room, unit, reference(io.struct()), path)
        super().__init__(handle, cache, keep=keep)

    @classmethod
    def from_request(cls, request: TierRequest) -> Self:
        """Claim the slabs.

        Raises:
            InputError: as for the class, or the request names no cache directory.
        """
        parent, size = request.require_cache_dir(), request.disk_bytes
        return cls(parent, request.run, size, request.io, keep=request.keep_cache, say=request.say)

    def _claim(self, cache: CacheFolder, room: int) -> None:
        """Create the slabs, open them, and have the file system allocate all their blocks."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if cache.direct else 0)
        for name, start in zip(self._names, range(0, room, SLAB), strict=True):
            self._slabs.append(cache.open(name, flags))
            os.posix_fallocate(self._slabs[-1], 0, min(SLAB, room - start))

    def _list_files(self) -> list[str]:
        return self._names

    def _close_files(self) -> None:
        while self._slabs:
            os.close(self._slabs.pop())
