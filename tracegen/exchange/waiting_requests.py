"""Requests of an import that wait for earlier ones: a few in memory, or all of a source on disk."""

import heapq
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints

OBJECTS_PER_BATCH: Final = 1 << 18


@dataclass(slots=True)
class WaitingRequest:
    """A request of an import.

    Attributes:
        time_ns: start.
        user: number of the user.
        order: place of its call in the source.
        session: number of the session.
        stream: number of the session for draws.
        turn: place in the session, from 1.
        think_ns: pause of the user before it.
        generated: tokens.
        is_decoded: whether decoding reads its own objects back.
        is_decode: whether it is an I/O of decoding, from a log that knows no requests.
        own_count: objects of its own, the last of `objects`.
        objects: that its prefill touches, shape (objects,).
        sources: code of each object's source, shape (objects,).
    """

    time_ns: int
    user: int
    order: int
    session: int
    stream: int
    turn: int
    think_ns: int
    generated: int
    is_decoded: bool
    is_decode: bool
    own_count: int
    objects: Ints
    sources: NDArray[np.uint8]

    def __lt__(self, other: "WaitingRequest") -> bool:
        return (self.time_ns, self.user, self.order) < (other.time_ns, other.user, other.order)


@dataclass(frozen=True)
class RequestColumns:
    """Columns of requests that wait, as of `WaitingRequest`; shape (requests,).

    Attributes:
        touch_count: objects that each request touches.
    """

    time_ns: Ints
    user: Ints
    session: Ints
    stream: Ints
    turn: Ints
    think_ns: Ints
    generated: Ints
    is_decoded: Ints
    is_decode: Ints
    own_count: Ints
    touch_count: Ints


@dataclass(frozen=True)
class OrderedRequests:
    """Requests in order of (time, user, order).

    Attributes:
        columns: of the requests.
        objects: that they touch, request by request, shape (sum of touch_count,).
        sources: code of each object's source, shape as `objects`.
    """

    columns: RequestColumns
    objects: Ints
    sources: NDArray[np.uint8]


_COLUMNS: Final = tuple(column.name for column in fields(RequestColumns))
_SCALARS: Final = tuple(name for name in _COLUMNS if name != "touch_count")


class WaitingRequests:
    """Takes requests in any order, returns them by (time, user, order).

    Requests are in memory until `move_to_disk`. From then on their objects and sources go to a file
    without a name, at 9 bytes each, and 96 bytes of each request stay in memory, for the order.

    Args:
        folder: on the disk to use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heap: list[WaitingRequest] = []
        self._file: IO[bytes] | None = None
        self._columns = {name: array("q") for name in _COLUMNS}
        self._offsets = array("q")  # of each request's objects in the file
        self._file_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def move_to_disk(self) -> None:
        """Keep all requests from now on: any later one may precede them."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed on leaving)
            for request in sorted(self._heap, key=lambda request: request.order):
                self._write(request, self._file)
            self._heap = []

    def add(self, request: WaitingRequest) -> None:
        """Add a request."""
        if self._file is None:
            heapq.heappush(self._heap, request)
        else:
            self._write(request, self._file)

    def _write(self, request: WaitingRequest, file: IO[bytes]) -> None:
        for name in _SCALARS:
            self._columns[name].append(getattr(request, name))
        self._columns["touch_count"].append(len(request.objects))
        self._offsets.append(self._file_bytes)
        self._file_bytes += file.write(request.objects.tobytes())
        self._file_bytes += file.write(request.sources.tobytes())

    def take_before(self, time_ns: int) -> OrderedRequests:
        """Remove and return the requests in memory that start before a time."""
        ready = []
        while self._heap and self._heap[0].time_ns < time_ns:
            ready.append(heapq.heappop(self._heap))
        return _order(ready)

    def read_rest(self) -> Iterator[OrderedRequests]:
        """Yield all requests that still wait, in batches."""
        if self._file is None:
            yield _order(sorted(self._heap))
            return
        self._file.flush()
        columns = {name: np.frombuffer(column, np.int64) for name, column in self._columns.items()}
        offsets = np.frombuffer(self._offsets, np.int64)
        order = np.lexsort((columns["user"], columns["time_ns"]))  # stable, and rows are by `order`
        ends = np.cumsum(columns["touch_count"][order])
        begin = 0
        while begin < len(order):
            before = ends[begin - 1] if begin else 0
            end = max(
                begin + 1,
                int(np.searchsorted(ends, before + OBJECTS_PER_BATCH, side="right")),
            )
            rows = order[begin:end]
            batch = RequestColumns(**{name: column[rows] for name, column in columns.items()})
            yield _read(self._file.fileno(), batch, offsets[rows])
            begin = end


def _read(file: int, columns: RequestColumns, offsets: Ints) -> OrderedRequests:
    """Read the objects and sources of requests from the file."""
    counts = columns.touch_count.tolist()
    places = zip(counts, offsets.tolist(), strict=True)
    parts = [os.pread(file, 9 * count, offset) for count, offset in places]
    objects = b"".join(part[: 8 * count] for part, count in zip(parts, counts, strict=True))
    sources = b"".join(part[8 * count :] for part, count in zip(parts, counts, strict=True))
    return OrderedRequests(
        columns,
        np.frombuffer(objects, np.int64),
        np.frombuffer(sources, np.uint8),
    )


def _order(requests: Sequence[WaitingRequest]) -> OrderedRequests:
    """Return requests, which are in order, as columns."""
    columns = {}
    for name in _SCALARS:
        columns[name] = np.array([getattr(request, name) for request in requests], np.int64)
    touch_count = np.array([len(request.objects) for request in requests], np.int64)
    return OrderedRequests(
        RequestColumns(**columns, touch_count=touch_count),
        np.concatenate([np.zeros(0, np.int64), *(request.objects for request in requests)]),
        np.concatenate([np.zeros(0, np.uint8), *(request.sources for request in requests)]),
    )
