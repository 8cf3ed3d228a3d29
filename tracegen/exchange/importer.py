"""Another lab's calls as requests: with sessions, times and objects, as a recipe's requests are.

Requests wait on disk until the last call is read, as they may be in another order than their calls.
`docs/formats.md` states every rule that is applied here.
"""

import struct
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import portions, positions, ranges
from tracegen.draws import Purpose, choose, draw
from tracegen.exchange.block_ids import BlockObjects
from tracegen.exchange.options import ImportOptions
from tracegen.exchange.sessions import ImportedSession, SessionTable, Timeline
from tracegen.formats.format import Format
from tracegen.formats.rows import Call
from tracegen.recipes.recipe import Qos
from tracegen.workload.ops import Requests

OBJECTS_PER_BATCH: Final = 1 << 16  # their ops take some hundred times as many bytes of memory


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


class Importer:
    """Turns calls, in the order of their files, into requests.

    `block_tokens` is None if the source knows lengths only. The folder is for requests that wait until
    the last call has been read.
    """

    def __init__(self, format_: Format, options: ImportOptions, block_tokens: int | None, folder: Path) -> None:
        self.counts = Counter[str]()  # what was left out or changed, by reason
        self._format = format_
        self._options = options
        self._folder = folder
        self._blocks = BlockObjects(options, block_tokens, self.counts)
        self._timeline = Timeline(options, self.counts, from_first_call=format_.is_sorted)
        self._sessions = SessionTable(options, self._timeline, self.counts)
        self._calls = 0
        self._scope: Hashable = None

    def requests(self, calls: Iterable[Call]) -> Iterator[Requests]:
        """Yield the requests of calls in order of (time, user, call), in batches."""
        with closing(WaitingRequests(self._folder)) as waiting:
            for call in calls:
                self._enter_scope(call.scope)
                self._add_request(call, waiting)
                self._calls += 1
            # Only now, as a delay may put a request after later calls.
            for requests, touches in waiting.read():
                yield self._finish(requests, touches)

    def _enter_scope(self, scope: Hashable) -> None:
        """Forget the names of blocks of the scope before, if files are read one after another."""
        if not self._format.is_sorted and scope != self._scope:
            self._blocks.forget(self._scope)
            self._scope = scope

    def _add_request(self, call: Call, waiting: WaitingRequests) -> None:
        """Add the request of a call to those that wait, unless it is left out."""
        # The first call sets the trace's time 0, even if it has no block and is left out.
        self._timeline.arrival(call)
        session = self._sessions.find(call, self._calls)
        is_length_only = call.blocks is None
        objects = self._add_turn(call, session) if is_length_only else self._blocks.find(call)
        if not objects:
            self.counts["requests_without_a_block"] += 1
            return
        self._sessions.admit(call, session)
        is_decoded = is_length_only if self._options.decode_reads is None else self._options.decode_reads
        start, pause = self._timeline.place(call, session, waits_for_user=is_decoded)
        if call.session is None and is_length_only:
            self._sessions.reopen(session, call.input_tokens + call.output_tokens, self._calls)
        request = WaitingRequest(
            time_ns=start,
            user=session.user,
            session=session.number,
            stream=session.stream,
            turn=session.turns,
            think_ns=pause,
            generated=call.output_tokens,
            is_decoded=is_decoded,
            is_decode=call.is_decode,
            own_count=1 if is_length_only else len(objects),
            touch_count=len(objects),
        )
        waiting.add(request, objects, self._blocks.touch(objects, session.stream))

    def _add_turn(self, call: Call, session: ImportedSession) -> list[int]:
        """Add an object of the prompt's new tokens; without any return no objects, else all."""
        if call.input_tokens <= session.stored_tokens:
            return []
        new = self._blocks.add(call.input_tokens - session.stored_tokens)
        session.objects = [*session.objects, new]
        session.stored_tokens = call.input_tokens
        return session.objects

    def _finish(self, requests: NDArray[Any], touches: NDArray[Any]) -> Requests:
        # A call's blocks are one step; if only lengths are known, the history is a step of its own.
        touch_count = requests["touch_count"]
        history = np.repeat(touch_count - requests["own_count"], touch_count)
        is_own = positions(touch_count) >= history
        # Other labs' traces lack classes of service: they are drawn by a recipe's defaults.
        qos = choose(draw(self._options.seed, Purpose.QOS, requests["stream"]), astuple(Qos()))
        same = ("time_ns", "think_ns", "user", "session", "turn", "generated", "own_count", "touch_count")
        shared: dict[str, Any] = {name: requests[name] for name in same}
        objects = np.ascontiguousarray(touches["object"])
        return Requests(
            **shared,
            qos=qos,
            is_decoded=requests["is_decoded"] > 0,
            is_decode=requests["is_decode"] > 0,
            saved_count=np.zeros_like(touch_count),
            object=objects,
            source=touches["source"],
            step=((history > 0) & is_own).astype(np.int64),
            tokens=self._blocks.tokens(objects),
        )
