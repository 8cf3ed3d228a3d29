"""The nvme tier on a drive: one file per object, or extents of a few large files."""

import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from replayer.bindings.compiled import address, call, reference
from replayer.tiers.base import align_up, choose_unit
from replayer.tiers.cache_dir import CacheFolder
from replayer.tiers.native import NativeTier
from replayer.tiers.request import TierRequest
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
    """A tier whose objects are in files of a folder of its own; closing removes them, unless they are to be kept.

    Attributes:
        folder: path of the folder.
        direct: whether O_DIRECT is in use.
        is_counted: whether /proc/self/io counts what this process reads and writes in the folder.

    Raises:
        InputError: as CacheFolder, or the request names no cache directory.
    """

    def __init__(self, request: TierRequest) -> None:
        parent = request.require_cache_dir()
        self._cache = CacheFolder(parent, request.run, request.io.direct, request.say)
        self._keep = request.keep_cache
        self.folder: Path = self._cache.path
        self.direct: bool = self._cache.direct
        self.is_counted: bool = self._cache.is_counted
        super().__init__(self._open_files(request, os.fsencode(self.folder)))

    def _open_files(self, request: TierRequest, path: bytes) -> int:
        """Make the compiled core's tier."""
        raise NotImplementedError

    def close(self) -> None:
        if self.handle is None:
            return
        super().close()
        self._close_files()
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove()

    def _close_files(self) -> None:
        """Close the files that the tier keeps open."""


def file_name(key: int) -> str:
    """Return the name of an object's file."""
    return f"{key:08x}.kv"


class FileTier(DiskTier):
    """One file per object."""

    def _open_files(self, request: TierRequest, path: bytes) -> int:
        handle: int = _new_files(self._cache.descriptor, path, reference(request.io.struct()), self.direct)
        _set_reserve(handle, request.reserve.bytes_on(self.folder))
        return handle

    def path(self, key: int) -> Path:
        """Return the path of an object's file."""
        return self.folder / file_name(key)


class SlabTier(DiskTier):
    """Extents of a few large files, whose bytes are claimed when the tier opens.

    Objects may take `disk_bytes`, each of them padded to `choose_unit(disk_bytes)`.

    Raises:
        InputError: as DiskTier, or the file system has too little free space.
    """

    def _open_files(self, request: TierRequest, path: bytes) -> int:
        unit = choose_unit(request.disk_bytes)
        room = -(-align_up(request.disk_bytes) // unit) * unit
        self._slabs = list[int]()
        try:
            self._claim(room)
        except BaseException as error:  # Ctrl-C, too: claiming gigabytes takes time
            self._close_files()
            self._cache.remove()
            if not isinstance(error, OSError):
                raise
            raise InputError(
                f"cannot claim {room / 2**30:.2f} GiB for slabs ({error.strerror})",
                "pass a smaller `storage_capacity_gb` or `layout=files`",
                subject=request.cache_dir,
                setting="cache_dir",
            ) from None
        files: Any = np.array(self._slabs, np.int32)
        return int(_new_slab(address(files), len(files), SLAB, room, unit, reference(request.io.struct()), path))

    def _claim(self, room: int) -> None:
        """Create the slabs, open them, and have the file system allocate all their blocks."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if self.direct else 0)
        for start in range(0, room, SLAB):
            self._slabs.append(self._cache.open(f"slab-{len(self._slabs)}.kv", flags))
            # A sparse file would meet a full disk in the middle of the run.
            os.posix_fallocate(self._slabs[-1], 0, min(SLAB, room - start))

    def _close_files(self) -> None:
        while self._slabs:
            os.close(self._slabs.pop())
