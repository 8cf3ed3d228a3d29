"""Tiers and their objects, whose books the compiled core keeps (`core/tiers.c`).

A tier does I/O and nothing else: the plan decides which tier holds which object.
"""

import ctypes
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import Extent, FaultStruct, ObjectStruct, address, call
from replayer.bindings.faults import make_error
from replayer.tiers.base import Buffer, HostBuffer, allocate_pages, arena_bytes, choose_unit
from replayer.tiers.request import TierRequest

CREATE = call("object_create")
_open = call("object_open")
_read = call("object_read")
_write = call("object_write")
_finish = call("object_finish")
_close = call("object_close")
_discard = call("object_discard")
_wait_turn = call("tier_wait_turn")
_free_tier = call("tier_free")
_wait_at_most = call("tier_wait_at_most")
_new_null = call("tier_null")
_new_elsewhere = call("tier_elsewhere")
_new_memory = call("tier_memory")
_set_budget = call("tier_budget")


READ: Final = 0
WRITE: Final = 1


class NativeObject:
    """An object of a tier, open for reading or writing; a context manager.

    Args:
        function: the core's, CREATE or another that opens an object.
        tier: of the object.

    Raises:
        OSError: as the function reports.

    Attributes:
        struct: the core's object.
    """

    def __init__(self, function: Callable[..., int], tier: "NativeTier", key: int, size: int) -> None:
        self.struct = ObjectStruct()
        self._fault = FaultStruct()
        # Pointers are made once: each call into the core would make them anew.
        self._at = ctypes.byref(self.struct)
        self._fault_at = ctypes.byref(self._fault)
        self._throttle = tier.waits_in_python
        self._raise_fault(function(tier.open_handle(), self._at, key, size, self._fault_at))

    @property
    def device_ns(self) -> int:
        """Time spent inside system calls or memory copies so far."""
        return int(self.struct.device_ns)

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        """Read `length` bytes at `offset` to the front of the buffer; an OSError says that they are fewer."""
        self._transfer(_read, offset, length, buffer)

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        """Write the front of the buffer, `length` bytes, at `offset`; an OSError says that they were fewer."""
        self._transfer(_write, offset, length, buffer)

    def _transfer(self, function: Callable[..., int], offset: int, length: int, buffer: Buffer) -> None:
        assert isinstance(buffer, HostBuffer), "compiled code reaches host memory only"
        self._raise_fault(function(self._at, offset, length, buffer.address, self._fault_at))

    def wait_turn(self, direction: int, length: int, began: int) -> None:
        """Wait as the tier's throttle says, after a transfer that was made in Python.

        Args:
            direction: READ or WRITE.
            length: bytes that were transferred.
            began: perf_counter_ns() before the transfer.
        """
        if self._throttle:  # a call would take longer than the rest
            transferred = perf_counter_ns()
            _wait_turn(self._throttle, direction, length, began)
            self.struct.device_ns += perf_counter_ns() - transferred

    def finish(self) -> None:
        """Make the object as durable as the tier promises; called once, after the last write."""
        self._raise_fault(_finish(self._at, self._fault_at))

    def extents(self) -> list[tuple[int, int]]:
        """List where the object is in its tier's room, as (start, bytes)."""
        if not self.struct.extent_list:
            return [(self.struct.extent.start, self.struct.extent.bytes)]
        # The list is the tier's, and valid while the tier holds the object.
        found = (Extent * self.struct.extents).from_address(self.struct.extent_list)
        return [(extent.start, extent.bytes) for extent in found]

    def _raise_fault(self, error: int) -> None:
        if error:
            raise make_error(self._fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        _close(self._at)


class NativeTier:
    """A place for objects.

    Calls on different keys may overlap, from any thread; calls on one key overlap only if all of
    them read.

    Attributes:
        keeps_bytes: whether a read returns what was written; only then can reads be verified.
        is_compiled: whether compiled code makes moves on this tier. If not, workers come back to
            Python for every move that touches it.
        is_throttled: whether transfers wait for their turn.
        handle: the core's tier, which keeps the books; None after `close`.
    """

    keeps_bytes = True
    is_compiled = True
    is_throttled = False

    def __init__(self, handle: int) -> None:
        self.handle: int | None = handle
        # Compiled code hands moves of this other tier to Python; it has the throttle, and nothing else.
        self._elsewhere: int = 0 if self.is_compiled else _new_elsewhere()

    @property
    def engine_handle(self) -> int:
        """The compiled core's `Tier`; that of `tier_elsewhere` if not `is_compiled`."""
        return self._elsewhere or self.open_handle()

    @property
    def waits_in_python(self) -> int:
        """The core's tier whose throttle Python waits for; 0: compiled code waits by itself, or none has to."""
        return self._elsewhere if self.is_throttled else 0

    def create(self, key: int, size: int) -> NativeObject:
        """Create an object and open it for writing; an OSError says that there is no room, or why not."""
        return self._make_object(CREATE, key, size)

    def open(self, key: int, size: int) -> NativeObject:
        """Open an object for reading; an OSError says that the tier does not hold it."""
        return self._make_object(_open, key, size)

    def _make_object(self, function: Callable[..., int], key: int, size: int) -> NativeObject:
        return NativeObject(function, self, key, size)

    def discard(self, key: int) -> None:
        """Remove an object, or the rest of one that failed; a missing object is no error."""
        fault = FaultStruct()
        if _discard(self.open_handle(), key, ctypes.byref(fault)):
            raise make_error(fault)

    def stop_waiting(self) -> None:
        """End all artificial waits, now and from now on: the run is being stopped."""
        _wait_at_most(self.engine_handle, 0)

    def close(self) -> None:
        """Release the memory, files and handles of the tier; further calls do nothing."""
        if self.handle is None:
            return
        _free_tier(self.handle)
        if self._elsewhere:
            _free_tier(self._elsewhere)
        self._elsewhere = 0
        self.handle = None

    def open_handle(self) -> int:
        """Return the core's tier."""
        assert self.handle is not None, "the tier is closed"
        return self.handle


class NullTier(NativeTier):
    """A tier that keeps nothing and takes no time, so that a run shows what the replayer costs."""

    keeps_bytes = False

    def __init__(self, _request: TierRequest | None = None) -> None:
        super().__init__(_new_null())


class MemoryTier(NativeTier):
    """Extents of an arena.

    Args:
        name: of the tier, for messages.
        usable: bytes that objects may take.
        size: of the arena, by `arena_bytes`.
        arena: its address; 0: compiled code keeps the books alone, and Python moves the bytes.
    """

    def __init__(self, name: str, usable: int, size: int, arena: int = 0) -> None:
        unit = choose_unit(usable)
        super().__init__(_new_memory(arena, size // unit * unit, unit, name.encode()))
        # The arena has padding: without a budget, objects could take more than was asked for.
        _set_budget(self.open_handle(), usable)


class CpuTier(MemoryTier):
    """An arena allocated and touched when the tier opens; an object is a list of its extents."""

    def __init__(self, request: TierRequest) -> None:
        size = arena_bytes(request.capacity, request.objects)
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate_pages(size), np.uint8)
        self._arena.fill(0)  # the page faults happen here, before the run
        super().__init__("cpu tier", request.capacity, size, address(self._arena))

    def close(self) -> None:
        super().close()
        self._arena = np.empty(0, np.uint8)
