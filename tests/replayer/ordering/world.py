"""A model of tiers and requests that checks every move, and random workloads for it."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from replayer.planning.moves import BYPASS, DELETE, DEMOTE, DROP, HIT, MISS, PROMOTE, STORE
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Usable  # fmt: skip
from tests.replayer.ordering import strategies
from tests.support import traces
from tests.support.compiled_core import Account, Move, Scheduler
from tracegen.schema import Columns, take_rows

FAR = 1 << 62
ASAP = Pace()
LEAVES = (DEMOTE, PROMOTE, DROP, DELETE)


class World:
    """Tiers that hold sizes, and requests; checks, when a move ends or begins, that it may."""

    def __init__(self, batch: Columns, capacity: Usable, demand: Demand) -> None:
        self.capacity, self.used, self.place = capacity, [0, 0, 0], dict[int, int]()
        self.reading, self.objects, self.most_objects = Counter[int](), [0, 0, 0], [0, 0, 0]
        self.demand, self.stores = demand, 0
        self.request, self.step = batch["request_id"].tolist(), batch["step"].tolist()
        self.user, self.rows = batch["user_id"].tolist(), range(len(batch["op_id"]))
        self.left, self.maker = dict[int, int](), dict[int, int]()  # by the row that the plan has
        self.begun, self.done = set[int](), set[int]()

    def begin(self, move: Move, now: int) -> None:
        if move.pulled_ns < 0:
            self._check_pace(move, now)
            self.begun.add(move.op.row)
            self.maker[move.op.planned] = move.op.row
        else:
            assert move.kind in (DEMOTE, DROP), "an eviction alone does not wait for its op"
            assert 0 <= move.pulled_ns <= move.ready_ns <= now
        self.left.setdefault(move.op.planned, move.op.moves)
        if move.kind in (MISS, BYPASS):
            return
        if move.kind != HIT:
            assert not self.reading[move.key], "a barrier runs while its key is read"
        if move.kind == STORE:
            assert move.key not in self.place, "stored before it left"
            self.stores += 1
            assert self.demand.allocs is None or self.stores <= self.demand.allocs, "more stores than permits"
        elif move.source >= 0:
            assert self.place.get(move.key) == move.source, "not where the plan has it"
        self.reading[move.key] += 1
        if move.kind in (STORE, DEMOTE):  # room is taken at the start of a write
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
        planned = move.op.planned
        self.left[planned] -= 1
        if not self.left[planned]:
            self.done.add(self.maker[planned])
        if move.kind in (MISS, BYPASS):
            return
        self.reading[move.key] -= 1
        self.stores -= move.kind == STORE
        if move.kind in LEAVES and move.source >= 0:
            del self.place[move.key]
            self.used[move.source] -= move.size
            self.objects[move.source] -= 1
        if move.kind in (STORE, DEMOTE):
            self.place[move.key] = move.target


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


many = {
    "picks": strategies.rows,
    "sizes": st.lists(st.integers(1, 4), min_size=10, max_size=10),
    "limits": strategies.capacities,
    "headroom": strategies.headrooms,
    "demand": strategies.demand,
    "promote": st.booleans(),
    "lookup": st.sampled_from(["independent", "contiguous"]),
    "arrangement": st.sampled_from(["waterfall", "spillover"]),
    "users": st.integers(1, 5),
    "rng": st.randoms(use_true_random=False),
}


def workload_of(picks: list[Any], sizes: list[int], users: int) -> tuple[traces.Held, Columns]:
    """A trace, and its ops of the first so many users; there are some."""
    batch = strategies.columns(picks, sizes)
    return traces.Held(batch), take_rows(batch, batch["user_id"] < users)
