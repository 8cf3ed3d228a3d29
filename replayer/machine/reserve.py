"""Free space of a file system: how much there is, and how much the nvme tier leaves."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reserve:
    """The free space that new objects leave on their file system.

    Attributes:
        share: of the size of the file system.
        bytes: an absolute number instead of a share.
    """

    share: float = 0.05
    bytes: int | None = None

    def bytes_on(self, place: Path) -> int:
        """Return the bytes to leave free on the file system of a directory; 0: fill it."""
        if self.bytes is not None:
            return self.bytes
        system = os.statvfs(find_existing(place))
        return int(system.f_blocks * system.f_frsize * self.share)


def find_existing(place: Path) -> Path:
    """Return a directory, or its nearest parent that exists."""
    return next(path for path in (place, *place.absolute().parents) if path.exists())


def free_bytes(place: Path) -> int:
    """Return the bytes that users may still write to the file system of a directory."""
    system = os.statvfs(find_existing(place))
    return system.f_bavail * system.f_frsize
