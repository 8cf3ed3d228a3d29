"""The compiled scheduler when several tiers hold an object: order per key and tier, and background moves."""

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning.moves import COPY, DELETE, DEMOTE, DROP, HIT, MISS, STORE
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Usable
from replayer.planning.trace_selection import Selection
from replayer.planning.workload import Workload
from replayer.schema import WAITS
from tests.replayer.ordering import strategies
from tests.replayer.ordering.copies_world import CopiesWorld
from tests.replayer.ordering.world import ASAP, run, workload_of
from tests.support import traces
from tests.support.compiled_core import Account, Move, Planned, Scheduler

GPU, CPU, NVME = range(3)
LARGE: Usable = (100, 100, None)


def made(ops: int, requests: list[int] | None = None, usable: Usable = LARGE, pace: Pace = ASAP, **more: Any) -> Any:
    """A scheduler of an inclusive plan."""
    batch = traces.columns([("w", key, 1) for key in range(ops)], requests, **more)
    found = Workload(traces.Held(batch), Selection(), TokenBytes(1))
    return Scheduler(found, usable, Demand(pace, 8), inclusive=True)


def store(key: int, tier: int) -> Planned:
    return 1, key, STORE, -1, tier


def hit(key: int, tier: int) -> Planned:
    return 1, key, HIT, tier, -1


def drop(key: int, tier: int) -> Planned:
    return 1, key, DROP, tier, -1


def copy(key: int, source: int, target: int) -> Planned:
    return 1, key, COPY, source, target, 1


def taken(scheduler: Scheduler) -> dict[tuple[int, int], Move]:
    """All moves that may start now, by position and number in their op."""
    found = {}
    while (move := scheduler.take()) is not None:
        found[move.op.position, move.seq] = move
    return found


def test_reads_of_two_copies_do_not_wait_for_the_write_of_a_third() -> None:
    scheduler = made(4)
    scheduler.admit(0, 0, 0, [store(0, CPU), copy(0, CPU, NVME)], 0)
    first = taken(scheduler)
    assert list(first) == [(0, 0)], "the copy waits for the store"
    scheduler.complete(first[0, 0], 10)
    (copying,) = taken(scheduler).values()
    assert (copying.kind, copying.ready_ns, WAITS[copying.waited_for]) == (COPY, 10, "data")
    scheduler.admit(1, 1, 1, [hit(0, CPU)], 11)
    scheduler.admit(2, 2, 1, [hit(0, NVME)], 11)
    assert list(taken(scheduler)) == [(1, 0)], "a hit of cpu shares it with the copy; nvme is not written yet"
    scheduler.complete(copying, 20)
    (late,) = taken(scheduler).values()
    assert (late.op.position, late.ready_ns, WAITS[late.waited_for]) == (2, 20, "data")
    scheduler.admit(3, 3, 1, [hit(0, NVME), store(0, GPU)], 21)
    assert list(taken(scheduler)) == [(3, 0)], "what a hit brings is stored when the hit is done"


def test_a_drop_waits_for_the_readers_of_its_copy_alone() -> None:
    scheduler = made(4)
    scheduler.admit(0, 0, 0, [store(0, CPU), copy(0, CPU, NVME)], 0)
    scheduler.complete(taken(scheduler)[0, 0], 1)
    copying = taken(scheduler)[0, 1]
    scheduler.admit(1, 1, 1, [drop(0, CPU)], 2)
    assert not taken(scheduler), "the copy reads cpu"
    scheduler.complete(copying, 3)
    assert list(taken(scheduler)) == [(1, 0)]
    scheduler.admit(2, 2, 1, [hit(0, NVME)], 4)
    assert list(taken(scheduler)) == [(2, 0)], "the drop ends another copy"
    scheduler.admit(3, 3, 1, [store(0, CPU), drop(0, NVME)], 5)
    assert not taken(scheduler), "the store waits for the drop of cpu, the drop of nvme for its hit"


