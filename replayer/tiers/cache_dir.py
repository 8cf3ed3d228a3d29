"""The nvme tier's own folder under --cache-dir: made, locked while its run lives, probed for O_DIRECT, removed."""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from pathlib import Path
from typing import Final, Literal

import click

from replayer.machine.device_counters import own_io
from replayer.tiers.base import ALIGNMENT, Buffer
from tracegen.errors import InputError

MARKER: Final = "kv-replay-cache"
OURS: Final = re.compile(r"[0-9a-f]{8,}\.kv|slab-\d+\.kv|probe|lock")
_RUN: Final = r"\d{8}T\d{12}-\d+(-\d{4,})?"  # how `replayer.run` names runs
_MADE: Final = re.compile(rf"\.new-{MARKER}-{_RUN}")
_REMOVED: Final = re.compile(rf"{MARKER}-{_RUN}")
_STARTING_S: Final = 60  # a folder that is younger may belong to a run that is starting
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

Direct = Literal["on", "off", "auto"]


def check_parent(parent: Path, *, make: bool) -> None:
    """Refuse a --cache-dir that is no directory, or does not exist and is not to be made.

    Raises:
        InputError: as said.
    """
    try:
        is_folder = stat.S_ISDIR(parent.stat().st_mode)
    except FileNotFoundError:
        if not make:
            raise InputError(
                f"--cache-dir {parent}: no such directory; is it mounted? --make-cache-dir makes it."
            ) from None
        return
    except OSError as error:
        raise InputError(f"--cache-dir {parent}: {error.strerror}; name a directory with room to write.") from None
    if not is_folder:
        raise InputError(f"--cache-dir {parent} is a file; name a directory.")


def make_parent(parent: Path) -> None:
    """Make a --cache-dir that does not exist yet.

    Raises:
        InputError: it cannot be made.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--cache-dir {parent}: {error.strerror}; name a directory with room to write.") from None


class CacheFolder:
    """A fresh folder of one run; its lock dies with the process, whatever kills it.

    What is done in it goes by its descriptor: where its name comes to mean another folder, that one stays untouched.

    Attributes:
        path: the folder.
        descriptor: of the folder, open.
        direct: whether O_DIRECT is used in it.
        counted: whether /proc/self/io counts what this process reads and writes in it, as it does on local disks.

    Raises:
        InputError: `parent` is no directory, nothing can be written in it, or it refuses an O_DIRECT that must be.
    """

    def __init__(self, parent: Path, run: str, direct: Direct) -> None:
        self.path, self._name = parent / f"{MARKER}-{run}", ""
        self.descriptor = self._parent = self._lock = -1
        try:
            self._parent = os.open(parent, _FOLDER)
            self._make(f".new-{MARKER}-{run}")
            possible, self.counted = self._probe()
            self.direct = direct != "off" and possible
        except BaseException as error:
            self.remove([])
            if not isinstance(error, OSError):
                raise
            raise InputError(f"--cache-dir {parent}: {error.strerror}; name a directory with room to write.") from None
        if direct == "on" and not self.direct:
            self.remove([])
            raise InputError(f"--cache-dir {parent} refuses O_DIRECT; pass --direct auto or name another disk.")

    def _make(self, new: str) -> None:
        """Under its own name the folder is locked from the first moment on: no other run takes it for a leftover."""
        os.mkdir(new, dir_fd=self._parent)
        self._name = new
        self.descriptor = os.open(new, _FOLDER | os.O_NOFOLLOW, dir_fd=self._parent)
        self._lock = self.open("lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new, self.path.name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._name = self.path.name

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in the folder.

        Raises:
            OSError: it cannot be opened.
        """
        return os.open(name, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=self.descriptor)

    def _probe(self) -> tuple[bool, bool]:
        """Write one block with O_DIRECT and read it back: whether that works, and whether the kernel counted both."""
        block = Buffer(ALIGNMENT)
        try:
            with os.fdopen(self.open("probe", os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as probe:
                probe.write(block.view)  # buffered: fails where nothing can be written at all
            before, descriptor = own_io(), self.open("probe", os.O_RDWR | os.O_DIRECT)
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
            with contextlib.suppress(FileNotFoundError):
                os.unlink("probe", dir_fd=self.descriptor)

    def files(self) -> list[str]:
        """Names of the cache files in it; the lock is none."""
        return [name for name in _names(self.descriptor) if OURS.fullmatch(name) and name != "lock"]

    def keep(self) -> None:
        """Leave the folder to the user, who asked for it."""
        self._unlock()
        self._close()

    def remove(self, files: list[str]) -> None:
        """Remove these files of it, and it; what cannot be removed is named, once."""
        try:
            for name in files:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self.descriptor)
            self._unlock()
            if self._name:
                os.rmdir(self._name, dir_fd=self._parent)
        except OSError as error:  # a file that is not ours, or a file system that has turned read-only
            click.secho(f"Warning: {self.path} is left behind: {error.strerror}.", err=True, bold=True)
        finally:
            self._close()

    def _unlock(self) -> None:
        if self._lock >= 0:
            with contextlib.suppress(FileNotFoundError):
                os.unlink("lock", dir_fd=self.descriptor)
            os.close(self._lock)
            self._lock = -1

    def _close(self) -> None:
        for descriptor in (self.descriptor, self._parent):
            if descriptor >= 0:
                os.close(descriptor)
        self.descriptor = self._parent = -1


def leftovers(parent: Path) -> list[Path]:
    """Folders under `parent` of runs that were killed.

    Those that are marked as ours and whose lock nobody holds. Of runs that were killed while they made or removed
    theirs: folders named after a run that are empty, or hold nothing but such a lock. What `--keep-cache` left has no
    lock and is not empty.
    """
    return sorted(
        folder
        for folder in (*parent.glob(f"{MARKER}-*"), *parent.glob(f".new-{MARKER}-*"))
        if not folder.is_symlink() and folder.is_dir() and _is_left(folder)
    )


def _names(folder: Path | int) -> list[str]:
    with os.scandir(folder) as found:
        return [one.name for one in found]


def _is_left(folder: Path) -> bool:
    try:
        inside, age_s = _names(folder), (time.time_ns() - folder.stat().st_mtime_ns) / 1e9
    except OSError:
        return False
    if _MADE.fullmatch(folder.name):
        return age_s > _STARTING_S and (not inside or (inside == ["lock"] and _is_free(folder / "lock")))
    if "lock" in inside and folder.name.startswith(MARKER):
        return _is_free(folder / "lock")
    return not inside and _REMOVED.fullmatch(folder.name) is not None


def _is_free(lock: Path) -> bool:
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
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
        descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
        try:
            for name in _names(descriptor):
                if OURS.fullmatch(name) and name != "lock":
                    os.unlink(name, dir_fd=descriptor)
            with contextlib.suppress(FileNotFoundError):
                os.unlink("lock", dir_fd=descriptor)  # last: what is interrupted here is found again
        finally:
            os.close(descriptor)
        folder.rmdir()
    except OSError as error:
        raise InputError(f"{folder} cannot be removed ({error.strerror}); look what is in it.") from None
