"""A model of tiers and requests that checks every move."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from replayer.arrangements.rules import Usable
from replayer.planning.moves import COPY, DEMOTE, DROP, HIT, STORE
from replayer.planning.pace import Demand
from tests.support.compiled_core import Account, Move, Scheduler
from tracegen.schema import Columns

FAR = 1 << 62


class World:
    """Tiers that hold copies, and requests; checks, when a move begins or ends, that it may."""

    def __init__(self, batch: Columns, capacity: Usable, demand: Demand, *, inclusive: bool) -> None:
        self.capacity, self.demand, self.inclusive = capacity, demand, inclusive
        self.used, self.objects, self.most_objects = [0] * 3, [0] * 3, [0] * 3
        self.request, self.step = batch["request_id"].tolist(), batch["step"].tolist()
        self.user, self.rows = batch["user_id"].tolist(), range(len(batch["op_id"]))
        self.left, self.maker = dict[int, int](), dict[int, int]()  # by the row that the plan has
        self.begun, self.done = set[int](), set[int]()
        self.copies = set[tuple[int, int]]()  # (key, tier)
        self.busy = set[tuple[int, int]]()  # copies that begin or end
        self.readers = Counter[tuple[int, int]]()
        self.hits = set[tuple[int, int]]()  # (row that the plan has, key) of hits that are not done
        self.stores = 0

    def begin(self, move: Move, now: int) -> None:
        planned, row, source, target = move.op.planned, move.op.row, (move.key, move.source), (move.key, move.target)
        if move.pulled_ns >= 0:
            assert move.kind in (DEMOTE, DROP), "an eviction alone does not wait for its op"
            assert move.pulled_ns <= move.ready_ns <= now
        elif row not in self.done:  # what an op leaves to the background takes none of its places
            self._check_pace(move, now)
            self.begun.add(row)
            self.maker[planned] = row
        self.left.setdefault(planned, move.op.foreground)
        if move.source >= 0:
            assert source in self.copies - self.busy, "not there, or not whole"
            assert move.kind in (HIT, COPY) or not self.readers[source], "it ends while it is read"
        if move.kind == STORE:
            self.stores += 1
            assert self.demand.allocs is None or self.stores <= self.demand.allocs, "more stores than permits"
            assert (planned, move.key) not in self.hits, "stored before it was read"
            places = {(move.key, tier) for tier in range(3)}
            assert self.inclusive or not places & (self.copies | self.busy), "stored before it left"
        if move.kind in (HIT, COPY):
            self.readers[source] += 1
        elif move.source >= 0:
            self.busy.add(source)
        if move.kind == HIT:
            self.hits.add((planned, move.key))
        if move.target >= 0:  # room is taken at the start of a write
            assert target not in self.copies | self.busy, "there already"
            self.busy.add(target)
            self.used[move.target] += move.size
            self.objects[move.target] += 1
            self.most_objects[move.target] = max(self.most_objects[move.target], self.objects[move.target])
            limit = self.capacity[move.target]
            assert limit is None or self.used[move.target] <= limit, "past the capacity"

    def _check_pace(self, move: Move, now: int) -> None:
        assert 0 <= move.op.due_ns <= move.ready_ns <= now
        row, pace = move.op.row, self.demand.pace
        request, step = self.request[row], self.step[row]
        ours = [one for one in self.rows if self.request[one] == request]
        assert all(one in self.done for one in ours if self.step[one] < step), "the step before is not done"
        begun = self.begun.intersection(ours) - self.done | {row}
        assert pace.request_depth is None or len(begun) <= pace.request_depth, "more of a step than its depth"
        if pace.kind == "closed":
            before = [one for one in self.rows if self.user[one] == self.user[row] and self.request[one] < request]
            assert self.done.issuperset(before), "the user's last request is not over"

    def end(self, move: Move) -> None:
        planned, source, target = move.op.planned, (move.key, move.source), (move.key, move.target)
        if not move.background:
            self.left[planned] -= 1
            if not self.left[planned]:
                self.done.add(self.maker[planned])
        self.stores -= move.kind == STORE
        if move.kind in (HIT, COPY):
            self.readers[source] -= 1
        elif move.source >= 0:
            self.busy.remove(source)
            self.copies.remove(source)
            self.used[move.source] -= move.size
            self.objects[move.source] -= 1
        if move.kind == HIT:
            self.hits.discard((planned, move.key))
        if move.target >= 0:
            self.busy.remove(target)
            self.copies.add(target)


def run(
    scheduler: Scheduler, world: World, workers: int, rng: random.Random, admit: Callable[[int], None]
) -> list[Move]:
    """Execute till nothing is left, moves ending in any order; `admit` adds what the window has room for."""
    now, running, ended = 0, list[Move](), list[Move]()
    scheduler.begin(now)
    while True:
        scheduler.release(now)
        admit(now)
        while len(running) < workers and (move := scheduler.take()) is not None:
            world.begin(move, now)
            running.append(move)
        due = scheduler.next_due()
        assert due > now, "what is due has been released"
        if running and (due == FAR or rng.random() < 0.7):
            now = min(now + rng.randrange(4) * 700, due)
            move = running.pop(rng.randrange(len(running)))
            world.end(move)
            scheduler.complete(move, now)
            ended.append(move)
        elif due < FAR:
            now = due
        else:
            break
        while (op := scheduler.lowest()) is not None and not op.left:
            scheduler.retire()
    assert scheduler.lowest() is None, "nothing runs and nothing is ready: a deadlock"
    assert scheduler.window_bytes() == scheduler.in_window() == 0
    assert replace(scheduler.account(), ledgers=(0, 0, 0)) == Account((0, 0, 0), 0, 0, 0, 0, 0, 0), (
        "nothing is remembered"
    )
    return ended