def test_a_demotion_waits_in_both_tiers() -> None:
    scheduler = made(4)
    scheduler.admit(0, 0, 0, [store(0, CPU), copy(0, CPU, NVME)], 0)
    scheduler.complete(taken(scheduler)[0, 0], 1)
    scheduler.complete(taken(scheduler)[0, 1], 2)
    scheduler.admit(1, 1, 1, [hit(0, CPU), drop(0, NVME)], 3)
    both = taken(scheduler)
    assert list(both) == [(1, 0), (1, 1)]
    scheduler.admit(2, 2, 1, [(1, 0, DEMOTE, CPU, NVME)], 4)
    assert not taken(scheduler)
    scheduler.complete(both[1, 0], 5)
    assert not taken(scheduler), "nvme holds the object still"
    scheduler.complete(both[1, 1], 6)
    assert taken(scheduler)[2, 0].ready_ns == 6


def test_a_request_does_not_wait_for_its_background_moves() -> None:
    """The second step is due when the first one's store is done; the op lives on until its copy is."""
    scheduler = made(2, [0, 0], step=[0, 1])
    scheduler.admit(0, 0, 0, [store(0, CPU), copy(0, CPU, NVME)], 1)
    scheduler.admit(1, 1, 0, [store(1, CPU)], 1)
    scheduler.complete(taken(scheduler)[0, 0], 9)
    now = taken(scheduler)
    assert list(now) == [(0, 1), (1, 0)], "the same heap: by number"
    assert (now[0, 1].background, now[1, 0].background) == (1, 0)
    assert now[1, 0].op.due_ns == 9
    scheduler.complete(now[1, 0], 12)
    lowest = scheduler.lowest()
    assert lowest is not None
    assert (lowest.position, lowest.left, lowest.foreground, lowest.end_ns) == (0, 1, 0, 9)
    scheduler.retire()
    assert scheduler.account().ops == 2, "a retired op is remembered until its moves are done"
    scheduler.complete(now[0, 1], 15)
    scheduler.retire()
    assert scheduler.account() == Account(scheduler.account().ledgers, 0, 0, 0, 0, 0, 0)


def test_a_background_move_that_ends_first_does_not_end_its_op() -> None:
    scheduler = made(2, [0, 0], step=[0, 1])
    scheduler.admit(0, 0, 1, [hit(0, CPU), (1, 1, DROP, CPU, -1, 1)], 0)
    scheduler.admit(1, 1, 0, [store(1, CPU)], 0)
    both = taken(scheduler)
    scheduler.complete(both[0, 1], 50)
    assert not taken(scheduler)
    scheduler.complete(both[0, 0], 60)
    assert taken(scheduler)[1, 0].op.due_ns == 60


def test_a_read_that_loses_an_expired_object_computes_it() -> None:
    """Its first move is a drop, its second the miss."""
    scheduler = made(2, [0, 0], step=[0, 1], pace=Pace(prefill_tok_s=1e9))
    scheduler.admit(0, 0, 1, [drop(0, CPU), (1, 0, MISS, -1, -1), store(0, CPU)], 0)
    scheduler.admit(1, 1, 0, [store(1, CPU)], 0)
    for _ in range(2):
        for move in taken(scheduler).values():
            scheduler.complete(move, 7)
    scheduler.release(8)
    assert taken(scheduler)[1, 0].op.due_ns == 8, "a token takes 1 ns"


