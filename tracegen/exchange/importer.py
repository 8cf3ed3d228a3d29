"""Another lab's requests made ours: sessions, times and objects, so that they go to ops like those of a recipe.

`docs/formats.md` states every rule that is applied here.
"""

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints, ranges
from tracegen.exchange.block_ids import Blocks, ImportOptions
from tracegen.exchange.waiting_requests import Planned, Ready, Waiting
from tracegen.formats.rows import Call
from tracegen.randomness.draws import Purpose, below, chance, choose, draw
from tracegen.recipe.recipe import Qos
from tracegen.schema import MULTI_TURN, SYSTEM, USER
from tracegen.times import to_ns
from tracegen.workload.requests import Requests

CALLS_PER_BATCH: Final = 4096
CONTINUES: Final = 0.7  # probability that a request of known length alone goes on with a session it could belong to
IDLE_NS: Final = 600 * 10**9  # such a session was last heard of at most so long ago
OPEN_SESSIONS: Final = 1000


@dataclass
class _Session:
    """A session as it grows; times on the trace's clock, tokens of known lengths alone."""

    number: int  # in the trace, once it has a request
    draw: int  # among all sessions, kept or not
    user: int
    shift_ns: int
    saved_ns: int = 0  # pauses that were shortened
    turns: int = 0
    start_ns: int = 0  # of its last request
    end_ns: int = 0
    objects: list[int] = field(default_factory=list)
    stored: int = 0  # tokens of these


