"""Whatever completes first, the order of moves keeps to what data demands, and no tier exceeds its room."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer import workload
from replayer.model import TokenBytes
from replayer.opening import most_objects
from replayer.order import Order
from replayer.pace import Demand, Pace, Window
from replayer.plan import (
    BYPASS,
    DELETE,
    DEMOTE,
    DROP,
    HIT,
    MISS,
    PROMOTE,
    STORE,
    Plan,
    PlanOptions,
    Totals,
    Usable,
    free_live,
)  # fmt: skip
from replayer.schema import WAITS
from replayer.selection import Selection
from replayer.workload import Workload
from tests.replayer import test_reference_order as reference_order
from tests.replayer import waterfall_oracle
from tests.support import traces
from tests.support.compiled_core import Account, Move, Planned, Scheduler
from tracegen.schema import ENUMS, Columns, InputError, chosen

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
        self.left, self.begun, self.done = dict[int, int](), set[int](), set[int]()

    def begin(self, move: Move, now: int) -> None:
        if move.pulled_ns < 0:
            self._check_pace(move, now)
            self.begun.add(move.op.row)
        else:
            assert move.kind in (DEMOTE, DROP), "an eviction alone does not wait for its op"
            assert 0 <= move.pulled_ns <= move.ready_ns <= now
        self.left.setdefault(move.op.row, move.op.moves)
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
        self.left[move.op.row] -= 1
        if not self.left[move.op.row]:
            self.done.add(move.op.row)
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
    "picks": reference_order.rows,
    "sizes": st.lists(st.integers(1, 4), min_size=10, max_size=10),
    "limits": reference_order.capacities,
    "headroom": reference_order.headrooms,
    "demand": reference_order.demand,
    "promote": st.booleans(),
    "lookup": st.sampled_from(["independent", "contiguous"]),
    "arrangement": st.sampled_from(["waterfall", "spillover"]),
    "users": st.integers(1, 5),
    "rng": st.randoms(use_true_random=False),
}


def workload_of(picks: list[Any], sizes: list[int], users: int) -> tuple[traces.Held, Columns]:
    """A trace, and its ops of the first so many users; there are some."""
    batch = reference_order.columns(picks, sizes)
    return traces.Held(batch), chosen(batch, batch["user_id"] < users)


@settings(max_examples=200)
@given(
    **many,
    devices=st.one_of(st.none(), st.tuples(*[reference_order.device] * 3)),
    workers=st.integers(1, 16),
    window=st.integers(1, 20),
)
def test_no_deadlock_and_no_tier_past_its_room(  # noqa: PLR0917
    picks: list[Any], sizes: list[int], limits: Usable, headroom: str, demand: Demand, promote: bool, lookup: Any,
    arrangement: Any, users: int, rng: random.Random, devices: Any, workers: int, window: int,
) -> None:  # fmt: skip
    """A plan in the trace's order, or a reference system's, with any window, workers and load."""
    trace, batch = workload_of(picks, sizes, users)
    options = reference_order.options(limits, demand, devices, promote, lookup, headroom, users, arrangement)
    plan = Plan(trace, options if devices else replace(options, order=Order()))
    planner, queue, moves, order = plan.planner(), list[Any](), list[Any](), list[int]()
    for stretch in planner.stretches():
        ends = np.cumsum(stretch.ops["moves"])[:-1]
        queue += zip(stretch.ops.tolist(), np.split(stretch.moves.copy(), ends), strict=True)
        moves += stretch.moves.tolist()
    scheduler, world = Scheduler(plan.workload, plan.capacity, demand), World(batch, plan.capacity, demand)

    def admit(now: int) -> None:
        while queue and scheduler.in_window() < window:
            (row, role, _), planned = queue.pop(0)
            scheduler.admit(len(order), row, role, planned, now)
            order.append(row)
        for entries, limit in zip(scheduler.account().ledgers, plan.capacity, strict=True):
            assert entries <= (limit or 0) // reference_order.UNIT, "each of them is room for an object at least"

    ended = run(scheduler, world, workers, rng, admit)
    assert not queue
    ended.sort(key=lambda move: move.number)
    assert [move.number for move in ended] == list(range(len(moves))), "each once"
    assert [(move.size, move.key, move.kind, move.source, move.target) for move in ended] == moves
    assert [move.op.row for move in ended if move.seq == 0] == order
    peaks = planner.account()[2]
    for tier in range(3):  # more than the plan has at a time: what leaves may leave later than others come
        assert world.most_objects[tier] <= most_objects(plan, peaks, Window(window))[tier]


@settings(max_examples=150)
@given(**many)
def test_placement_that_is_decided_on_the_way(
    picks: list[Any], sizes: list[int], limits: Usable, headroom: str, demand: Demand, promote: bool, lookup: Any,
    arrangement: Any, users: int, rng: random.Random,
) -> None:  # fmt: skip
    """Whatever takes however long, all is executed, and a plan in the order that came of it is the same."""
    trace, batch = workload_of(picks, sizes, users)
    options = reference_order.options(limits, demand, None, promote, lookup, headroom, users, arrangement)
    plan = Plan(trace, replace(options, order=Order("live")))
    waterfall = plan.live()
    try:
        scheduler = Scheduler(plan.workload, plan.capacity, demand, waterfall)
        ended = run(scheduler, World(batch, plan.capacity, demand), demand.workers, rng, lambda _: None)
        assert scheduler.decided() == plan.workload.ops
        del scheduler
    finally:
        free_live(waterfall)
    ended.sort(key=lambda move: move.number)
    rows = [move.op.row for move in ended if move.seq == 0]
    assert sorted(rows) == list(range(plan.workload.ops))
    op_ids = plan.workload.op_ids()
    again = Plan(trace, replace(options, order=Order("run", op_ids=op_ids[rows])))
    told = [row for stretch in again.planner().stretches() for row in Totals().tell(again.workload, stretch).tolist()]
    assert [
        [op_ids[move.op.row], move.seq, move.kind, move.key, move.source, move.target, move.size] for move in ended
    ] == told  # fmt: skip


@pytest.mark.parametrize(
    ("order", "sound"), [([0, 1, 2, 3], True), ([0, 2, 1, 3], False), ([0, 1], True), ([0, 1, 3], False), ([3], False)]
)
def test_an_order_that_a_closed_loop_cannot_have_is_refused(order: list[int], sound: bool) -> None:
    """A user's second request would wait for the first, and the first, by the plan, for the second, for ever."""
    steps = [("w", 0, 1), ("r", 0, 1), ("r", 0, 1), ("w", 1, 1)]
    batch = traces.columns(steps, [0, 0, 1, 1] if len(order) != 3 else [0, 0, 0, 1], user_id=[0] * 4)
    for kind in ("asap", "open", "closed"):
        options = PlanOptions(
            TokenBytes(1), (Decimal(0), Decimal(1), None), order=Order("run", "RUN", op_ids=np.array(order)),
            demand=Demand(Pace(kind), 1),  # type: ignore[arg-type]
        )  # fmt: skip
        if sound or kind != "closed":
            assert sum(len(stretch.ops) for stretch in Plan(traces.Held(batch), options).planner().stretches()) == len(
                order
            )
        else:
            with pytest.raises(InputError, match=r"--order RUN: users in it ask again"):
                Plan(traces.Held(batch), options)


