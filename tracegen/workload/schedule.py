"""From sessions to requests: who asks when. Users take sessions one after another, on one clock, in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from tracegen.arrays import IdTable, Ints, ranges
from tracegen.errors import InputError
from tracegen.randomness.draws import Purpose, chance, choose, draw
from tracegen.recipe.recipe import Recipe
from tracegen.schema import ENUMS, RAG, USER, Columns, chosen, joined
from tracegen.sources.sessions import Sessions, Source, mixed
from tracegen.times import to_ns
from tracegen.workload.arrivals import Arrivals
from tracegen.workload.objects import Layout, Shared
from tracegen.workload.request_objects import KINDS, columns_of, touched
from tracegen.workload.requests import Requests

SESSIONS_PER_STEP = 1024
TOUCHES_PER_PORTION = 1 << 18
_NEVER: Final = 2**62


@dataclass(frozen=True)
class Cut:
    """What one part of a trace cannot know by itself, where the recipe limits the requests.

    Attributes:
        last: time, user, session number and turn of the last request.
        users: the numbers of the users that have a request.
    """

    last: tuple[int, int, int, int]
    users: Ints


class Schedule:
    """The requests of a recipe in order of (time, user, session).

    User u takes sessions u, u + users, …; in an open loop a session waits for its arrival, too. A turn begins one pause
    after the one before has nominally ended: its start plus `decode_token_ms` per generated token. Documents are users
    of one request each, numbered before all others.

    Args:
        recipe: users, pace and limits.
        sources: of the sessions, in the order of `recipe.weights`.
        part: (i, n) makes the requests of the users whose number leaves i when divided by n.
        cut: as found by `survey`, where the recipe limits the requests.

    Attributes:
        shared: the objects that sessions share.
        users: the numbers of the part's users that have a request (before a cut), in order.
    """

    def __init__(
        self, recipe: Recipe, sources: Sequence[Source], part: tuple[int, int] = (0, 1), cut: Cut | None = None
    ) -> None:
        self._recipe, self._sources, self._cut = recipe, sources, cut
        self.shared = Shared(recipe)
        self._token_ns, self._end = to_ns(recipe.decode_token_ms) // 1000, to_ns(recipe.duration_s) or _NEVER
        if cut is not None:
            self._end = min(self._end, cut.last[0] + 1)
        self._arrivals = Arrivals(recipe) if recipe.open_loop else None
        counts = [_NEVER if source.count is None else source.count for source in sources]
        self._count, self._documents = max(counts), recipe.documents
        people = np.arange(min(recipe.users, self._count))
        people = people[(self._documents + people) % part[1] == part[0]]
        self._next, self._free, self._frontier = people, np.zeros_like(people), np.zeros_like(people)
        self._tokens, self._session_of, self._sessions = IdTable(np.int64, self.shared.count), IdTable(np.int64), 0
        self._tokens[np.arange(self.shared.count)] = self.shared.tokens
        self._emitted = 0
        self._pending = self._ingestion(part)
        # Nothing can be in order before every user has begun.
        if len(people):
            self._advance(np.arange(len(people)), 1)
        self.users = np.unique(self._pending["user"]) if cut is None else cut.users[cut.users % part[1] == part[0]]

    def requests(self) -> Iterator[Requests]:
        """The requests in order, in batches; users, sessions and turns numbered as in a trace.

        Raises:
            InputError: the trace would be longer than its format can say.
        """
        for batch in self.batches():
            begins = np.flatnonzero(batch["turn"] == 0)
            self._session_of[batch["slot"][begins]] = self._sessions + np.arange(len(begins))
            self._sessions += len(begins)
            session = self._session_of[batch["slot"]]
            for rows in self._portions(batch):
                part = chosen(batch, rows)
                requests = touched(part, self.shared, self._tokens, session[rows])
                live = min(self._live(), int(batch["first"][rows.start :].min()))
                yield replace(requests, user=np.searchsorted(self.users, part["user"]), live=live)

    def _portions(self, batch: Columns) -> Iterator[slice]:
        """Rows in portions of so many touches that a few of them fit into memory, however long the histories."""
        touches = sum(batch[kind.number] for kind in KINDS if kind.number in batch) + self._recipe.rag.top_k
        portion = (np.cumsum(touches) - touches) // TOUCHES_PER_PORTION
        cuts = [0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(portion)]
        for begin, end in pairwise(cuts):
            yield slice(begin, end)

    def _live(self) -> int:
        """No turn that still waits has an object below this number."""
        return int(self._pending["first"].min(initial=self._tokens.end))

    def batches(self) -> Iterator[Columns]:
        """The turns in order, in batches; user, session and turn are the recipe's own numbers, from 0."""
        # Those who lag behind may have nothing more to ask in time while others still do.
        while len(self._pending["user"]) or (self._frontier < _NEVER).any():
            ready = self._pending["time_ns"] < int(self._frontier.min(initial=_NEVER))
            batch = chosen(self._pending, ready)
            self._pending = chosen(self._pending, np.flatnonzero(~ready))
            order = np.lexsort((batch["session"], batch["user"], batch["time_ns"]))
            batch = self._cut_off(chosen(batch, order))
            self._emitted += len(batch["user"])
            if len(batch["user"]):
                yield batch
            if self._emitted == self._recipe.requests > 0:
                return
            self._tokens.trim(self._live())
            self._session_of.trim(int(self._pending["slot"].min(initial=self._session_of.end)))
            self._go_on()

    def _go_on(self) -> None:
        """Schedule more sessions of the slower half of the users, until none of them is behind the faster half."""
        going = np.flatnonzero(self._frontier < _NEVER)
        goal = np.median(self._frontier[going]) if len(going) else 0
        while len(behind := going[self._frontier[going] <= goal]):
            behind = behind[: max(SESSIONS_PER_STEP, len(going) // 16)]
            self._advance(behind, min(SESSIONS_PER_STEP // len(behind), 4 * SESSIONS_PER_STEP // len(going)) or 1)

    def _cut_off(self, batch: Columns) -> Columns:
        """Leave out what comes after the last request; a part goes by its place, the whole by its count."""
        if self._cut is not None:
            columns = (batch[name] for name in ("time_ns", "user", "session", "turn"))
            keep, same = np.zeros(len(batch["user"]), np.bool_), np.ones(len(batch["user"]), np.bool_)
            for column, limit in zip(columns, self._cut.last, strict=True):
                keep |= same & (column < limit)
                same &= column == limit
            rows = np.flatnonzero(keep | same)
        else:
            rows = np.arange(len(batch["user"]))[
                : self._recipe.requests - self._emitted if self._recipe.requests else None
            ]
        return chosen(batch, rows)

    def _advance(self, rows: Ints, each: int) -> None:
        """Schedule up to `each` more sessions of the users in these rows."""
        recipe, users = self._recipe, self._recipe.users
        grid = self._next[rows][:, None] + users * np.arange(each)
        valid = grid < self._count
        number = grid[valid]
        person = number % users
        kind = choose(draw(recipe.seed, Purpose.SOURCE, person), list(recipe.weights.values()))
        sessions = mixed(self._sources, kind, number, person)
        first = np.cumsum(sessions.turns) - sessions.turns
        offset, length = self._offsets(sessions, first)
        lead = sessions.pause_ns[first]
        arrival = np.zeros_like(number)
        if self._arrivals is not None:
            arrival = self._arrivals.of(number)
            lead = np.where(number < users, 0, lead)  # arrivals are spread already
        start, wait = self._starts(rows, valid, arrival, lead, length)
        pause = sessions.pause_ns.copy()
        pause[first] = np.where(number < users, 0, wait)
        self._next[rows] = self._next[rows] + users * valid.sum(axis=1)
        self._set_frontier(rows)
        self._append(sessions, kind, number, np.repeat(start, sessions.turns) + offset, pause)

    def _offsets(self, sessions: Sessions, first: Ints) -> tuple[Ints, Ints]:
        """Start of each turn since the start of its session, and the length of each session."""
        lengths = sessions.pause_ns + sessions.generated * float(self._token_ns)
        longest = float(np.add.reduceat(lengths, first).max()) * SESSIONS_PER_STEP
        if longest + float(self._free.max(initial=0)) > _NEVER / 2:
            raise InputError("the trace could last over 70 years; lower think_s or decode_token_ms.")
        busy = sessions.generated * self._token_ns
        spans = sessions.pause_ns + np.concatenate([[0], busy[:-1]])
        spans[first] = 0
        offset = np.cumsum(spans)
        offset -= np.repeat(offset[first], sessions.turns)
        return offset, (offset + busy)[first + sessions.turns - 1]

    def _starts(self, rows: Ints, valid: np.ndarray, arrival: Ints, lead: Ints, length: Ints) -> tuple[Ints, Ints]:
        """Start of each session: max(arrival, end of the user's last + lead); and the time since that end.

        With X(j) the time that the leads and lengths up to the start of a user's j-th session take, that is
        X(j) + max(free, max over i ≤ j of arrival(i) - X(i)).
        """
        grids = np.zeros((3, *valid.shape), np.int64)
        for grid, values in zip(grids, (arrival, lead, length), strict=True):
            grid[valid] = values
        total = np.cumsum(grids[1] + grids[2], axis=1)
        path = total - grids[2]
        late = np.maximum.accumulate(np.where(valid, grids[0] - path, -_NEVER), axis=1)
        start = path + np.maximum(late, self._free[rows][:, None])
        end = start + grids[2]
        before = np.concatenate([self._free[rows][:, None], end[:, :-1]], axis=1)
        last = valid.sum(axis=1) - 1
        self._free[rows] = np.where(
            last >= 0, np.take_along_axis(end, np.maximum(last, 0)[:, None], 1)[:, 0], self._free[rows]
        )
        return start[valid], (start - before)[valid]

    def _set_frontier(self, rows: Ints) -> None:
        frontier = self._free[rows]
        going = (self._next[rows] < self._count) & (frontier < self._end)
        if self._arrivals is not None and going.any():
            frontier[going] = np.maximum(frontier[going], self._arrivals.of(self._next[rows[going]]))
        self._frontier[rows] = np.where(going & (frontier < self._end), frontier, _NEVER)

    def _append(self, sessions: Sessions, kind: Ints, number: Ints, time_ns: Ints, pause: Ints) -> None:
        """Give the turns of new sessions their objects, and let them wait for their time."""
        recipe, turns = self._recipe, sessions.turns
        session, user = np.repeat(number, turns), self._documents + number % recipe.users
        turn = ranges(np.zeros_like(turns), turns)
        prefix_first, prefix_count, prefix_tokens = self.shared.prefixes(number, number % recipe.users)
        phrase_first, phrase_count, phrase_tokens = self.shared.phrases(session, turn)
        of = np.repeat(np.arange(len(number)), turns)
        contains = np.array([source.contains_prefix for source in self._sources])[kind][of]
        inside = phrase_tokens + np.where(turn == 0 if recipe.context_growth else True, prefix_tokens[of], 0)
        context = np.where(contains, np.maximum(1, sessions.context - inside), sessions.context)
        if recipe.context_growth and not recipe.save_decode:
            context += np.where(turn > 0, np.concatenate([[0], sessions.generated[:-1]]), 0)
        sessions = Sessions(turns, context, sessions.generated, pause)
        layout = Layout(recipe, sessions, prefix_tokens, self._tokens.end)
        shares = [recipe.rag.share if source.retrieves is None else source.retrieves for source in self._sources]
        columns = {
            "time_ns": time_ns,
            "think_ns": pause,
            "user": user[of],
            "session": session,
            "turn": turn,
            "slot": self._session_of.end + of,
            "qos": self._qos(number)[of],
            "generated": sessions.generated,
            "decodes": (context <= (recipe.decode_max_context or _NEVER)).astype(np.int64) * recipe.rereads,
            "retrieves": self._retrieves(np.array(shares), kind[of], session, turn),
            "own_source": np.full(len(turn), USER),
            **layout.columns,
        }
        for level in range(prefix_first.shape[1]):
            columns |= {f"prefix{level}": prefix_first[of, level], f"prefixes{level}": prefix_count[of, level]}
        if recipe.common.share:
            columns |= {"phrase": phrase_first, "phrases": phrase_count}
        self._tokens.append(layout.tokens)
        self._session_of.append(np.zeros_like(number))
        early = np.flatnonzero(time_ns < self._end)
        new = {name: columns[name][early] if name in columns else np.zeros_like(early) for name in self._pending}
        self._pending = joined([self._pending, new])

    def _qos(self, session: Ints) -> Ints:
        weights = [getattr(self._recipe.qos, name) for name in ENUMS["qos"]]
        return choose(draw(self._recipe.seed, Purpose.QOS, session), weights)

    def _retrieves(self, shares: np.ndarray, kind: Ints, session: Ints, turn: Ints) -> Ints:
        if not self._recipe.retrieves:
            return np.zeros_like(turn)
        bits = draw(self._recipe.seed, Purpose.RETRIEVES, session, turn)
        hits = np.zeros_like(turn)
        for k, share in enumerate(shares):
            hits |= (kind == k) & chance(bits, float(share))
        return hits

    def _ingestion(self, part: tuple[int, int]) -> Columns:
        """The requests of this part's documents, which write their chunks."""
        names = ["time_ns", "think_ns", "user", "session", "turn", "slot", "qos", "generated", "decodes", "own_source"]
        pending = dict.fromkeys([*names, "first", *columns_of(self._recipe)], np.zeros(0, np.int64))
        if not self._documents:
            return pending
        time_ns, own, owns = self.shared.ingested()
        mine = np.flatnonzero((np.arange(self._documents) % part[1] == part[0]) & (time_ns < self._end))
        columns = {
            "time_ns": time_ns[mine],
            "user": mine,
            "session": mine - self._documents,
            "slot": np.arange(len(mine)),
            "qos": np.full(len(mine), ENUMS["qos"].index("batch")),
            "own_source": np.full(len(mine), RAG),
            "first": np.full(len(mine), _NEVER),
            "own": own[mine],
            "owns": owns[mine],
        }
        self._session_of.append(np.zeros(len(mine), np.int64))
        return {name: columns.get(name, np.zeros(len(mine), np.int64)) for name in pending}


def survey(recipe: Recipe, sources: Sequence[Source]) -> Cut | None:
    """Where the recipe's limit on requests cuts the trace; None without a limit."""
    if not recipe.requests:
        return None
    seen, last = IdTable(np.bool_), [0, 0, 0, 0]
    for batch in Schedule(recipe, sources).batches():
        seen.cover(batch["user"])
        seen[batch["user"]] = np.ones(len(batch["user"]), np.bool_)
        last = [int(batch[name][-1]) for name in ("time_ns", "user", "session", "turn")]
    return Cut((last[0], last[1], last[2], last[3]), np.flatnonzero(seen[np.arange(seen.end)]))