class Importer:
    """Turns calls, in the order of their files, into requests.

    Args:
        options: what to change.
        block_tokens: of the source; None where it knows lengths only.
        chained: whether a block's id stands for all before it.
        delays: calls of sessions may have a delay in place of a time: then they are all held to the end.
        in_order: calls come in order of time, so that requests can be let go before the last has been read; else
            file by file.
        folder: on the disk for what is held till the last has been read.

    Attributes:
        counts: what was left out or mended.
    """

    def __init__(
        self,
        options: ImportOptions,
        block_tokens: int | None,
        folder: Path,
        *,
        chained: bool,
        in_order: bool,
        delays: bool = False,
    ) -> None:
        self._options, self._delays, self._folder = options, delays, folder
        self._merged = in_order
        # A pause that is shortened, or counted from a session's end, may bring a request before earlier calls.
        self._in_order = in_order and not options.max_idle_gap_s
        self._blocks = Blocks(options, block_tokens, chained=chained)
        self.counts = self._blocks.counts
        self._sessions: dict[Hashable, _Session | None] = {}
        self._users: dict[Hashable, int] = {}
        self._drawn = self._kept = self._calls = 0
        self._user_end: list[int] = []
        self._open: list[tuple[int, int, _Session]] = []  # length-only sessions by tokens held
        self._scope: Hashable = None
        # Where files are not in order of time, theirs counts from their own beginning.
        self._begin = None if in_order else 0
        self._token_ns = to_ns(options.decode_token_ms) // 1000
        self._speed = Fraction(str(options.speedup))
        self._jitter, self._gap = to_ns(options.jitter_s), self._scaled(to_ns(options.max_idle_gap_s))
        self._floor = 0

    def requests(self, calls: Iterable[Call]) -> Iterator[Requests]:
        """The requests of calls in the order of their files; in order, in batches."""
        with Waiting(self._folder) as waiting:
            for call in calls:
                self._begin = call.time_ns if self._begin is None else self._begin
                self._in_order &= call.session is None or not self._delays
                if not self._in_order:
                    waiting.keep_all()
                self._forget(call)
                planned = self._plan(call)
                self._calls += 1
                if planned is not None:
                    waiting.add(planned)
                if self._in_order and self._calls % CALLS_PER_BATCH == 0:
                    self._floor = self._scaled(call.time_ns - self._begin)
                    yield self._released(waiting.before(self._floor))
            for ready in waiting.rest():
                yield self._released(ready)

    def _forget(self, call: Call) -> None:
        """Forget the names of blocks of a file that has been read, where they mean something in it only."""
        if not self._merged and call.scope != self._scope:
            self._blocks.forget(self._scope)
            self._scope = call.scope

    def _released(self, ready: Ready) -> Requests:
        of, touches = ready.columns, ready.columns["count"]
        # The blocks of a request are one step, and decoding reads all of them; else a turn's history comes first.
        before = np.repeat(touches - of["own"], touches)
        place = ranges(np.zeros_like(touches), touches)
        return Requests(
            time_ns=of["time_ns"],
            think_ns=of["pause_ns"],
            user=of["user"],
            session=of["session"],
            turn=of["turn"],
            qos=self._qos(of["draw"]),
            generated=of["generated"],
            is_decoded=of["rereads"] > 0,
            is_decode=of["is_decode"] > 0,
            touch_count=touches,
            own_count=of["own"],
            saved_count=np.zeros_like(touches),
            object=ready.objects,
            source=ready.sources,
            step=((before > 0) & (place >= before)).astype(np.int64),
            tokens=np.frombuffer(self._blocks.tokens, np.int64)[ready.objects],
        )

    def _scaled(self, time_ns: int) -> int:
        return time_ns * self._speed.denominator // self._speed.numerator

    def _rereads(self, call: Call) -> bool:
        return call.blocks is None if self._options.decode_reads is None else self._options.decode_reads

    def _qos(self, session: Ints) -> Ints:
        """Another lab's trace knows no classes: those of a recipe by default, drawn once per session."""
        return choose(draw(self._options.seed, Purpose.QOS, session), astuple(Qos()))

    def _plan(self, call: Call) -> Planned | None:
        """The request of a call, or None where it is left out."""
        session = self._session_of(call)
        if session is None:
            return None
        objects = self._turn(call, session) if call.blocks is None else self._blocks.of(call)
        if not objects:
            self.counts["requests_without_a_block"] += 1
            return None
        if session.number < 0:
            session.number = self._kept
            self._kept += 1
        if session.user < 0:
            session.user = self._user_of(call)
        start = self._start(call, session)
        last_end = self._user_end[session.user]
        session.turns += 1
        session.start_ns = start
        session.end_ns = self._user_end[session.user] = start + call.output_tokens * self._token_ns
        if call.session is None and call.blocks is None:
            self._reopen(session, call.input_tokens + call.output_tokens)
        return Planned(
            time_ns=start,
            user=session.user,
            order=self._calls,
            session=session.number,
            draw=session.draw,
            turn=session.turns,
            pause_ns=max(0, start - last_end) if last_end >= 0 else 0,
            generated=call.output_tokens,
            rereads=self._rereads(call),
            is_decode=call.is_decode,
            own=1 if call.blocks is None else len(objects),
            objects=np.array(objects, np.int64),
            sources=self._sources(objects, session.draw),
        )

    def _sources(self, objects: list[int], session: int) -> NDArray[np.uint8]:
        """Which reuse each object is: none yet, of the same session, or of another one's prefix."""
        owners = [self._blocks.owners[one] for one in objects]
        for one, owner in zip(objects, owners, strict=True):
            if owner < 0:
                self._blocks.owners[one] = session
        return np.array([USER if one < 0 else MULTI_TURN if one == session else SYSTEM for one in owners], np.uint8)

    def _reopen(self, session: _Session, held: int) -> None:
        """Let a later request of known length go on with this session; of too many, those idle longest give way."""
        insort(self._open, (held, self._calls, session))
        if len(self._open) > OPEN_SESSIONS:
            recent = sorted(self._open, key=lambda one: one[2].end_ns)[OPEN_SESSIONS // 2 :]
            self._open = sorted(recent)

    def _session_of(self, call: Call) -> _Session | None:
        """The session that a call belongs to, or None where the sample leaves it out."""
        if call.session is None:
            found = self._continued(call) if call.blocks is None and self._options.sessions == "guess" else None
            self.counts["requests_in_guessed_sessions"] += found is not None
            return found or self._new_session()
        if call.session not in self._sessions:
            self._sessions[call.session] = self._new_session()
        session = self._sessions[call.session]
        if session and call.blocks is None and session.turns and call.input_tokens <= session.stored:
            # The prompt does not contain what came before: nothing of it can be reused.
            self.counts["sessions_begun_anew"] += 1
            last, self._drawn = session, self._drawn + 1
            session = _Session(-1, self._drawn - 1, last.user, last.shift_ns, last.saved_ns, start_ns=last.start_ns)
            self._sessions[call.session] = session
        return session

    def _new_session(self) -> _Session | None:
        number, seed = self._drawn, self._options.seed
        self._drawn += 1
        if self._options.sample_sessions < 1:
            bits = draw(seed, Purpose.SESSION_KEPT, [number])
            if not chance(bits, self._options.sample_sessions)[0]:
                self.counts["sessions_not_sampled"] += 1
                return None
        shift = int(below(draw(seed, Purpose.JITTER, [number]), self._jitter)[0]) if self._jitter else 0
        return _Session(-1, number, -1, shift)

    def _user_of(self, call: Call) -> int:
        if call.user is None:
            self._user_end.append(-1)
            return len(self._user_end) - 1
        if call.user not in self._users:
            self._users[call.user] = len(self._user_end)
            self._user_end.append(-1)
        return self._users[call.user]

    def _continued(self, call: Call) -> _Session | None:
        """The session that a request of known length alone goes on with, if any.

        Of the sessions that have ended their last request, at most 10 minutes ago, and that hold less than this prompt,
        the one that holds most, with probability 0.7.
        """
        now = self._scaled(call.time_ns - (self._begin or 0))
        place = bisect_right(self._open, call.input_tokens - 1, key=lambda one: one[0])
        going = bool(chance(draw(self._options.seed, Purpose.SESSION_CONTINUED, [self._calls]), CONTINUES)[0])
        for index in range(place - 1, -1, -1) if going else ():
            session = self._open[index][2]
            if now - IDLE_NS <= session.end_ns <= now:
                del self._open[index]
                return session
        return None

    def _start(self, call: Call, session: _Session) -> int:
        """When the request is to be: never before the session's last, nor what has been let go already."""
        start = self._scaled(call.time_ns - (self._begin or 0)) + session.shift_ns - session.saved_ns
        if call.delay_ns is not None and session.turns:
            start = session.end_ns + self._scaled(call.delay_ns)
        if session.turns and self._gap:
            saved = max(0, start - session.end_ns - self._gap)
            session.saved_ns += saved
            start -= saved
        earliest = max(session.start_ns, self._floor)
        if self._rereads(call):
            earliest = max(earliest, self._user_end[session.user])
        self.counts["requests_put_off"] += start < earliest
        return max(start, earliest)

    def _turn(self, call: Call, session: _Session) -> list[int]:
        """The objects of a request whose prompt's length is all that is known: one per turn, this one's last."""
        if call.input_tokens <= session.stored:
            return []
        session.objects = [*session.objects, self._blocks.new(call.input_tokens - session.stored)]
        session.stored = call.input_tokens
        return session.objects
