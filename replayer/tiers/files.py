"""The nvme tier with one file per object."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from replayer.bindings.compiled import call, reference
from replayer.tiers.cache_dir import CacheFolder
from replayer.tiers.disk import PLAIN_IO, BlockIO, DiskTier
from replayer.tiers.request import TierRequest

_new_files = call("tier_files")
_set_reserve = call("tier_reserve")


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
