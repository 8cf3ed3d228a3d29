"""Free room of an arena in device memory, as extents."""

import threading
from bisect import bisect


class Extents:
    """Free room as extents; an allocation takes as many of them as it needs.

    So fragmentation is harmless: an object fits whenever that many bytes are free in total.
    Thread-safe: `_lock` guards all fields; `extents_of` reads one entry of a dict without it.

    Args:
        size: bytes, all free at first.
        unit: bytes that every extent is a multiple of.

    Attributes:
        free: bytes that are free.
    """

    def __init__(self, size: int, unit: int = 1) -> None:
        self.free = 0
        self._unit = unit
        self._held = dict[int, list[tuple[int, int]]]()
        self._gaps: list[tuple[int, int]] = []  # (start, bytes), sorted; neighbours are joined
        self._lock = threading.Lock()
        if size:
            self.add(0, size)

    def add(self, start: int, size: int) -> None:
        """Add free room."""
        with self._lock:
            self._give(start, size)

    def take(self, key: int, size: int) -> list[tuple[int, int]] | None:
        """Allocate room for an object.

        Returns:
            Its extents as (start, bytes); None if too few bytes are free.
        """
        size = -(-size // self._unit) * self._unit
        with self._lock:
            if size > self.free:
                return None
            self.free -= size
            extents = self._cut(size)
            self._held[key] = extents
            return extents

    def extents_of(self, key: int) -> list[tuple[int, int]] | None:
        """Return the extents of an object; None if it has no room here."""
        return self._held.get(key)

    def give(self, key: int) -> None:
        """Free an object's room, if it has any."""
        with self._lock:
            for start, size in self._held.pop(key, ()):
                self._give(start, size)

    def _cut(self, size: int) -> list[tuple[int, int]]:
        """Take the first gap that is large enough; if there is none, several from the front."""
        gap = next((i for i, (_, count) in enumerate(self._gaps) if count >= size), 0)
        extents: list[tuple[int, int]] = []
        while size:
            start, count = self._gaps[gap]
            used = min(size, count)
            extents.append((start, used))
            rest = [(start + used, count - used)] if used < count else []
            self._gaps[gap : gap + 1] = rest
            size -= used
        return extents

    def _give(self, start: int, count: int) -> None:
        """Free an extent and join it with its neighbours; the caller holds the lock."""
        self.free += count
        at = bisect(self._gaps, (start,))
        if at < len(self._gaps) and start + count == self._gaps[at][0]:
            count += self._gaps.pop(at)[1]
        if at and sum(self._gaps[at - 1]) == start:
            at -= 1
            before_start, before_count = self._gaps.pop(at)
            start = before_start
            count += before_count
        self._gaps.insert(at, (start, count))


def find_pieces(extents: list[tuple[int, int]], offset: int, length: int) -> list[tuple[int, int, int]]:
    """Find the pieces of extents that hold an object's bytes offset … offset+length-1.

    Returns:
        (place in the buffer, place in the arena, bytes) of each piece.
    """
    pieces = []
    begin = 0
    for start, size in extents:
        low = max(offset, begin)
        high = min(offset + length, begin + size)
        if low < high:
            pieces.append((low - offset, start + low - begin, high - low))
        begin += size
    return pieces
