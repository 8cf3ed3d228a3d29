"""Stand-ins for the system calls with which the compiled core reads and writes files, for as long as a test lasts."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from replayer.bindings.compiled import variable

_TRANSFER: Final = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long, use_errno=True
)
_SYNC: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, use_errno=True)

Transfer = Callable[[int, int, int, int], int]
"""(descriptor, address, bytes, offset) -> bytes moved; may raise OSError."""
Around = Callable[[Transfer, int, int, int, int], int]
"""The true call, and what it is called with."""
Sync = Callable[[int], int]


def path_of(descriptor: int) -> Path:
    """Which file a call is about."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


def key_of(descriptor: int) -> int:
    """Which object it is about, where each has a file of its own."""
    return int(path_of(descriptor).stem, 16)


class _StandIns:
    """Function pointers of the core, and what they were."""

    def __init__(self) -> None:
        self.crashes: list[BaseException] = []
        self._before: dict[str, int | None] = {}
        self._kept: list[Any] = []  # what the core points to

    def put(self, name: str, kind: Any, around: Callable[..., int]) -> None:
        pointer = variable(name)
        self._before[name] = pointer.value
        true = kind(pointer.value)

        def plain(*arguments: int) -> int:
            done = int(true(*arguments))
            if done < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            return done

        def called(*arguments: int) -> int:
            try:
                return int(around(plain, *arguments))
            except OSError as error:
                ctypes.set_errno(error.errno or errno.EIO)
            except BaseException as error:  # noqa: BLE001 (raised at the end: here it would only be printed)
                self.crashes.append(error)
                ctypes.set_errno(errno.EIO)
            return -1

        self._kept.append(kind(called))
        pointer.value = ctypes.cast(self._kept[-1], ctypes.c_void_p).value

    def take_back(self) -> None:
        for name, value in self._before.items():
            variable(name).value = value


@contextmanager
def injected(
    *, pread: Around | None = None, pwrite: Around | None = None, fdatasync: Callable[[Sync, int], int] | None = None
) -> Iterator[None]:
    """Have the core call these; its other calls stay as they are.

    Its reads and writes by io_uring go past them. Calls come from the workers' own threads.
    """
    stand_ins = _StandIns()
    try:
        for name, kind, around in (
            ("pread", _TRANSFER, pread),
            ("pwrite", _TRANSFER, pwrite),
            ("fdatasync", _SYNC, fdatasync),
        ):
            if around is not None:
                stand_ins.put(f"call_{name}", kind, around)
        yield
    finally:
        stand_ins.take_back()
    if stand_ins.crashes:
        raise stand_ins.crashes[0]
