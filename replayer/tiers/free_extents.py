"""Free room of a tier in device memory, as extents."""

import threading
from bisect import bisect


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
