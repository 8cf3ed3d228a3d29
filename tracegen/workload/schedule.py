"""The requests of a recipe in order of time, in bounded memory."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracegen.arrays import IdTable, Ints, Numbering, portions, to_ns
from tracegen.recipes.recipe import Recipe
from tracegen.sources.sessions import Source, draw_sessions
from tracegen.workload.objects import SharedObjects, list_ingestion_times
from tracegen.workload.ops import Requests
from tracegen.workload.turn_builder import TurnBuilder
from tracegen.workload.turns import NEVER_NS, Turns
from tracegen.workload.user_clock import SessionGrid, UserClock

TOUCHES_PER_PORTION = 1 << 18


@dataclass(frozen=True)
class TraceEnd:
    """The end of a trace by its recipe's limit on requests: no shard can know it by itself."""

    last: tuple[int, ...]  # place of the last request, as of `_place`
    users: Ints  # numbers of the users that have a request, ascending

    def keep(self, turns: Turns) -> Turns:
        """Return the turns up to the last, in order of (time, user, session, turn)."""
        end = bisect_right(range(len(turns)), self.last, key=lambda row: _place(turns, row))
        return turns.take(slice(end))


def _place(turns: Turns, row: int) -> tuple[int, ...]:
    """Return the place of a turn among all: its time, and the recipe's user, session and turn."""
    return tuple(int(column[row]) for column in (turns.time_ns, turns.user, turns.session, turns.turn))


class Schedule:
    """The requests of a recipe in order of (time, user, session).

    Users take sessions by their clock (`UserClock`), a step of sessions at a time; turns wait until
    no earlier one can come. Documents are users of one request each, numbered before all others.
    Shard (i, n) has the users whose number leaves i when divided by n. `end` is what `survey` found.
    """

    def __init__(
        self, recipe: Recipe, sources: Sequence[Source], shard: tuple[int, int] = (0, 1), end: TraceEnd | None = None
    ) -> None:
        self.shared = SharedObjects(recipe)
        self._recipe = recipe
        self._sources = sources
        self._end = end
        self._end_ns = _end_ns(recipe, end)
        self._clock = _start_clock(recipe, sources, shard, self._end_ns)
        self._builder = TurnBuilder(recipe, sources, self.shared)
        self._tokens = IdTable(np.int64, self.shared.count)
        self._tokens[np.arange(self.shared.count)] = self.shared.tokens
        self._sessions = Numbering()  # by slot
        self._emitted = 0
        self._pending = self._builder.build_ingestion(shard, self._end_ns)
        self._slots = len(self._pending)  # of the sessions so far
        # No turn is known to be next before every user has begun.
        if len(self._clock):
            self._schedule(self._clock.first_sessions())

    def requests(self, users: Ints) -> Iterator[Requests]:
        """Yield the requests in order, in batches, with the trace's numbers of these users and of sessions."""
        for turns in self.batches():
            session, _ = self._sessions.number(turns.slot)
            user = np.searchsorted(users, turns.user)
            # Portions that fit into memory, however long the histories.
            for rows in portions(turns.count.sum(axis=1) + self._recipe.rag.top_k, TOUCHES_PER_PORTION):
                yield self._builder.make_requests(
                    turns.take(rows),
                    self._tokens,
                    session=session[rows],
                    user=user[rows],
                    live=min(self._lowest_pending(), int(turns.session_first[rows.start :].min())),
                )

    def batches(self) -> Iterator[Turns]:
        """Yield the turns in order, in batches."""
        # A user may run out of sessions before others: go on until no turns and no users are left.
        while len(self._pending) or (self._clock.frontier_ns < NEVER_NS).any():
            turns = self._limit(self._take_ready())
            self._emitted += len(turns)
            if len(turns):
                yield turns
            if self._emitted == self._recipe.requests > 0:
                return
            self._tokens.trim(self._lowest_pending())
            self._sessions.trim(int(self._pending.slot.min(initial=self._slots)))
            for grid in self._clock.steps():
                self._schedule(grid)

    def _take_ready(self) -> Turns:
        """Remove and return the pending turns that no later session can precede, in order."""
        is_ready = self._pending.time_ns < int(self._clock.frontier_ns.min(initial=NEVER_NS))
        ready = self._pending.take(np.flatnonzero(is_ready))
        self._pending = self._pending.take(np.flatnonzero(~is_ready))
        return ready.sort()

    def _limit(self, turns: Turns) -> Turns:
        """Leave out turns after the last request, by its place if that is known, else by count."""
        if self._end is not None:
            return self._end.keep(turns)
        if self._recipe.requests:
            return turns.take(slice(self._recipe.requests - self._emitted))
        return turns

    def _lowest_pending(self) -> int:
        """Return a number below which no pending turn has an object."""
        return int(self._pending.session_first.min(initial=self._tokens.end))

    def _schedule(self, grid: SessionGrid) -> None:
        """Add the turns of these sessions to the pending ones."""
        source, sessions = draw_sessions(self._recipe, self._sources, grid.number)
        time_ns, pause_ns = self._clock.begin(grid, sessions)
        sessions = replace(sessions, pause_ns=pause_ns)
        turns, tokens = self._builder.build(grid.number, source, sessions, time_ns, self._slots, self._tokens.end)
        self._slots += len(grid.number)
        self._tokens.append(tokens)
        in_time = np.flatnonzero(time_ns < self._end_ns)
        self._pending = Turns.concatenate([self._pending, turns.take(in_time)])


