"""Requests of an import that wait for earlier ones: a few in memory, or all of a source on disk."""

import heapq
import os
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints, portions
from tracegen.schema import Columns

OBJECTS_PER_BATCH: Final = 1 << 18
TOUCH: Final = np.dtype([("object", "<i8"), ("source", "u1")])
"""An object that a prefill touches, and the code of its source."""


class WaitingRequest(NamedTuple):
    """A request of an import; requests compare by time, user and order, which differ in one."""

    time_ns: int  # start
    user: int  # number of the user
    order: int  # place of its call in the source
    session: int  # number of the session
    stream: int  # number of the session for draws
    turn: int  # place in the session, from 1
    think_ns: int  # pause of the user before it
    generated: int  # tokens
    is_decoded: bool  # whether decoding reads its own objects back
    is_decode: bool  # whether it is an I/O of decoding, from a log that knows no requests
    own_count: int  # objects of its own, the last of those that it touches
    touch_count: int  # objects that it touches
    touches: NDArray[Any]  # these objects, as TOUCH, shape (touch_count,)


_NUMBERS: Final = WaitingRequest._fields[:-1]


class WaitingRequests:
    """Takes requests in any order, returns them by (time, user, order).

    A batch has a column of each number of its requests, and `object` and `source` of the objects
    that they touch, request by request. Requests are in memory until `move_to_disk`. From then on
    their objects go to a file without a name in the folder, at 9 bytes each, and 96 bytes of each
    request stay in memory, for the order.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heap: list[WaitingRequest] = []
        self._file: IO[bytes] | None = None
        self._numbers = array("q")  # of the requests on disk, one after another

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def move_to_disk(self) -> None:
        """Keep all requests from now on: any later one may precede them."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 (`close` closes it)
            for request in sorted(self._heap, key=lambda request: request.order):
                self.add(request)
            self._heap = []

    def add(self, request: WaitingRequest) -> None:
        """Add a request."""
        if self._file is None:
            heapq.heappush(self._heap, request)
        else:
            self._numbers.extend(request[:-1])
            self._file.write(request.touches.tobytes())

    def take_before(self, time_ns: int) -> Columns:
        """Remove and return the requests in memory that start before a time."""
        ready = []
        while self._heap and self._heap[0].time_ns < time_ns:
            ready.append(heapq.heappop(self._heap))
        return _gather(ready)

    def read_rest(self) -> Iterator[Columns]:
        """Yield all requests that still wait, in batches."""
        if self._file is None:
            yield _gather(sorted(self._heap))
            return
        self._file.flush()
        numbers = np.frombuffer(self._numbers, np.int64).reshape(-1, len(_NUMBERS))
        columns = dict(zip(_NUMBERS, numbers.T, strict=True))
        sizes = columns["touch_count"] * TOUCH.itemsize
        offsets = np.cumsum(sizes) - sizes
        order = np.lexsort((columns["user"], columns["time_ns"]))  # stable, and rows are by `order`
        for portion in portions(columns["touch_count"][order], OBJECTS_PER_BATCH):
            rows = order[portion]
            places = zip(sizes[rows].tolist(), offsets[rows].tolist(), strict=True)
            touches = b"".join(os.pread(self._file.fileno(), size, offset) for size, offset in places)
            yield _join({name: column[rows] for name, column in columns.items()}, np.frombuffer(touches, TOUCH))


def _gather(requests: Sequence[WaitingRequest]) -> Columns:
    """Return requests, which are in order, as columns."""
    numbers: Ints = np.array([request[:-1] for request in requests], np.int64).reshape(-1, len(_NUMBERS))
    touches = np.concatenate([np.zeros(0, TOUCH), *(request.touches for request in requests)])
    return _join(dict(zip(_NUMBERS, numbers.T, strict=True)), touches)


def _join(numbers: Columns, touches: NDArray[Any]) -> Columns:
    return numbers | {name: np.ascontiguousarray(touches[name]) for name in TOUCH.names or ()}