def made(
    ops: int, requests: list[int] | None = None, usable: Usable = (0, None, 0), pace: Pace = ASAP, **more: Any
) -> Scheduler:
    """A scheduler for ops on keys of their own; `more`: of the load, or columns."""
    load = {name: more.pop(name) for name in ("allocs",) if name in more}
    batch = traces.columns([("w", key, 1) for key in range(ops)], requests, **more)
    found = Workload(traces.Held(batch), Selection(), TokenBytes(1))
    return Scheduler(found, usable, Demand(pace, 4, **load))


def rows_taken(scheduler: Scheduler) -> list[int]:
    """The rows of all moves that may start now."""
    found = []
    while (move := scheduler.take()) is not None:
        found.append(move.op.row)
    return found


def store(key: int, tier: int = 1, size: int = 1) -> Planned:
    return size, key, STORE, -1, tier


def test_the_most_urgent_goes_first() -> None:
    """By class, then as planned; a store that was held up by its permit does not fall behind."""
    qos = [2, 1, 0, 1, 0]
    scheduler = made(5, qos=qos)
    for i in range(5):
        scheduler.admit(i, i, 0, [store(i)], 0)
    assert rows_taken(scheduler) == [2, 4, 1, 3, 0]
    scheduler = made(5, qos=qos, allocs=1)
    for i in range(5):
        scheduler.admit(i, i, 0, [store(i)], 0)
    order = []
    for _ in range(5):
        move = scheduler.take()
        assert move is not None
        assert scheduler.take() is None, "there is one permit"
        order.append(move.op.row)
        if move.op.row == 4:
            scheduler.give_back(move)
        else:
            scheduler.complete(move, 1)
    assert order == [2, 4, 1, 3, 0]


