"""The shared part of tiers on a disk: their requests to the file system, and their folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from replayer.bindings.compiled import BlockIOStruct, call
from replayer.record.options import Direct
from replayer.tiers.cache_dir import CacheFolder
from replayer.tiers.native import NativeTier

_probe_uring = call("uring_probe")

IoEngine = Literal["psync", "uring"]


def uring_error() -> int:
    """Return the errno with which this machine refuses io_uring; 0 if io_uring works."""
    return int(_probe_uring())


@dataclass(frozen=True)
class BlockIO:
    """Settings by which a tier on a disk reads and writes its files.

    Attributes:
        size: most bytes of one request.
        depth: requests of one object in flight; more than one needs io_uring.
        direct: whether to bypass the page cache; auto: if the file system allows it.
        fsync: data: an object is on the device when its write ends (fdatasync).
        engine: the system calls: pread and pwrite, or io_uring.
    """

    size: int = 1 << 20
    depth: int = 1
    direct: Direct = "auto"
    fsync: Literal["none", "data"] = "none"
    engine: IoEngine = "psync"

    def struct(self) -> BlockIOStruct:
        """Return the structure that the compiled core reads."""
        return BlockIOStruct(self.size, self.depth, self.fsync == "data", self.engine == "uring")


PLAIN_IO: Final = BlockIO()
"""One request of 1 MiB at a time, with O_DIRECT if possible, without fsync."""


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
