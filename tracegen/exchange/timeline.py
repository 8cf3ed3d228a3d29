"""The times of imported requests: another lab's clock on the trace's."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from tracegen.arrays import milliseconds_to_ns, to_ns
from tracegen.exchange.options import ImportOptions
from tracegen.formats.rows import Call


@dataclass
class ImportedSession:
    """A session as it grows; times in ns on the trace's clock.

    Attributes:
        stream: number among all sessions, sampled or not; for draws.
        shift_ns: its jitter.
        number: in the trace; -1 before its first request.
        user: -1 before its first request.
        saved_ns: sum of the pauses that were shortened.
        turns: number of its requests.
        start_ns: of its last request.
        end_ns: of its last request.
        objects: of its turns, if only lengths are known.
        stored_tokens: tokens of these objects.
    """

    stream: int
    shift_ns: int
    number: int = -1
    user: int = -1
    saved_ns: int = 0
    turns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    objects: list[int] = field(default_factory=list)
    stored_tokens: int = 0


class Timeline:
    """When each request starts, and when each user's last one ends, in ns on the trace's clock.

    Args:
        options: speedup, idle gap and pace of decoding.
        counts: counts requests that start later than the source says.
        from_first_call: the trace's time 0 is the first call's time, not the source's 0.
    """

    def __init__(
        self,
        options: ImportOptions,
        counts: Counter[str],
        *,
        from_first_call: bool,
    ) -> None:
        self._counts = counts
        self._begin_ns = None if from_first_call else 0  # on the source's clock
        self._floor_ns = 0
        self._speedup = Fraction(str(options.speedup))
        self._max_gap_ns = self._scale(to_ns(options.max_idle_gap_s))
        self._token_ns = milliseconds_to_ns(options.decode_token_ms)
        self._user_end_ns: list[int] = []

    def _scale(self, time_ns: int) -> int:
        return time_ns * self._speedup.denominator // self._speedup.numerator

    def arrival(self, call: Call) -> int:
        """Return when a call arrives, without its session's shift; the first may set time 0."""
        if self._begin_ns is None:
            self._begin_ns = call.time_ns
        return self._scale(call.time_ns - self._begin_ns)

    def raise_floor(self, call: Call) -> int:
        """Let no later request start before this call arrives; return that time."""
        self._floor_ns = self.arrival(call)
        return self._floor_ns

    def add_user(self) -> int:
        """Add a user who has had no request; return the number."""
        self._user_end_ns.append(-1)
        return len(self._user_end_ns) - 1

    def place(
        self,
        call: Call,
        session: ImportedSession,
        *,
        waits_for_user: bool,
    ) -> tuple[int, int]:
        """Place a call's request, and make it the last of its session and user.

        It starts when the source says, moved as its session is; never before the session's last
        start nor the floor.

        Args:
            call: the request.
            session: its session.
            waits_for_user: whether it starts after the user's last request has ended.

        Returns:
            Its start, and the pause since the user's last end, 0 if that is later or there is none.
        """
        start = self._wanted_start(call, session)
        last_end = self._user_end_ns[session.user]
        earliest = max(session.start_ns, self._floor_ns)
        if waits_for_user:
            earliest = max(earliest, last_end)
        self._counts["requests_put_off"] += start < earliest
        start = max(start, earliest)
        end = start + call.output_tokens * self._token_ns
        session.turns += 1
        session.start_ns = start
        session.end_ns = end
        self._user_end_ns[session.user] = end
        return start, max(0, start - last_end) if last_end >= 0 else 0

    def _wanted_start(self, call: Call, session: ImportedSession) -> int:
        """Return the start that the source gives, with the session's shift and shortened pauses."""
        start = self.arrival(call) + session.shift_ns - session.saved_ns
        if call.delay_ns is not None and session.turns:
            start = session.end_ns + self._scale(call.delay_ns)
        if session.turns and self._max_gap_ns:
            saved = max(0, start - session.end_ns - self._max_gap_ns)
            session.saved_ns += saved
            start -= saved
        return start
