"""Tiers of the compiled core (`core/tiers.c`) behind the protocol of every tier."""

import ctypes
from collections.abc import Callable
from typing import Self

from replayer.bindings.compiled import FaultStruct, ObjectStruct, call
from replayer.bindings.faults import make_error
from replayer.tiers.base import Buffer, OpenObject
from replayer.tiers.request import TierRequest

_create = call("object_create")
_open = call("object_open")
_read = call("object_read")
_write = call("object_write")
_finish = call("object_finish")
_close = call("object_close")
_discard = call("object_discard")
_free_tier = call("tier_free")
_new_null = call("tier_null")


class NativeObject:
    """An open object of a tier of the compiled core.

    Args:
        function: object_create or object_open.
        handle: the core's tier.

    Raises:
        OSError: as the function reports.

    Attributes:
        struct: the core's object.
    """

    def __init__(self, function: Callable[..., int], handle: int, key: int, size: int) -> None:
        self.struct = ObjectStruct()
        self._fault = FaultStruct()
        # Pointers are made once: each call into the core would make them anew.
        self._at = ctypes.byref(self.struct)
        self._fault_at = ctypes.byref(self._fault)
        self._raise_fault(function(handle, self._at, key, size, self._fault_at))

    @property
    def device_ns(self) -> int:
        return int(self.struct.device_ns)

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        self._transfer(_read, offset, length, buffer)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        self._transfer(_write, offset, length, buffer)

    def _transfer(self, function: Callable[..., int], offset: int, length: int, buffer: Buffer) -> None:
        assert not buffer.is_on_device, "compiled code reaches host memory only"
        self._raise_fault(function(self._at, offset, length, buffer.address, self._fault_at))

    def finish(self) -> None:
        self._raise_fault(_finish(self._at, self._fault_at))

    def _raise_fault(self, error: int) -> None:
        if error:
            raise make_error(self._fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _close(self._at)


class NativeTier:
    """A tier of the compiled core.

    Attributes:
        handle: the core's tier; None after `close`.
    """

    keeps_bytes = True
    is_compiled = True

    def __init__(self, handle: int) -> None:
        self.handle: int | None = handle

    @property
    def engine_handle(self) -> int:
        return self._open_handle()

    def create(self, key: int, size: int) -> OpenObject:
        return NativeObject(_create, self._open_handle(), key, size)

    def open(self, key: int, size: int) -> OpenObject:
        return NativeObject(_open, self._open_handle(), key, size)

    def discard(self, key: int) -> None:
        fault = FaultStruct()
        if _discard(self._open_handle(), key, ctypes.byref(fault)):
            raise make_error(fault)

    def stop_waiting(self) -> None:
        """Do nothing: without a throttle nothing waits."""

    def close(self) -> None:
        if self.handle is not None:
            _free_tier(self.handle)
            self.handle = None

    def _open_handle(self) -> int:
        assert self.handle is not None, "the tier is closed"
        return self.handle


class NullTier(NativeTier):
    """A tier that keeps nothing and takes no time, so that a run shows what the replayer costs."""

    keeps_bytes = False

    def __init__(self) -> None:
        super().__init__(_new_null())

    @classmethod
    def from_request(cls, _request: TierRequest) -> Self:
        """Open the tier."""
        return cls()
