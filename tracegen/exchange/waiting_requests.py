"""Requests of an import that wait until no earlier one can come: a few in memory, all of a source on disk."""

import heapq
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints

OBJECTS_PER_BATCH: Final = 1 << 18


@dataclass(slots=True)
class Planned:
    """A request with its place in the trace; `objects` and their `sources` are what its prefill touches."""

    time_ns: int
    user: int
    order: int
    session: int
    draw: int
    turn: int
    pause_ns: int
    generated: int
    rereads: bool
    is_decode: bool
    own: int
    objects: Ints
    sources: NDArray[np.uint8]

    def __lt__(self, other: "Planned") -> bool:
        return (self.time_ns, self.user, self.order) < (other.time_ns, other.user, other.order)


@dataclass(frozen=True)
class Ready:
    """Requests in order: columns of shape (requests,), then what they touch, request by request."""

    columns: dict[str, Ints]
    objects: Ints
    sources: NDArray[np.uint8]


_COLUMNS: Final = tuple(name for name in Planned.__slots__ if name not in ("order", "objects", "sources"))


class Waiting:
    """Takes requests as they are planned, gives them by (time, user, order).

    In memory until `keep_all`. From then on objects and sources go to a file without a name, 9 bytes each, and 100
    bytes of each request stay in memory, for the order.

    Args:
        folder: on the disk to use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heap: list[Planned] = []
        self._file: IO[bytes] | None = None
        self._kept = {name: array("q") for name in (*_COLUMNS, "count", "offset")}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()

    def keep_all(self) -> None:
        """From now on any request may be before those that wait."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed on leaving)
            for one in sorted(self._heap, key=lambda one: one.order):
                self._keep(one, self._file)
            self._heap = []

    def add(self, one: Planned) -> None:
        """Add a request."""
        if self._file is None:
            heapq.heappush(self._heap, one)
        else:
            self._keep(one, self._file)

    def _keep(self, one: Planned, file: IO[bytes]) -> None:
        values = {"count": len(one.objects), "offset": self._end}
        for name, column in self._kept.items():
            column.append(values[name] if name in values else getattr(one, name))
        self._end += file.write(one.objects.tobytes()) + file.write(one.sources.tobytes())

    def before(self, time_ns: int) -> Ready:
        """The requests before a time, of those in memory."""
        ready = []
        while self._heap and self._heap[0].time_ns < time_ns:
            ready.append(heapq.heappop(self._heap))
        return _ready(ready)

    def rest(self) -> Iterator[Ready]:
        """All others."""
        if self._file is None:
            yield _ready(sorted(self._heap))
            return
        self._file.flush()
        columns = {name: np.frombuffer(column, np.int64) for name, column in self._kept.items()}
        order = np.lexsort((columns["user"], columns["time_ns"]))  # stable: by order
        ends = np.cumsum(columns["count"][order])
        begin = 0
        while begin < len(order):
            before = ends[begin - 1] if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + OBJECTS_PER_BATCH, side="right")))
            yield self._read(self._file.fileno(), {name: column[order[begin:end]] for name, column in columns.items()})
            begin = end

    def _read(self, file: int, columns: dict[str, Ints]) -> Ready:
        count, offset = columns.pop("count").tolist(), columns.pop("offset").tolist()
        parts = [os.pread(file, 9 * n, at) for n, at in zip(count, offset, strict=True)]
        objects = b"".join(part[: 8 * n] for part, n in zip(parts, count, strict=True))
        sources = b"".join(part[8 * n :] for part, n in zip(parts, count, strict=True))
        return Ready(
            columns | {"count": np.array(count)}, np.frombuffer(objects, np.int64), np.frombuffer(sources, "u1")
        )


def _ready(found: list[Planned]) -> Ready:
    columns = {name: np.array([getattr(one, name) for one in found], np.int64) for name in _COLUMNS}
    return Ready(
        columns | {"count": np.array([len(one.objects) for one in found], np.int64)},
        np.concatenate([np.zeros(0, np.int64), *(one.objects for one in found)]),
        np.concatenate([np.zeros(0, np.uint8), *(one.sources for one in found)]),
    )