def test_hits_share_a_key_and_a_drop_waits_for_them() -> None:
    scheduler = made(4, usable=(0, 4, 0))
    for i, (kind, source, target) in enumerate([(STORE, -1, 1), (HIT, 1, -1), (HIT, 1, -1), (DROP, 1, -1)]):
        scheduler.admit(i, i, 1, [(4, 7 % 4, kind, source, target)], 10)
    first = scheduler.take()
    assert first is not None
    assert (first.kind, first.ready_ns, first.waited_for) == (STORE, 10, -1)
    assert scheduler.take() is None
    scheduler.complete(first, 20)
    hits = [scheduler.take(), scheduler.take()]
    assert [hit and (hit.op.row, hit.ready_ns, hit.waited_for) for hit in hits] == [(1, 20, 0), (2, 20, 0)]
    assert scheduler.take() is None
    assert hits[0] is not None
    assert hits[1] is not None
    scheduler.complete(hits[1], 30)
    assert scheduler.take() is None
    scheduler.complete(hits[0], 40)
    drop = scheduler.take()
    assert drop is not None
    assert (drop.kind, drop.op.due_ns, drop.ready_ns, WAITS[drop.waited_for]) == (DROP, 10, 40, "data")


def test_what_a_move_waited_for_last_is_told() -> None:
    """Room that an op's own eviction makes, and room that another op's makes."""
    scheduler = made(4, usable=(0, 4, 0))
    scheduler.admit(0, 0, 0, [store(0, size=4)], 0)
    scheduler.admit(1, 1, 0, [(4, 0, DROP, 1, -1), store(1, size=4)], 0)
    scheduler.admit(2, 2, 0, [(4, 1, DROP, 1, -1)], 0)
    scheduler.admit(3, 3, 0, [store(3, size=3)], 0)
    found = []
    for time in range(10, 60, 10):
        move = scheduler.take()
        assert move is not None
        assert scheduler.take() is None
        found.append((move.op.row, move.kind, move.ready_ns, move.waited_for))
        scheduler.complete(move, time)
    data, eviction, room = range(len(WAITS))
    assert found == [
        (0, STORE, 0, -1), (1, DROP, 10, data), (1, STORE, 20, eviction), (2, DROP, 30, data), (3, STORE, 40, room),
    ]  # fmt: skip
    scheduler = made(1)
    scheduler.admit(0, 0, 0, [store(0)], 25)
    move = scheduler.take()
    assert move is not None
    assert (move.op.admitted_ns, move.ready_ns, move.waited_for) == (25, 25, -1), "the window is no move"


def test_an_eviction_that_is_needed_does_not_wait_for_its_op() -> None:
    """Op 1, which evicts, is due in a second; op 2 takes what room that leaves now."""
    scheduler = made(3, usable=(0, 4, 0), pace=Pace("open"), time_ns=[0, 10**9, 0])
    scheduler.admit(0, 0, 0, [store(0, size=4)], 0)
    scheduler.admit(1, 1, 0, [(4, 0, DROP, 1, -1), store(1, size=2)], 0)
    first = scheduler.take()
    assert first is not None
    scheduler.complete(first, 10)
    assert scheduler.take() is None, "nobody needs it"
    scheduler.admit(2, 2, 0, [store(2, size=2)], 20)
    drop = scheduler.take()
    assert drop is not None
    assert (drop.op.row, drop.kind, drop.pulled_ns, drop.ready_ns, drop.op.due_ns) == (1, DROP, 0, 10, 10**9)
    assert scheduler.take() is None
    scheduler.complete(drop, 30)
    late = scheduler.take()
    assert late is not None
    assert (late.op.row, late.ready_ns, WAITS[late.waited_for]) == (2, 30, "room")
    scheduler.release(10**9)
    assert rows_taken(scheduler) == [1]


