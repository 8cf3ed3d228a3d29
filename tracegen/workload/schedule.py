"""The requests of a recipe in order of time, in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

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


class Schedule:
    """The requests of a recipe in order of (time, user, session).

    Users take sessions by their clock (`UserClock`), a step of sessions at a time; turns wait until
    no earlier one can come. Documents are users of one request each, numbered before all others.
    """

    def __init__(self, recipe: Recipe, sources: Sequence[Source]) -> None:
        self.shared = SharedObjects(recipe)
        self._recipe = recipe
        self._sources = sources
        self._end_ns = _end_ns(recipe)
        self._clock = _start_clock(recipe, sources)
        self._builder = TurnBuilder(recipe, sources, self.shared)
        self._tokens = IdTable(np.int64, self.shared.count)
        self._tokens[np.arange(self.shared.count)] = self.shared.tokens
        self._sessions = Numbering()  # by slot
        self._emitted = 0
        self._pending = self._builder.build_ingestion(self._end_ns)
        self._slots = len(self._pending)  # of the sessions so far
        # No turn is known to be next before every user has begun.
        if len(self._clock):
            self._schedule(self._clock.first_sessions())

    def requests(self, users: Ints) -> Iterator[Requests]:
        """Yield the requests of these users in order, in batches, with numbers of users and sessions from 0."""
        for every in self.batches():
            turns = every.take(np.flatnonzero(np.isin(every.user, users)))
            if not len(turns):
                continue
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
            turns = self._take_ready()
            if self._recipe.requests:
                turns = turns.take(slice(self._recipe.requests - self._emitted))
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


def _end_ns(recipe: Recipe) -> int:
    """Return the time before which requests begin, in ns."""
    return to_ns(recipe.duration_s) or NEVER_NS


def _start_clock(recipe: Recipe, sources: Sequence[Source]) -> UserClock:
    """Return the clock of the users, documents left out, before any has begun."""
    session_count = max(NEVER_NS if source.count is None else source.count for source in sources)
    return UserClock(recipe, np.arange(min(recipe.users, session_count)), session_count, _end_ns(recipe))


def list_users(recipe: Recipe, sources: Sequence[Source]) -> Ints:
    """Return the numbers of the users that have a request, ascending; documents are numbered first."""
    if recipe.requests:  # where that limit ends the trace, the requests themselves show
        has_request = IdTable(np.bool_)
        for turns in Schedule(recipe, sources).batches():
            has_request.cover(turns.user)
            has_request[turns.user] = np.ones(len(turns), np.bool_)
        return np.flatnonzero(has_request[np.arange(has_request.end)])
    documents = np.flatnonzero(list_ingestion_times(recipe) < _end_ns(recipe))
    clock = _start_clock(recipe, sources)
    if not len(clock):
        return documents
    grid = clock.first_sessions()
    _, sessions = draw_sessions(recipe, sources, grid.number)
    time_ns, _ = clock.begin(grid, sessions)
    first = time_ns[np.cumsum(sessions.turns) - sessions.turns]
    return np.concatenate([documents, recipe.documents + grid.number[first < _end_ns(recipe)]])