def _end_ns(recipe: Recipe, end: TraceEnd | None) -> int:
    """Return the time before which requests begin, in ns."""
    duration_ns = to_ns(recipe.duration_s) or NEVER_NS
    return duration_ns if end is None else min(duration_ns, end.last[0] + 1)


def _start_clock(recipe: Recipe, sources: Sequence[Source], shard: tuple[int, int], end_ns: int) -> UserClock:
    """Return the clock of a shard's users before any has begun; documents are numbered first."""
    session_count = max(NEVER_NS if source.count is None else source.count for source in sources)
    users = np.arange(min(recipe.users, session_count))
    in_shard = (recipe.documents + users) % shard[1] == shard[0]
    return UserClock(recipe, users[in_shard], session_count, end_ns)


def list_users(
    recipe: Recipe, sources: Sequence[Source], shard: tuple[int, int] = (0, 1), end: TraceEnd | None = None
) -> Ints:
    """Return the numbers of a shard's users that have a request, ascending; arguments as of `Schedule`."""
    if end is not None:
        users: Ints = end.users[end.users % shard[1] == shard[0]]
        return users
    end_ns = _end_ns(recipe, None)
    ingested = np.arange(recipe.documents)[list_ingestion_times(recipe) < end_ns]
    documents: Ints = ingested[ingested % shard[1] == shard[0]]
    clock = _start_clock(recipe, sources, shard, end_ns)
    if not len(clock):
        return documents
    grid = clock.first_sessions()
    _, sessions = draw_sessions(recipe, sources, grid.number)
    time_ns, _ = clock.begin(grid, sessions)
    first = time_ns[np.cumsum(sessions.turns) - sessions.turns]
    return np.concatenate([documents, recipe.documents + grid.number[first < end_ns]])


def survey(recipe: Recipe, sources: Sequence[Source]) -> TraceEnd | None:
    """Find where the recipe's limit on requests ends the trace; None without a limit."""
    if not recipe.requests:
        return None
    has_request = IdTable(np.bool_)
    last: tuple[int, ...] = (0, 0, 0, 0)
    for turns in Schedule(recipe, sources).batches():
        has_request.cover(turns.user)
        has_request[turns.user] = np.ones(len(turns), np.bool_)
        last = _place(turns, -1)
    return TraceEnd(last, np.flatnonzero(has_request[np.arange(has_request.end)]))
