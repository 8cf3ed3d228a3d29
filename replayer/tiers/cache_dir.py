"""The nvme tier's own folder under --cache-dir: made, locked while its run lives, probed for O_DIRECT, removed."""

import errno
import fcntl
import os
import re
from pathlib import Path
from typing import Final, Literal

import click

from replayer.counters import own_io
from replayer.tiers.contract import ALIGNMENT, Buffer
from tracegen.schema import InputError

MARKER: Final = "kv-replay-cache"
OURS: Final = re.compile(r"[0-9a-f]{8,}\.kv|slab-\d+\.kv|probe|lock")

Direct = Literal["on", "off", "auto"]


class CacheFolder:
    """A fresh folder of one run; its lock dies with the process, whatever kills it.

    Attributes:
        path: the folder.
        direct: whether O_DIRECT is used in it.
        counted: whether /proc/self/io counts what this process reads and writes in it, as it does on local disks.

    Raises:
        InputError: `parent` is no directory, nothing can be written in it, or it refuses an O_DIRECT that must be.
    """

    def __init__(self, parent: Path, run: str, direct: Direct) -> None:
        self.path, self._lock = parent / f".new-{MARKER}-{run}", -1
        if parent.exists() and not parent.is_dir():
            raise InputError(f"--cache-dir {parent} is a file; name a directory.")
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir()
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Under its name it is locked from the first moment on: no other run takes it for one that was left.
            self.path = self.path.rename(parent / f"{MARKER}-{run}")
            possible, self.counted = self._probe()
            self.direct = direct != "off" and possible
        except BaseException as error:
            if self.path.is_dir():
                self.remove([])
            if not isinstance(error, OSError):
                raise
            raise InputError(f"--cache-dir {parent}: {error.strerror}; name a directory with room to write.") from None
        if direct == "on" and not self.direct:
            self.remove([])
            raise InputError(f"--cache-dir {parent} refuses O_DIRECT; pass --direct auto or name another disk.")

    def _probe(self) -> tuple[bool, bool]:
        """Write one block with O_DIRECT and read it back: whether that works, and whether the kernel counted both."""
        probe = self.path / "probe"
        block = Buffer(ALIGNMENT)
        try:
            probe.write_bytes(block.view)  # buffered: fails where nothing can be written at all
            before, descriptor = own_io(), os.open(probe, os.O_RDWR | os.O_DIRECT)
            try:
                done = os.pwritev(descriptor, [block.view], 0) == os.preadv(descriptor, [block.view], 0) == ALIGNMENT
                now = own_io()
                grown = [now.get(name, 0) - before.get(name, 0) for name in ("read_bytes", "write_bytes")]
                return done, done and min(grown) >= ALIGNMENT
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # what file systems without O_DIRECT answer
                raise
            return False, False
        finally:
            probe.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """The cache files in it; the lock is none."""
        found = self.path.iterdir() if self.path.is_dir() else ()
        return [file for file in found if OURS.fullmatch(file.name) and file.name != "lock"]

    def keep(self) -> None:
        """Leave the folder to the user, who asked for it."""
        self._unlock()

    def remove(self, files: list[Path]) -> None:
        """Remove these files of it, and it; what cannot be removed is named, once."""
        try:
            for file in files:
                file.unlink(missing_ok=True)
            self._unlock()
            self.path.rmdir()
        except OSError as error:  # a file that is not ours, or a file system that has turned read-only
            click.secho(f"Warning: {self.path} is left behind: {error.strerror}.", err=True, bold=True)

    def _unlock(self) -> None:
        if self._lock >= 0:
            (self.path / "lock").unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def leftovers(parent: Path) -> list[Path]:
    """Folders under `parent` of runs that were killed: marked as ours, and nobody holds their lock."""
    locks = sorted(parent.glob(f"{MARKER}-*/lock"))
    return [lock.parent for lock in locks if not lock.parent.is_symlink() and _is_free(lock)]


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def size_of(folder: Path) -> int:
    """Bytes of the cache files in a folder."""
    return sum(file.lstat().st_size for file in folder.iterdir() if OURS.fullmatch(file.name))


def clean(folder: Path) -> None:
    """Remove what a killed run left: files named as ours only, and the folder if nothing else is in it.

    Raises:
        InputError: it cannot be removed.
    """
    try:
        for file in folder.iterdir():
            if OURS.fullmatch(file.name) and file.name != "lock":
                file.unlink()
        (folder / "lock").unlink()  # last: what is interrupted here is found again
        folder.rmdir()
    except OSError as error:
        raise InputError(f"{folder} cannot be removed ({error.strerror}); look what is in it.") from None
