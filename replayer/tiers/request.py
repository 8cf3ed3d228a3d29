"""The request that a backend opens its tier from, and how its files are read and written."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from replayer.bindings.compiled import BlockIOStruct
from replayer.machine.reserve import Reserve
from replayer.record.conditions import IoEngine
from replayer.record.options import Direct, Fsync
from tracegen.errors import InputError


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
    fsync: Fsync = "none"
    engine: IoEngine = "psync"

    def struct(self) -> BlockIOStruct:
        """Return the structure that the compiled core reads."""
        return BlockIOStruct(self.size, self.depth, self.fsync == "data", self.engine == "uring")


@dataclass(frozen=True)
class TierRequest:
    """Everything that a backend may need; each takes what concerns it.

    Attributes:
        capacity: bytes that the tier's memory holds, headroom included.
        objects: most objects at a time.
        disk_bytes: most bytes on a disk at a time, padding included.
        cache_dir: directory in which the tier makes its own folder.
        run: name of the run, which names that folder.
        io: requests to the file system.
        keep_cache: leave the folder when the tier closes.
        reserve: free space that new objects leave on the file system.
        gpu_device: device as torch names it: cuda, cuda:1, cpu.
        say: takes warnings, as sentences.
    """

    capacity: int = 0
    objects: int = 0
    disk_bytes: int = 0
    cache_dir: Path | None = None
    run: str = ""
    io: BlockIO = field(default_factory=BlockIO)
    keep_cache: bool = False
    reserve: Reserve = field(default_factory=Reserve)
    gpu_device: str = "cuda"
    say: Callable[[str], None] = lambda _text: None

    def require_cache_dir(self) -> Path:
        """Return the cache directory.

        Raises:
            InputError: there is none.
        """
        if self.cache_dir is None:
            raise InputError("the nvme tier needs a place", "pass `cache_dir=DIR`, or `storage_capacity_gb=0`")
        return self.cache_dir
