"""The nvme tier on a file system: one file per object, or slabs of few large files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from replayer.bindings.compiled import BlockIOStruct, address, call, reference
from replayer.tiers.base import aligned
from replayer.tiers.cache_dir import CacheFolder, Direct
from replayer.tiers.memory import unit_of
from replayer.tiers.native import NativeTier
from tracegen.errors import InputError

SLAB: Final = 1 << 30

_files, _slab, _reserve, _probe = (call(name) for name in ("tier_files", "tier_slab", "tier_reserve", "uring_probe"))

Engine = Literal["psync", "uring"]


def uring_error() -> int:
    """The errno with which this machine refuses io_uring; 0 where it does not."""
    return int(_probe())


@dataclass(frozen=True)
class BlockIO:
    """How the nvme tier talks to its file system.

    Attributes:
        size: bytes of one request at most.
        depth: requests of one object in flight; more than one needs io_uring.
        direct: whether the page cache is passed by; auto: where the file system allows it.
        fsync: data: an object is on the device when its write ends (fdatasync).
        engine: by which system calls: pread and pwrite, or io_uring.
    """

    size: int = 1 << 20
    depth: int = 1
    direct: Direct = "auto"
    fsync: Literal["none", "data"] = "none"
    engine: Engine = "psync"

    def struct(self) -> BlockIOStruct:
        """As the core reads it."""
        return BlockIOStruct(self.size, self.depth, self.fsync == "data", self.engine == "uring")


def name_of(key: int) -> str:
    """Of an object's file."""
    return f"{key:08x}.kv"


class FileTier(NativeTier):
    """One file per object in a folder of its own under `parent`, removed by `close` unless it is to be kept.

    Attributes:
        folder: that folder.
        direct: whether O_DIRECT is in use.

    Raises:
        InputError: as CacheFolder.
    """

    def __init__(self, parent: Path, run: str, io: BlockIO = BlockIO(), *, keep: bool = False) -> None:
        self._cache, self._keep = CacheFolder(parent, run, io.direct), keep
        self.folder, self.direct, self.counted = self._cache.path, self._cache.direct, self._cache.counted
        place = os.fsencode(self.folder)
        super().__init__(_files(self._cache.descriptor, place, reference(io.struct()), self.direct))

    def path(self, key: int) -> Path:
        """Where an object lies."""
        return self.folder / name_of(key)

    def reserve(self, left: int) -> None:
        """From now on new objects leave so many bytes free on the file system; 0: they may fill it."""
        _reserve(self._open_handle(), left)

    def close(self) -> None:
        if self.handle is None:
            return
        super().close()
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove(self._cache.files())


class SlabTier(NativeTier):
    """Extents in few large files, whose room is claimed before the run.

    Args:
        room: bytes that objects may take, each of them padded to `unit_of(room)`.

    Attributes: as FileTier.

    Raises:
        InputError: as CacheFolder, or there is not so much room.
    """

    def __init__(self, parent: Path, run: str, room: int, io: BlockIO = BlockIO(), *, keep: bool = False) -> None:
        self._cache, self._keep = CacheFolder(parent, run, io.direct), keep
        self.folder, self.direct, self.counted = self._cache.path, self._cache.direct, self._cache.counted
        self._slabs, self._files = list[int](), list[str]()
        self.handle = None
        unit = unit_of(room)
        room = -(-aligned(room) // unit) * unit
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (os.O_DIRECT if self.direct else 0)
        try:
            for start in range(0, room, SLAB):
                self._files.append(f"slab-{start // SLAB}.kv")
                self._slabs.append(self._cache.open(self._files[-1], flags))
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
        descriptors: Any = np.array(self._slabs, np.int32)
        place = os.fsencode(self.folder)
        super().__init__(_slab(address(descriptors), len(descriptors), SLAB, room, unit, reference(io.struct()), place))

    def close(self) -> None:
        super().close()
        while self._slabs:
            os.close(self._slabs.pop())
        if not self._files:  # closed before
            return
        if self._keep:
            self._cache.keep()
        else:
            self._cache.remove(self._files)
        self._files = []
