"""Tiers in memory: one that keeps nothing, and the host's."""

import errno
import threading
from bisect import bisect
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from replayer.tiers.contract import Buffer, Object, Plain, allocate


class _NullObject(Plain):
    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        pass

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        pass


class NullTier:
    """Keeps nothing and takes no time: shows what the replayer itself costs. Its reads cannot be verified."""

    keeps_bytes = chunked = False

    def __init__(self) -> None:
        self._keys: set[int] = set()

    def create(self, key: int, size: int) -> Object:
        self._keys.add(key)
        return _NullObject()

    def open(self, key: int, size: int) -> Object:
        if key not in self._keys:
            raise FileNotFoundError(errno.ENOENT, f"no object {key} in the null tier")
        return _NullObject()

    def discard(self, key: int) -> None:
        self._keys.discard(key)

    def close(self) -> None:
        self._keys.clear()


class Extents:
    """Free room as extents; an allocation is as many of them as it takes.

    So fragmentation is harmless: whatever the free bytes look like, an object of that many bytes fits. Thread-safe.

    Args:
        size: bytes, all free.
        unit: of every extent, in bytes.

    Attributes:
        free: bytes.
    """

    def __init__(self, size: int, unit: int = 1) -> None:
        self.free, self._unit, self._held = 0, unit, dict[int, list[tuple[int, int]]]()
        self._gaps: list[tuple[int, int]] = []  # (start, bytes), by start, neighbours joined
        self._lock = threading.Lock()
        if size:
            self.add(0, size)

    def add(self, start: int, size: int) -> None:
        """More room."""
        with self._lock:
            self._give(start, size)

    def take(self, key: int, size: int) -> list[tuple[int, int]] | None:
        """Room for an object as (start, bytes); None where so much is not free."""
        size = -(-size // self._unit) * self._unit
        with self._lock:
            if size > self.free:
                return None
            self.free -= size
            self._held[key] = taken = self._cut(size)
            return taken

    def of(self, key: int) -> list[tuple[int, int]] | None:
        """Where an object lies; None where it does not."""
        return self._held.get(key)

    def give(self, key: int) -> None:
        """Free an object's room, if it has any."""
        with self._lock:
            for start, size in self._held.pop(key, ()):
                self._give(start, size)

    def _cut(self, size: int) -> list[tuple[int, int]]:
        """The first gap that is large enough; where none is, as many from the front as it takes."""
        whole = next((i for i, (_, count) in enumerate(self._gaps) if count >= size), 0)
        taken: list[tuple[int, int]] = []
        while size:
            start, count = self._gaps[whole]
            used = min(size, count)
            taken.append((start, used))
            self._gaps[whole : whole + 1] = [(start + used, count - used)] if used < count else []
            size -= used
        return taken

    def _give(self, start: int, count: int) -> None:
        self.free += count
        at = bisect(self._gaps, (start,))
        if at < len(self._gaps) and start + count == self._gaps[at][0]:
            count += self._gaps.pop(at)[1]
        if at and sum(self._gaps[at - 1]) == start:
            start, count = self._gaps[at - 1][0], self._gaps[at - 1][1] + count
            at -= 1
            self._gaps.pop(at)
        self._gaps.insert(at, (start, count))


def pieces(extents: list[tuple[int, int]], offset: int, length: int) -> list[tuple[int, int, int]]:
    """(place in the buffer, place in the room, bytes) that cover an object's bytes offset … offset+length-1."""
    found, begin = [], 0
    for start, size in extents:
        low, high = max(offset, begin), min(offset + length, begin + size)
        if low < high:
            found.append((low - offset, start + low - begin, high - low))
        begin += size
    return found


class _ArenaObject(Plain):
    def __init__(self, arena: NDArray[np.uint8], extents: list[tuple[int, int]]) -> None:
        self._arena, self._extents = arena, extents

    def read(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        for place, start, count in pieces(self._extents, offset, length):
            buffer.bytes[place : place + count] = self._arena[start : start + count]
        self.device_ns += perf_counter_ns() - began

    def write(self, offset: int, length: int, buffer: Buffer) -> None:
        began = perf_counter_ns()
        for place, start, count in pieces(self._extents, offset, length):
            self._arena[start : start + count] = buffer.bytes[place : place + count]
        self.device_ns += perf_counter_ns() - began


class CpuTier:
    """One arena of memory, allocated and touched at the start; an object is a list of extents of it."""

    keeps_bytes = chunked = True

    def __init__(self, usable: int) -> None:
        self._arena: NDArray[np.uint8] = np.frombuffer(allocate(usable), np.uint8)[:usable]
        self._arena.fill(0)  # page faults belong before the run
        self._room = Extents(usable)

    def create(self, key: int, size: int) -> Object:
        if (extents := self._room.take(key, size)) is None:
            raise OSError(errno.ENOMEM, f"no {size} bytes free in the cpu tier's arena")
        return _ArenaObject(self._arena, extents)

    def open(self, key: int, size: int) -> Object:
        if (extents := self._room.of(key)) is None:
            raise FileNotFoundError(errno.ENOENT, f"no object {key} in the cpu tier")
        return _ArenaObject(self._arena, extents)

    def discard(self, key: int) -> None:
        self._room.give(key)

    def close(self) -> None:
        self._room, self._arena = Extents(0), np.empty(0, np.uint8)
