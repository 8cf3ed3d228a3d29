"""Room on a file system: what is free, and what the nvme tier leaves free for others."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reserve:
    """What new objects leave free on their file system.

    Attributes:
        share: of the file system.
        bytes: instead, where it is not None.
    """

    share: float = 0.05
    bytes: int | None = None

    def of(self, place: Path) -> int:
        """In bytes; 0: nothing is left free on purpose."""
        found = os.statvfs(existing(place))
        return int(found.f_blocks * found.f_frsize * self.share) if self.bytes is None else self.bytes

    def said(self) -> str:
        """As one types it."""
        return f"{self.share * 100:g}%" if self.bytes is None else f"{self.bytes / 2**30:g}"


def existing(place: Path) -> Path:
    """A directory, or the nearest above it that there is."""
    return next(path for path in (place, *place.absolute().parents) if path.exists())


def free_bytes(place: Path) -> int:
    """What is free to users where a directory is or is to be made."""
    found = os.statvfs(existing(place))
    return found.f_bavail * found.f_frsize
