"""Requests of an import that wait on disk until the last call is read, which may precede them all."""

import struct
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import portions, ranges

OBJECTS_PER_BATCH: Final = 1 << 18


class WaitingRequest(NamedTuple):
    """The numbers of a request."""

    time_ns: int  # start
    user: int  # number of the user
    session: int  # number of the session
    stream: int  # number of the session for draws
    turn: int  # place in the session, from 1
    think_ns: int  # pause of the user before it
    generated: int  # tokens
    is_decoded: bool  # whether decoding reads its own objects back
    is_decode: bool  # whether it is an I/O of decoding, from a log that knows no requests
    own_count: int  # objects of its own, the last of those that it touches
    touch_count: int  # objects that it touches


_PACKER: Final = struct.Struct(f"<{len(WaitingRequest._fields)}q")
_REQUEST: Final = np.dtype([(name, "<i8") for name in WaitingRequest._fields])
_TOUCH: Final = np.dtype([("object", "<i8"), ("source", "u1")])  # an object, and the code of its source


class WaitingRequests:
    """Takes requests in the order of their calls, returns them by (time, user, call)."""

    def __init__(self, folder: Path) -> None:
        # Files without a name, which vanish with the process; the trace's folder has room for them.
        self._requests = TemporaryFile(dir=folder)  # noqa: SIM115 (`close` closes it)
        self._touches = TemporaryFile(dir=folder)  # noqa: SIM115

    def close(self) -> None:
        """Remove the files."""
        self._requests.close()
        self._touches.close()

    def add(self, request: WaitingRequest, objects: list[int], sources: list[int]) -> None:
        """Add a request, and the objects that its prefill touches with the codes of their sources."""
        touches = np.empty(len(objects), _TOUCH)
        touches["object"] = objects
        touches["source"] = sources
        self._requests.write(_PACKER.pack(*request))
        self._touches.write(touches.tobytes())

    def read(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield batches of records of requests, and of their touches, request by request."""
        requests, touches = _map(self._requests, _REQUEST), _map(self._touches, _TOUCH)
        count = requests["touch_count"]
        first = np.cumsum(count) - count
        order = np.lexsort((requests["user"], requests["time_ns"]))  # stable, so then by call
        for portion in portions(count[order], OBJECTS_PER_BATCH):
            rows = order[portion]
            yield requests[rows], touches[ranges(first[rows], count[rows])]


def _map(file: IO[bytes], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return the records of a file without reading them; an empty file cannot be mapped."""
    file.flush()
    return np.memmap(file, kind, "r") if file.tell() else np.empty(0, kind)
