"""Failed I/O of compiled code, as exceptions and as the log words it."""

import errno
import os
from typing import Final

from replayer.bindings.compiled import FaultStruct

_OF_PATH, _OWN, _CORRUPT = range(3)
"""Kinds of faults: FAULT_CALL, FAULT_OWN and FAULT_CORRUPT of `core/core.h`."""
_TEXT: Final = 239


class CorruptionError(OSError):
    """The bytes read are not the bytes written."""

    def __str__(self) -> str:
        return str(self.strerror)


def describe_fault(fault: FaultStruct) -> str:
    """Format a fault as the exception it stands for: its type and its text."""
    error = make_error(fault)
    return f"{type(error).__name__}: {error}"


def make_error(fault: FaultStruct) -> OSError:
    """Make the exception that a fault of the core stands for."""
    text = fault.text.decode(errors="replace")
    if fault.kind == _CORRUPT:
        return CorruptionError(errno.EIO, text)
    if fault.kind == _OF_PATH:
        return OSError(fault.error, os.strerror(fault.error), text)
    return OSError(fault.error, text)


def make_fault(error: OSError) -> FaultStruct:
    """Make the fault of the core that stands for an exception."""
    if isinstance(error, CorruptionError):
        kind, text = _CORRUPT, error.strerror
    elif error.filename is not None:
        kind, text = _OF_PATH, str(error.filename)
    else:
        kind, text = _OWN, error.strerror or str(error)
    return FaultStruct(error.errno or errno.EIO, kind, str(text).encode()[:_TEXT])