def test_the_ledger_does_not_grow_with_what_leaves() -> None:
    """Most of it is done at once, some is not: what is free already is one entry between those that wait."""
    scheduler, late = made(501, usable=(0, 0, 1000)), list[Move]()
    for i in range(500):
        scheduler.admit(i, i, 0, [store(i, 2), (1, i, DELETE, 2, -1)], 0)
        stored = scheduler.take()
        assert stored is not None
        scheduler.complete(stored, 0)
        deleted = scheduler.take()
        assert deleted is not None
        if i % 7:
            scheduler.complete(deleted, 0)
        else:
            late.append(deleted)
    assert scheduler.account().ledgers[2] < 160
    scheduler.admit(500, 500, 0, [store(500, 2, 1000)], 0)
    random.Random(0).shuffle(late)
    for move in late:
        assert scheduler.take() is None, "it needs all the room there is"
        scheduler.complete(move, 0)
    assert rows_taken(scheduler) == [500], "and there is no less"
    assert scheduler.account().ledgers[2] == 0


def test_a_ledger_of_many_that_wait() -> None:
    """Its ring has grown several times, and has been gone around, when all of it is drawn again."""
    count = 1000
    scheduler = made(2 * count + 1, usable=(0, 0, count))
    for i in range(count):
        scheduler.admit(i, i, 0, [store(i, 2), (1, i, DROP, 2, -1)], 0)
    assert scheduler.account().ledgers[2] == count
    for i in range(count, 2 * count):
        scheduler.admit(i, i, 0, [store(i, 2)], 0)
    assert scheduler.account().ledgers[2] == 0
    order, rng, running = list[int](), random.Random(1), list[Move]()
    while True:
        while (move := scheduler.take()) is not None:
            running.append(move)
        if not running:
            break
        move = running.pop(rng.randrange(len(running)))
        order.append(move.op.row)
        scheduler.complete(move, 0)
    assert len(order) == 3 * count
    assert all(order.index(count + i) > len(order) - 1 - order[::-1].index(i) for i in range(count)), (
        "first in, first out"
    )


def test_a_request_is_a_chain() -> None:
    scheduler = made(2, [0, 0], step=[0, 1])
    for i in range(2):
        scheduler.admit(i, i, 0, [store(i)], 1)
    write = scheduler.take()
    assert write is not None
    assert (write.op.row, scheduler.take()) == (0, None)
    scheduler.complete(write, 9)
    read = scheduler.take()
    assert read is not None
    assert (read.op.row, read.op.due_ns, read.ready_ns) == (1, 9, 9), "due once the request's own order allows it"


@given(
    st.lists(st.tuples(st.sampled_from("wrrdddd"), st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=40),
    st.sampled_from(["reread", "once", "none"]),
    st.integers(1, 50),
)
def test_decode_filter_as_the_oracle(picks: list[tuple[str, int, int]], mode: Any, size: int) -> None:
    steps = [("w" if i == 0 else "r" if op == "w" else op, 0, 5) for i, (op, _, _) in enumerate(picks)]
    dense: dict[int, int] = {}
    requests = [dense.setdefault(request, len(dense)) for _, request, _ in picks]
    batch = traces.columns(steps, requests, new_tokens=[n for _, _, n in picks])
    found = taken(batch, Selection(mode), size)
    names = ("op_id", "op", "phase", "request_id", "new_tokens")
    columns = [[ENUMS[n][c] for c in batch[n]] if n in ENUMS else batch[n].tolist() for n in names]
    kept = waterfall_oracle.decode_filter(
        [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)], mode
    )
    assert found == [(op["op_id"], op["new_tokens"]) for op in kept]


def taken(batch: Columns, selection: Selection, size: int) -> list[tuple[int, int]]:
    """(op_id, new_tokens) of the ops that a workload has, read `size` rows of the trace at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workload, "BATCH_OPS", size)
        options = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), selection=selection)
        ops = Plan(traces.Held(batch), options).workload
    return list(zip(ops.op_ids().tolist(), ops._op["new_tokens"].tolist(), strict=True))


@pytest.mark.parametrize("mode", ["once", "none"])
def test_decode_filter_keeps_every_generated_token(mode: Any) -> None:
    steps = [("w", 0, 4), ("w", 1, 4), ("d", 0, 4), ("d", 1, 4), ("d", 0, 4), ("d", 0, 4), ("d", 1, 4)]
    batch = traces.columns(steps, [0, 1, 0, 1, 0, 0, 1], new_tokens=[0, 0, 1, 2, 4, 8, 16])
    expected = {"once": {0: 0, 1: 0, 2: 13, 3: 18}, "none": {0: 13, 1: 18}}
    assert dict(taken(batch, Selection(mode), 2)) == expected[mode]
