"""Failed I/O of compiled code, as exceptions and as the log words them."""

import errno
import os
from typing import Final

from replayer.bindings.compiled import FaultStruct

_OF_PATH, _OWN, _CORRUPT = range(3)  # kinds of faults
_TEXT: Final = 239


class CorruptionError(OSError):
    """What was read is not what was written."""

    def __str__(self) -> str:
        return str(self.strerror)


def described(fault: FaultStruct) -> str:
    """As an exception reads."""
    error = raised(fault)
    return f"{type(error).__name__}: {error}"


def raised(fault: FaultStruct) -> OSError:
    """A fault of the core as an exception."""
    text = fault.text.decode(errors="replace")
    if fault.kind == _CORRUPT:
        return CorruptionError(errno.EIO, text)
    if fault.kind == _OF_PATH:
        return OSError(fault.error, os.strerror(fault.error), text)
    return OSError(fault.error, text)


def noted(error: OSError) -> FaultStruct:
    """An exception as a fault of the core."""
    if isinstance(error, CorruptionError):
        kind, text = _CORRUPT, error.strerror
    elif error.filename is not None:
        kind, text = _OF_PATH, str(error.filename)
    else:
        kind, text = _OWN, error.strerror or str(error)
    return FaultStruct(error.errno or errno.EIO, kind, str(text).encode()[:_TEXT])
