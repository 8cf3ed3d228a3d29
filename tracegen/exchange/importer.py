"""Another lab's calls as requests: with sessions, times and objects, as a recipe's requests are.

`docs/formats.md` states every rule that is applied here.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

import numpy as np

from tracegen.arrays import positions
from tracegen.draws import Purpose, choose, draw
from tracegen.exchange.block_ids import BlockObjects
from tracegen.exchange.options import ImportOptions
from tracegen.exchange.sessions import ImportedSession, SessionTable, Timeline
from tracegen.exchange.waiting_requests import TOUCH, WaitingRequest, WaitingRequests
from tracegen.formats.format import Format
from tracegen.formats.rows import Call
from tracegen.recipes.recipe import Qos
from tracegen.schema import Columns
from tracegen.workload.ops import Requests

CALLS_PER_BATCH: Final = 4096


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
        # A pause that is shortened, or counted from a session's end, may put a request before
        # earlier calls.
        self._leaves_early = format_.is_sorted and not options.max_idle_gap_s
        self._blocks = BlockObjects(options, block_tokens, self.counts, chained=format_.is_prefix_chained)
        self._timeline = Timeline(options, self.counts, from_first_call=format_.is_sorted)
        self._sessions = SessionTable(options, self._timeline, self.counts)
        self._calls = 0
        self._scope: Hashable = None

    def requests(self, calls: Iterable[Call]) -> Iterator[Requests]:
        """Yield the requests of calls in order of (time, user, call), in batches."""
        with closing(WaitingRequests(self._folder)) as waiting:
            for call in calls:
                self._leaves_early &= call.session is None or not self._format.has_delays
                if not self._leaves_early:
                    waiting.move_to_disk()
                self._enter_scope(call.scope)
                request = self._make_request(call)
                self._calls += 1
                if request is not None:
                    waiting.add(request)
                if self._leaves_early and self._calls % CALLS_PER_BATCH == 0:
                    yield self._finish(waiting.take_before(self._timeline.raise_floor(call)))
            for batch in waiting.read_rest():
                yield self._finish(batch)

    def _enter_scope(self, scope: Hashable) -> None:
        """Forget the names of blocks of the scope before, if files are read one after another."""
        if not self._format.is_sorted and scope != self._scope:
            self._blocks.forget(self._scope)
            self._scope = scope

    def _make_request(self, call: Call) -> WaitingRequest | None:
        """Return the request of a call, or None if it is left out."""
        # The first call sets the trace's time 0, even if the sample leaves it out.
        self._timeline.arrival(call)
        session = self._sessions.find(call, self._calls)
        if session is None:
            return None
        is_length_only = call.blocks is None
        objects = self._add_turn(call, session) if is_length_only else self._blocks.find(call)
        if not objects:
            self.counts["requests_without_a_block"] += 1
            return None
        self._sessions.admit(call, session)
        is_decoded = is_length_only if self._options.decode_reads is None else self._options.decode_reads
        touches = np.empty(len(objects), TOUCH)
        touches["object"] = objects
        touches["source"] = self._blocks.touch(objects, session.stream)
        start, pause = self._timeline.place(call, session, waits_for_user=is_decoded)
        if call.session is None and is_length_only:
            self._sessions.reopen(session, call.input_tokens + call.output_tokens, self._calls)
        return WaitingRequest(
            time_ns=start,
            user=session.user,
            order=self._calls,
            session=session.number,
            stream=session.stream,
            turn=session.turns,
            think_ns=pause,
            generated=call.output_tokens,
            is_decoded=is_decoded,
            is_decode=call.is_decode,
            own_count=1 if is_length_only else len(objects),
            touch_count=len(objects),
            touches=touches,
        )

    def _add_turn(self, call: Call, session: ImportedSession) -> list[int]:
        """Add an object of the prompt's new tokens; without any return no objects, else all."""
        if call.input_tokens <= session.stored_tokens:
            return []
        new = self._blocks.add(call.input_tokens - session.stored_tokens)
        session.objects = [*session.objects, new]
        session.stored_tokens = call.input_tokens
        return session.objects

    def _finish(self, batch: Columns) -> Requests:
        # A call's blocks are one step; if only lengths are known, the history is a step of its own.
        touch_count = batch["touch_count"]
        history = np.repeat(touch_count - batch["own_count"], touch_count)
        is_own = positions(touch_count) >= history
        # Other labs' traces lack classes of service: they are drawn by a recipe's defaults.
        qos = choose(draw(self._options.seed, Purpose.QOS, batch["stream"]), astuple(Qos()))
        same = ("time_ns", "think_ns", "user", "session", "turn", "generated", "own_count", "object", "source")
        shared: dict[str, Any] = {name: batch[name] for name in same}
        return Requests(
            **shared,
            qos=qos,
            is_decoded=batch["is_decoded"] > 0,
            is_decode=batch["is_decode"] > 0,
            touch_count=touch_count,
            saved_count=np.zeros_like(touch_count),
            step=((history > 0) & is_own).astype(np.int64),
            tokens=self._blocks.tokens(batch["object"]),
        )
