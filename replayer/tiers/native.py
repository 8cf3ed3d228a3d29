"""The Python face of tiers that live in the compiled core (`core/tiers.c`): the same contract as every other tier's."""

import ctypes
from typing import Any, Self

from replayer.bindings.compiled import FaultStruct, ObjectStruct, address, call
from replayer.bindings.faults import raised
from replayer.tiers.base import Buffer, Object

_create, _open, _read, _write, _finish, _close, _discard = (
    call(f"object_{name}") for name in ("create", "open", "read", "write", "finish", "close", "discard")
)
_free_tier, _throttle, _hurry = (call(f"tier_{name}") for name in ("free", "throttle", "hurry"))


class NativeObject:
    """An object of such a tier."""

    def __init__(self) -> None:
        self.struct, self._fault = ObjectStruct(), FaultStruct()

    @property
    def device_ns(self) -> int:
        return int(self.struct.device_ns)

    def take(self, error: int) -> None:
        """Raise what went wrong."""
        if error:
            raise raised(self._fault)

    def opened(self, function: Any, handle: int, key: int, size: int) -> Self:
        """Open or create it."""
        self.take(function(handle, ctypes.byref(self.struct), key, size, ctypes.byref(self._fault)))
        return self

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        place = address(buffer.words)
        self.take(_read(ctypes.byref(self.struct), offset, length, place, ctypes.byref(self._fault)))

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        place = address(buffer.words)
        self.take(_write(ctypes.byref(self.struct), offset, length, place, ctypes.byref(self._fault)))

    def finish(self) -> None:
        self.take(_finish(ctypes.byref(self.struct), ctypes.byref(self._fault)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _close(ctypes.byref(self.struct))


class NativeTier:
    """A tier of the core.

    Attributes:
        handle: of the core; None once it is closed.
    """

    keeps_bytes = True

    def __init__(self, handle: int) -> None:
        self.handle: int | None = handle

    @property
    def engine_handle(self) -> int:
        return self._open_handle()

    def create(self, key: int, size: int) -> Object:
        return NativeObject().opened(_create, self._open_handle(), key, size)

    def open(self, key: int, size: int) -> Object:
        return NativeObject().opened(_open, self._open_handle(), key, size)

    def discard(self, key: int) -> None:
        fault = FaultStruct()
        if _discard(self._open_handle(), key, ctypes.byref(fault)):
            raise raised(fault)

    def throttle(self, mib_s: float, latency_us: float, write_mib_s: float | None = None) -> None:
        _throttle(self._open_handle(), mib_s, write_mib_s or mib_s, latency_us)

    def hurry(self) -> None:
        _hurry(self._open_handle())

    def close(self) -> None:
        if self.handle is not None:
            _free_tier(self.handle)
            self.handle = None

    def _open_handle(self) -> int:
        assert self.handle is not None, "the tier is closed"
        return self.handle
