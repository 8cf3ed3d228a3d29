"""The system calls of the compiled core, replaced for a test; and io_uring, where there is one."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_int, c_long, c_size_t, c_ssize_t, c_uint, c_void_p
from typing import Any

import pytest

from replayer.bindings.compiled import variable

_TRANSFER = CFUNCTYPE(c_ssize_t, c_int, c_void_p, c_size_t, c_long, use_errno=True)
_SYNC = CFUNCTYPE(c_int, c_int, use_errno=True)
_ENTER = CFUNCTYPE(c_int, c_int, c_uint, c_uint, c_uint, use_errno=True)
_LIBC = ctypes.CDLL(None, use_errno=True)

Transfer = Callable[[int, int, int, int], int]
"""(descriptor, address, bytes, offset): bytes moved; raises OSError."""

needs_uring = pytest.mark.skipif("__import__('replayer.tiers.disk').tiers.disk.uring_error()", reason="no io_uring")


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _real(name: str) -> Transfer:
    function = _LIBC[name]
    function.restype, function.argtypes = c_ssize_t, (c_int, c_void_p, c_size_t, c_long)
    return lambda *request: _checked(function(*request))


pread, pwrite = _real("pread"), _real("pwrite")


def enter(ring: int, count: int, least: int, flags: int) -> int:
    """io_uring_enter, which has one number on every machine."""
    return _checked(int(_LIBC.syscall(c_long(426), ring, count, least, flags, None, c_size_t(0))))


@contextmanager
def replaced(name: str, call: Callable[..., int | None]) -> Iterator[None]:
    """`call` instead of call_pread, call_pwrite, call_fdatasync or call_enter; an OSError that it raises becomes an errno.

    Anything else that it raises fails the test, and the call with EIO.
    """
    crashes = list[BaseException]()

    def guarded(*arguments: int) -> int:
        try:
            return call(*arguments) or 0
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
        except BaseException as error:  # noqa: BLE001 (raised below, in the test's thread)
            crashes.append(error)
            ctypes.set_errno(errno.EIO)
        return -1

    kinds: dict[str, Any] = {"fdatasync": _SYNC, "enter": _ENTER}
    callback, pointer = kinds.get(name, _TRANSFER)(guarded), variable(f"call_{name}")
    before = pointer.value
    pointer.value = ctypes.cast(callback, c_void_p).value
    try:
        yield
    finally:
        pointer.value = before
    if crashes:
        raise crashes[0]
