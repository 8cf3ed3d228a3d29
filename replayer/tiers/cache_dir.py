"""The folder of the nvme tier in the cache directory: made, locked during its run, removed."""

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from replayer.machine.device_counters import own_io
from replayer.record.options import Direct
from replayer.tiers.base import ALIGNMENT, HostBuffer
from tracegen.errors import InputError

MARKER: Final = "kv-replay-cache"
OURS: Final = re.compile(r"[0-9a-f]{8,}\.kv|slab-\d+\.kv|probe|lock")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def check_parent(parent: Path) -> None:
    """Refuse a cache directory that is a file, or in a folder that is missing: its drive may not be mounted.

    Args:
        parent: the cache directory.

    Raises:
        InputError: it is refused, or cannot be reached.
    """
    try:
        is_folder = stat.S_ISDIR(parent.stat().st_mode)
    except FileNotFoundError:
        if not parent.absolute().parent.is_dir():
            raise _refusal(parent, "no such directory", "mount or create it") from None
        return
    except OSError as error:
        raise _unusable(parent, error) from None
    if not is_folder:
        raise _refusal(parent, "is a file", "name a directory")


def make_parent(parent: Path) -> None:
    """Make the cache directory if it does not exist yet.

    Raises:
        InputError: it cannot be made.
    """
    try:
        parent.mkdir(exist_ok=True)
    except OSError as error:
        raise _unusable(parent, error) from None


def _refusal(parent: Path, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=parent, setting="cache_dir")


def _unusable(parent: Path, error: OSError) -> InputError:
    return _refusal(parent, str(error.strerror), "name a directory that you may write to")


class CacheFolder:
    """A new folder for one run; its lock ends with the process, however the process ends.

    All work in the folder goes by its descriptor: if its name comes to mean another folder, that
    one is left alone.

    Args:
        parent: the cache directory.
        run: name of the run, which names the folder.
        direct: whether to use O_DIRECT; auto: if the file system allows it.
        say: takes a warning, as a sentence, if the folder cannot be removed.

    Attributes:
        path: the folder.
        descriptor: of the folder, open.
        direct: whether O_DIRECT is used in the folder.
        is_counted: whether /proc/self/io counts what this process reads and writes in the folder,
            as it does on local disks.

    Raises:
        InputError: `parent` is no directory or not writable, or refuses the O_DIRECT asked for.
    """

    def __init__(self, parent: Path, run: str, direct: Direct, say: Callable[[str], None] = lambda _text: None) -> None:
        self.path = parent / f"{MARKER}-{run}"
        self._name = ""
        self._say = say
        self.descriptor = -1
        self._parent = -1
        self._lock = -1
        try:
            self._parent = os.open(parent, _FOLDER)
            self._make(f".new-{MARKER}-{run}")
            is_possible, self.is_counted = self._probe()
            self.direct = direct != "off" and is_possible
        except BaseException as error:
            # Whatever was made so far, also if Ctrl-C came in between.
            self.remove()
            if not isinstance(error, OSError):
                raise
            raise _unusable(parent, error) from None
        if direct == "on" and not self.direct:
            self.remove()
            raise _refusal(parent, "refuses O_DIRECT", "pass `direct=auto`, or name another disk")

    def _make(self, new: str) -> None:
        """Make and lock the folder, then rename it: under its own name it always has its lock.

        So no other run mistakes it for a leftover.
        """
        os.mkdir(new, dir_fd=self._parent)
        self._name = new
        self.descriptor = os.open(new, _FOLDER | os.O_NOFOLLOW, dir_fd=self._parent)
        self._lock = self.open("lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(new, self.path.name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._name = self.path.name

    def open(self, name: str, flags: int) -> int:
        """Open a file in the folder.

        Returns:
            Its descriptor.

        Raises:
            OSError: it cannot be opened.
        """
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self.descriptor)

    def _probe(self) -> tuple[bool, bool]:
        """Write one block with O_DIRECT and read it back.

        Returns:
            Whether that works, and whether the kernel counted both.
        """
        block = HostBuffer(ALIGNMENT)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with os.fdopen(self.open("probe", flags), "wb") as probe:
                probe.write(block.view)  # buffered: fails if nothing can be written at all
            return self._probe_direct(block)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the answer of file systems without O_DIRECT
                raise
            return False, False
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink("probe", dir_fd=self.descriptor)

    def _probe_direct(self, block: HostBuffer) -> tuple[bool, bool]:
        # Of a page cache or a network the kernel counts nothing for this process.
        before = own_io()
        descriptor = self.open("probe", os.O_RDWR | os.O_DIRECT)
        try:
            written = os.pwritev(descriptor, [block.view], 0)
            is_possible = written == os.preadv(descriptor, [block.view], 0) == ALIGNMENT
            after = own_io()
        finally:
            os.close(descriptor)
        growth = [after.get(name, 0) - before.get(name, 0) for name in ("read_bytes", "write_bytes")]
        return is_possible, is_possible and min(growth) >= ALIGNMENT

    def keep(self) -> None:
        """Leave the folder and its files to the user, who asked for them."""
        self._unlock()
        self._close()

    def remove(self) -> None:
        """Remove the cache files and the folder; if that fails, say so once."""
        try:
            if self.descriptor >= 0:
                _remove_files(self.descriptor)
            self._unlock()
            if self._name:
                os.rmdir(self._name, dir_fd=self._parent)
        except OSError as error:  # a file that is not ours, or a file system turned read-only
            self._say(f"{self.path} is left behind: {error.strerror}.")
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
        self.descriptor = -1
        self._parent = -1


def leftovers(parent: Path) -> list[Path]:
    """List the folders under `parent` that killed runs left: ours, whose lock nobody holds.

    A folder that the user asked to keep has no lock.
    """
    folders = sorted(parent.glob(f"{MARKER}-*"))
    return [folder for folder in folders if not folder.is_symlink() and _is_free(folder / "lock")]


def _remove_files(folder: int) -> None:
    """Remove the cache files in a folder, all but its lock."""
    for name in os.listdir(folder):
        if OURS.fullmatch(name) and name != "lock":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)


def _is_free(lock: Path) -> bool:
    """Whether no process holds a lock."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # The kernel drops a lock when its process dies, so a lock that is free is a dead run's.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def size_of(folder: Path) -> int:
    """Return the bytes of the cache files in a folder."""
    return sum(file.lstat().st_size for file in folder.iterdir() if OURS.fullmatch(file.name))


def clean(folder: Path) -> None:
    """Remove what a killed run left: only our files, then the folder if nothing else is in it.

    Raises:
        InputError: a file or the folder cannot be removed.
    """
    try:
        descriptor = os.open(folder, _FOLDER | os.O_NOFOLLOW)
        try:
            _remove_files(descriptor)
            with contextlib.suppress(FileNotFoundError):
                os.unlink("lock", dir_fd=descriptor)  # last: if interrupted, it is found again
        finally:
            os.close(descriptor)
        folder.rmdir()
    except OSError as error:
        raise InputError(f"cannot be removed ({error.strerror})", "check what it contains", subject=folder) from None