@dataclass
class Tiers:
    """Rules of placement that draw: legal plans with copies."""

    usable: list[int]
    sizes: list[int]
    rng: random.Random
    held: list[set[int]] = field(default_factory=lambda: [set(), set(), set()])
    moves: list[Planned] = field(default_factory=list)

    def decide(self, key: int, deletes: bool) -> list[Planned]:
        """The moves of an op; it begins with foreground moves and ends with those in the background."""
        self.moves = []
        holders = [tier for tier in range(3) if key in self.held[tier]]
        if deletes:
            for tier in holders:
                self._leave(key, tier, DELETE)
            if not holders:
                self._emit(key, DELETE)
            return self.moves
        if holders:
            self._emit(key, HIT, self.rng.choice(holders))
        else:
            self._emit(key, MISS)
        for tier in range(3):
            if self.rng.random() < (0.3 if holders else 0.7):
                self._enter(key, tier, -1, STORE, 0)
        for tier in range(3):
            sources = [other for other in range(3) if key in self.held[other]]
            if sources and self.rng.random() < 0.6:
                self._enter(key, tier, self.rng.choice(sources), COPY, 1)
        if self.rng.random() < 0.2:
            tier = self.rng.randrange(3)
            self._make_room(tier, self.usable[tier] // 2, key, 1)
        return self.moves

    def _emit(self, key: int, kind: int, source: int = -1, target: int = -1, background: int = 0) -> None:
        self.moves.append((self.sizes[key] * strategies.UNIT, key, kind, source, target, background))

    def _leave(self, key: int, tier: int, kind: int, background: int = 0) -> None:
        self.held[tier].remove(key)
        self._emit(key, kind, tier, -1, background)

    def _enter(self, key: int, tier: int, source: int, kind: int, background: int) -> None:
        if key in self.held[tier] or self.sizes[key] > self.usable[tier]:
            return
        self._make_room(tier, self.sizes[key], key, background)
        if source < 0 or key in self.held[source]:
            self._emit(key, kind, source, tier, background)
            self.held[tier].add(key)

    def _make_room(self, tier: int, size: int, keep: int, background: int) -> None:
        while sum(self.sizes[key] for key in self.held[tier]) + size > self.usable[tier]:
            if not (victims := sorted(self.held[tier] - {keep})):
                self._leave(keep, tier, DROP, background)
                continue
            victim = self.rng.choice(victims)
            slower = tier + self.rng.randint(1, 3)
            fits = slower < 3 and victim not in self.held[slower] and self.sizes[victim] <= self.usable[slower]
            if fits:
                self._make_room(slower, self.sizes[victim], keep, background)
                self.held[tier].remove(victim)
                self.held[slower].add(victim)
                self._emit(victim, DEMOTE, tier, slower, background)
            else:
                self._leave(victim, tier, DROP, background)


@settings(max_examples=300)
@given(
    picks=strategies.rows,
    sizes=st.lists(st.integers(1, 4), min_size=10, max_size=10),
    usable=st.lists(st.sampled_from([0, 3, 5, 9]), min_size=3, max_size=3),
    headroom=st.integers(0, 3),
    demand=strategies.demand,
    rng=st.randoms(use_true_random=False),
    workers=st.integers(1, 16),
    window=st.integers(1, 20),
)
def test_random_plans_with_copies(
    picks: list[Any], sizes: list[int], usable: list[int], headroom: int, demand: Demand, rng: random.Random,
    workers: int, window: int,
) -> None:  # fmt: skip
    """Each move is made once, when its copies are whole and free and its tier has room; nothing is stuck."""
    trace, batch = workload_of(picks, sizes, 5)
    workload = Workload(trace, Selection(), TokenBytes(strategies.UNIT))
    dense = dict[int, int]()
    keys = [dense.setdefault(key, len(dense)) for key in batch["key"].tolist()]
    tokens = dict(zip(keys, batch["tokens"].tolist(), strict=True))
    rules = Tiers(usable, [tokens[key] for key in range(len(dense))], rng)
    plan = [rules.decide(key, op == 2) for key, op in zip(keys, batch["op"].tolist(), strict=True)]
    capacity: Usable = tuple(size and (size + headroom) * strategies.UNIT for size in usable)  # type: ignore[assignment]
    scheduler = Scheduler(workload, capacity, demand, inclusive=True)
    world, admitted = CopiesWorld(batch, capacity, demand), [0]

    def admit(now: int) -> None:
        while admitted[0] < len(plan) and scheduler.in_window() < window:
            scheduler.admit(admitted[0], admitted[0], int(batch["op"][admitted[0]]), plan[admitted[0]], now)
            admitted[0] += 1

    ended = run(scheduler, world, workers, rng, admit)
    assert admitted[0] == len(plan)
    ended.sort(key=lambda move: move.number)
    found = [(move.size, move.key, move.kind, move.source, move.target, move.background) for move in ended]
    assert found == [move for moves in plan for move in moves], "each once, as planned"
    assert world.copies == {(key, tier) for tier in range(3) for key in rules.held[tier]}
