"""The nvme tier in slabs: extents of a few large files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from replayer.bindings.compiled import address, call, reference
from replayer.tiers.base import align_up, choose_unit
from replayer.tiers.cache_dir import CacheFolder
from replayer.tiers.disk import PLAIN_IO, BlockIO, DiskTier
from replayer.tiers.request import TierRequest
from tracegen.errors import InputError

SLAB: Final = 1 << 30
"""Bytes of one slab; the last one may be smaller."""

_new_slab = call("tier_slab")


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
            raise _make_refusal(parent, room, error) from None
        files: Any = np.array(self._slabs, np.int32)
        path = os.fsencode(cache.path)
        struct = reference(io.struct())
        handle = _new_slab(address(files), len(files), SLAB, room, unit, struct, path)
        super().__init__(handle, cache, keep=keep)

    @classmethod
    def from_request(cls, request: TierRequest) -> Self:
        """Claim the slabs.

        Raises:
            InputError: as for the class, or the request names no cache directory.
        """
        parent = request.require_cache_dir()
        size = request.disk_bytes
        keep = request.keep_cache
        return cls(parent, request.run, size, request.io, keep=keep, say=request.say)

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


def _make_refusal(parent: Path, room: int, error: OSError) -> InputError:
    return InputError(
        f"cannot claim {room / 2**30:.2f} GiB for slabs ({error.strerror})",
        "pass a smaller `storage_capacity_gb` or `layout=files`",
        subject=parent,
        setting="cache_dir",
    )
