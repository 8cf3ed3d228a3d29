"""The sessions of imported requests: named by the source or guessed from prompts' lengths, and their times."""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from tracegen.arrays import milliseconds_to_ns, to_ns
from tracegen.draws import Purpose, below, chance, draw
from tracegen.exchange.options import ImportOptions
from tracegen.formats.rows import Call

# A request of known length only continues a session that it could belong to with this probability.
CONTINUES: Final = 0.7
IDLE_NS: Final = 600 * 10**9  # longest pause before it
OPEN_SESSIONS: Final = 1000


@dataclass
class ImportedSession:
    """A session as it grows; times in ns on the trace's clock."""

    stream: int  # number among all sessions, sampled or not; for draws
    shift_ns: int  # its jitter
    number: int = -1  # in the trace; -1 before its first request
    user: int = -1  # -1 before its first request
    turns: int = 0  # number of its requests
    start_ns: int = 0  # of its last request
    end_ns: int = 0  # of its last request
    objects: list[int] = field(default_factory=list)  # of its turns, if only lengths are known
    stored_tokens: int = 0  # tokens of these objects


class Timeline:
    """When each request starts, and when each user's last one ends, in ns on the trace's clock.

    The trace's time 0 is the first call's time with `from_first_call`, else the source's 0. `counts`
    counts requests that start later than the source says.
    """

    def __init__(self, options: ImportOptions, counts: Counter[str], *, from_first_call: bool) -> None:
        self._counts = counts
        self._begin_ns = None if from_first_call else 0  # on the source's clock
        self._token_ns = milliseconds_to_ns(options.decode_token_ms)
        self._user_end_ns: list[int] = []

    def arrival(self, call: Call) -> int:
        """Return when a call arrives, without its session's shift; the first may set time 0."""
        if self._begin_ns is None:
            self._begin_ns = call.time_ns
        return call.time_ns - self._begin_ns

    def add_user(self) -> int:
        """Add a user who has had no request; return the number."""
        self._user_end_ns.append(-1)
        return len(self._user_end_ns) - 1

    def place(self, call: Call, session: ImportedSession, *, waits_for_user: bool) -> tuple[int, int]:
        """Place a call's request, and make it the last of its session and user; return its start and pause.

        It starts when the source says, moved as its session is, or a delay after the end of the user's last
        request; never before the session's last start or, with `waits_for_user`, that end. The pause is
        counted from that end; it is 0 if that is later or there is none.
        """
        last_end = self._user_end_ns[session.user]
        start = self.arrival(call) + session.shift_ns
        if call.delay_ns is not None and last_end >= 0:
            start = last_end + call.delay_ns
        earliest = max(session.start_ns, last_end) if waits_for_user else session.start_ns
        self._counts["requests_put_off"] += start < earliest
        start = max(start, earliest)
        end = start + call.output_tokens * self._token_ns
        session.turns += 1
        session.start_ns = start
        session.end_ns = end
        self._user_end_ns[session.user] = end
        return start, max(0, start - last_end) if last_end >= 0 else 0


class SessionTable:
    """Finds the session of each call; counts guessed and restarted sessions."""

    def __init__(self, options: ImportOptions, timeline: Timeline, counts: Counter[str]) -> None:
        self._options = options
        self._timeline = timeline
        self._counts = counts
        self._jitter_ns = to_ns(options.jitter_s)
        self._sessions: dict[Hashable, ImportedSession] = {}
        self._users: dict[Hashable, int] = {}
        # Those that a call of known length only may continue, by (tokens held, order of the last call).
        self._open: list[tuple[int, int, ImportedSession]] = []
        self._drawn = 0
        self._admitted = 0

    def find(self, call: Call, order: int) -> ImportedSession:
        """Return the session of a call, which has this place among all."""
        if call.session is None:
            return self._guess(call, order) or self._add()
        if call.session not in self._sessions:
            self._sessions[call.session] = self._add()
        session = self._sessions[call.session]
        if call.blocks is None and session.turns and call.input_tokens <= session.stored_tokens:
            # The prompt does not contain the turns before it: nothing of them can be reused.
            self._counts["sessions_begun_anew"] += 1
            session = self._restart(session)
            self._sessions[call.session] = session
        return session

    def _guess(self, call: Call, order: int) -> ImportedSession | None:
        """Remove and return the open session that a call continues, if any.

        Of the sessions that have ended their last request, at most 10 minutes ago, and that hold
        less than the prompt, it is the one that holds most, with probability 0.7.
        """
        if call.blocks is not None or self._options.sessions == "none":
            return None
        bits = draw(self._options.seed, Purpose.SESSION_CONTINUED, [order])
        if not chance(bits, CONTINUES)[0]:
            return None
        now_ns = self._timeline.arrival(call)
        shorter = bisect_right(self._open, call.input_tokens - 1, key=lambda entry: entry[0])
        for place in range(shorter - 1, -1, -1):
            session = self._open[place][2]
            if now_ns - IDLE_NS <= session.end_ns <= now_ns:
                del self._open[place]
                self._counts["requests_in_guessed_sessions"] += 1
                return session
        return None

    def _add(self) -> ImportedSession:
        """Draw a new session."""
        number = self._drawn
        self._drawn += 1
        shift_ns = 0
        if self._jitter_ns:
            bits = draw(self._options.seed, Purpose.JITTER, [number])
            shift_ns = int(below(bits, self._jitter_ns)[0])
        return ImportedSession(stream=number, shift_ns=shift_ns)

    def _restart(self, session: ImportedSession) -> ImportedSession:
        """Return a new session of the same user, moved in time as the old one."""
        self._drawn += 1
        return ImportedSession(
            stream=self._drawn - 1,
            shift_ns=session.shift_ns,
            user=session.user,
            start_ns=session.start_ns,
        )

    def admit(self, call: Call, session: ImportedSession) -> None:
        """Number a session and its user, if this call is its first request."""
        if session.number < 0:
            session.number = self._admitted
            self._admitted += 1
        if session.user < 0:
            session.user = self._find_user(call.user)

    def _find_user(self, name: Hashable) -> int:
        if name is None:
            return self._timeline.add_user()
        if name not in self._users:
            self._users[name] = self._timeline.add_user()
        return self._users[name]

    def reopen(self, session: ImportedSession, held_tokens: int, order: int) -> None:
        """Let a later call of known length only continue a session that holds these tokens."""
        insort(self._open, (held_tokens, order, session))
        if len(self._open) > OPEN_SESSIONS:
            # Drop the half that has been idle longest.
            by_end = sorted(self._open, key=lambda entry: entry[2].end_ns)
            self._open = sorted(by_end[OPEN_SESSIONS // 2 :])
