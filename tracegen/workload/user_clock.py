"""The users' clocks: when each may begin a session, and when its turns are due."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints, milliseconds_to_ns
from tracegen.draws import Purpose, below, draw, load_gaps
from tracegen.errors import InputError
from tracegen.recipes.recipe import Recipe
from tracegen.sources.sessions import Sessions
from tracegen.workload.turns import NEVER_NS

BLOCK: Final = 1024
HOUR_NS: Final = 3600 * 10**9
_NANO: Final = 10**9
_LAST_NS: Final = 2**61
_SPARE_BLOCKS: Final = 64

SESSIONS_PER_STEP = 1024


class Arrivals:
    """Arrival times of sessions 0, 1, …; each block of 1,024 is drawn without the others.

    Within a block the arrivals are those of a renewal process, given their number: for Poisson
    sorted uniforms, for a gamma law gaps from its table, scaled to the block's length (Devroye,
    "Non-Uniform Random Variate Generation", 1986, V.2). Hourly rates stretch the time of a process
    of one session per second.
    """

    def __init__(self, recipe: Recipe) -> None:
        rate = Fraction(1) if recipe.hourly_rates else Fraction(str(recipe.session_rate))
        self._recipe = recipe
        self._blocks: dict[int, Ints] = {}
        self._block_ns = round(BLOCK * _NANO / rate)
        # Sessions per 10^9 seconds in each hour.
        self._hours = [round(Fraction(str(rate)) * _NANO) for rate in recipe.hourly_rates]

    def times(self, session: Ints) -> Ints:
        """Return the arrival times of these sessions in ns; shape (sessions,)."""
        block, place = np.divmod(session, BLOCK)
        wanted = np.unique(block)
        for number in wanted.tolist():
            if number not in self._blocks:
                self._blocks[number] = self._draw_block(number)
        # Users take sessions in turn: blocks before the slowest user's are never asked for again.
        if len(self._blocks) > 2 * len(wanted) + _SPARE_BLOCKS:
            self._blocks = {number: self._blocks[number] for number in wanted.tolist()}
        times = np.stack([self._blocks[number] for number in wanted.tolist()])
        arrival: Ints = times[np.searchsorted(wanted, block), place]
        return arrival

    def _draw_block(self, number: int) -> Ints:
        _check_time((number + 1) * self._block_ns)
        bits = draw(self._recipe.seed, Purpose.ARRIVAL, number, np.arange(BLOCK + 1))
        if self._recipe.burstiness == 1:
            times = np.sort(below(bits[:BLOCK], self._block_ns))
        else:
            gaps = load_gaps(self._recipe.burstiness)
            ends = list(accumulate(gaps[place] for place in below(bits, len(gaps)).tolist()))
            times = np.array([end * self._block_ns // ends[-1] for end in ends[:-1]], np.int64)
        times = times + number * self._block_ns
        if not self._hours:
            return times
        return np.array([self._stretch(time) for time in times.tolist()], np.int64)

    def _stretch(self, time_ns: int) -> int:
        """Return when hourly rates have brought the sessions that 1 per second has by `time_ns`."""
        per_cycle = sum(self._hours) * 3600
        cycles, left = divmod(time_ns, per_cycle)
        _check_time(cycles * len(self._hours) * HOUR_NS)
        hour = 0
        while left >= self._hours[hour] * 3600:
            left -= self._hours[hour] * 3600
            hour += 1
        return (cycles * len(self._hours) + hour) * HOUR_NS + left * _NANO // self._hours[hour]


def _check_time(time_ns: int) -> None:
    if time_ns > _LAST_NS:
        remedy = "raise recipe key session_rate or hourly_rates"
        raise InputError("sessions would arrive after more than 70 years", remedy)


@dataclass(frozen=True)
class SessionGrid:
    """The next sessions of some users."""

    rows: Ints  # rows of the users in their clock, shape (users,)
    valid: NDArray[np.bool_]  # which places hold a session, shape (users, places); others are after the last session
    number: Ints  # the recipe's numbers of these sessions, user by user, shape (sessions,)


class UserClock:
    """When each user may begin the next session; one row per user.

    User u takes sessions u, u + users, …, one after another. A turn begins one pause after the one
    before has nominally ended: its start plus `decode_token_ms` per generated token. In an open
    loop a session waits for its arrival, too. `session_count` is `NEVER_NS` without an end.
    """

    def __init__(self, recipe: Recipe, users: Ints, session_count: int, end_ns: int) -> None:
        self.frontier_ns = np.zeros_like(users)  # earliest start of the next session; NEVER_NS: there is none
        self._step = recipe.users
        self._session_count = session_count
        self._end_ns = end_ns
        self._token_ns = milliseconds_to_ns(recipe.decode_token_ms)
        self._arrivals = Arrivals(recipe) if recipe.open_loop else None
        self._next_session = users.copy()
        self._free_ns = np.zeros_like(users)

    def __len__(self) -> int:
        return len(self.frontier_ns)

    def first_sessions(self) -> SessionGrid:
        """Return the first session of every user, before any has begun one."""
        return self._next_sessions(np.arange(len(self)), 1)

    def steps(self) -> Iterator[SessionGrid]:
        """Yield next sessions of the slower half of the users, until each has passed the median.

        `begin` the sessions of a step before the next step is taken.
        """
        waiting = np.flatnonzero(self.frontier_ns < NEVER_NS)
        goal = np.median(self.frontier_ns[waiting]) if len(waiting) else 0
        while len(behind := waiting[self.frontier_ns[waiting] <= goal]):
            behind = behind[: max(SESSIONS_PER_STEP, len(waiting) // 16)]
            each = min(SESSIONS_PER_STEP // len(behind), 4 * SESSIONS_PER_STEP // len(waiting))
            yield self._next_sessions(behind, each or 1)

    def _next_sessions(self, rows: Ints, each: int) -> SessionGrid:
        """Return up to `each` next sessions of the users in these rows."""
        grid = self._next_session[rows][:, None] + self._step * np.arange(each)
        valid = grid < self._session_count
        return SessionGrid(rows, valid, grid[valid])

    def begin(self, grid: SessionGrid, sessions: Sessions) -> tuple[Ints, Ints]:
        """Let users begin these sessions, each user one after another.

        Return the start of each turn, and the pause before it, in ns, shape (turns,). A user's first turn
        has no pause.

        Raises:
            InputError: the times would not fit into 63 bits.
        """
        first = np.cumsum(sessions.turns) - sessions.turns
        offset, length = self._time_turns(sessions, first)
        lead = sessions.pause_ns[first]
        is_first = grid.number < self._step
        arrival = np.zeros_like(grid.number)
        if self._arrivals is not None:
            arrival = self._arrivals.times(grid.number)
            lead = np.where(is_first, 0, lead)  # arrivals are spread already
        start, wait = self._start_sessions(grid, arrival, lead, length)
        self._next_session[grid.rows] += self._step * grid.valid.sum(axis=1)
        self._set_frontier(grid.rows)
        pause = sessions.pause_ns.copy()
        pause[first] = np.where(is_first, 0, wait)
        return np.repeat(start, sessions.turns) + offset, pause

    def _time_turns(self, sessions: Sessions, first: Ints) -> tuple[Ints, Ints]:
        """Return each turn's start since its session's start, and each session's length, in ns."""
        lengths = sessions.pause_ns + sessions.generated * float(self._token_ns)
        longest = float(np.add.reduceat(lengths, first).max()) * SESSIONS_PER_STEP
        if longest + float(self._free_ns.max(initial=0)) > NEVER_NS / 2:
            raise InputError("the trace could last over 70 years", "lower recipe key think_s or decode_token_ms")
        busy = sessions.generated * self._token_ns
        spans = sessions.pause_ns + np.concatenate([[0], busy[:-1]])
        spans[first] = 0
        offset = np.cumsum(spans)
        offset -= np.repeat(offset[first], sessions.turns)
        return offset, (offset + busy)[first + sessions.turns - 1]

    def _start_sessions(self, grid: SessionGrid, arrival: Ints, lead: Ints, length: Ints) -> tuple[Ints, Ints]:
        """Return each session's start, and the time since the end of the user's last session.

        It starts at max(arrival, that end + lead). With X(j) the time that the leads and lengths up
        to the start of a user's j-th session take, its start is X(j) + max(free, max over i ≤ j of
        arrival(i) - X(i)).
        """
        arrivals = _spread(grid.valid, arrival)
        leads = _spread(grid.valid, lead)
        lengths = _spread(grid.valid, length)
        free = self._free_ns[grid.rows][:, None]
        path = np.cumsum(leads + lengths, axis=1) - lengths
        slack = np.where(grid.valid, arrivals - path, -NEVER_NS)
        start = path + np.maximum(np.maximum.accumulate(slack, axis=1), free)
        end = start + lengths
        before = np.concatenate([free, end[:, :-1]], axis=1)
        sessions = grid.valid.sum(axis=1)
        last_end = np.take_along_axis(end, np.maximum(sessions - 1, 0)[:, None], 1)
        self._free_ns[grid.rows] = np.where(sessions > 0, last_end[:, 0], free[:, 0])
        return start[grid.valid], (start - before)[grid.valid]

    def _set_frontier(self, rows: Ints) -> None:
        frontier = self._free_ns[rows]
        goes_on = (self._next_session[rows] < self._session_count) & (frontier < self._end_ns)
        if self._arrivals is not None and goes_on.any():
            arrival = self._arrivals.times(self._next_session[rows[goes_on]])
            frontier[goes_on] = np.maximum(frontier[goes_on], arrival)
        self.frontier_ns[rows] = np.where(goes_on & (frontier < self._end_ns), frontier, NEVER_NS)


def _spread(valid: NDArray[np.bool_], values: Ints) -> Ints:
    """Return values in the valid places of a grid, zeros in the others; shape (users, places)."""
    grid = np.zeros(valid.shape, np.int64)
    grid[valid] = values
    return grid
