"""The compiled scheduler: urgency, keys, rooms, evictions and chains."""

import random

import pytest

from replayer.planning.moves import DELETE, DROP, HIT, MISS, STORE
from replayer.planning.pace import Pace
from replayer.schema import WAITS
from tests.replayer.ordering.world import make_scheduler, store, take
from tests.support.compiled_core import Move, Scheduler


def rows_taken(scheduler: Scheduler) -> list[int]:
    """The rows of all moves that may start now."""
    found = []
    while (move := scheduler.take()) is not None:
        found.append(move.op.row)
    return found


def test_the_most_urgent_goes_first() -> None:
    """By class, then as planned; a store that was held up by its permit does not fall behind."""
    qos = [2, 1, 0, 1, 0]
    scheduler = make_scheduler(5, qos=qos)
    for i in range(5):
        scheduler.admit(i, i, 0, [store(i)], 0)
    assert rows_taken(scheduler) == [2, 4, 1, 3, 0]
    scheduler = make_scheduler(5, qos=qos, allocs=1)
    for i in range(5):
        scheduler.admit(i, i, 0, [store(i)], 0)
    order = []
    for _ in range(5):
        move = take(scheduler)
        assert scheduler.take() is None, "there is one permit"
        order.append(move.op.row)
        if move.op.row == 4:
            scheduler.give_back(move)
        else:
            scheduler.complete(move, 1)
    assert order == [2, 4, 1, 3, 0]


def test_hits_share_a_key_and_a_drop_waits_for_them() -> None:
    scheduler = make_scheduler(4, usable=(0, 4, 0))
    for i, (kind, source, target) in enumerate([(STORE, -1, 1), (HIT, 1, -1), (HIT, 1, -1), (DROP, 1, -1)]):
        scheduler.admit(i, i, 1, [(4, 7 % 4, kind, source, target)], 10)
    first = take(scheduler)
    assert (first.kind, first.ready_ns, first.waited_for) == (STORE, 10, -1)
    assert scheduler.take() is None
    scheduler.complete(first, 20)
    hits = [take(scheduler), take(scheduler)]
    assert [(hit.op.row, hit.ready_ns, hit.waited_for) for hit in hits] == [(1, 20, 0), (2, 20, 0)]
    assert scheduler.take() is None
    scheduler.complete(hits[1], 30)
    assert scheduler.take() is None
    scheduler.complete(hits[0], 40)
    drop = take(scheduler)
    assert (drop.kind, drop.op.due_ns, drop.ready_ns, WAITS[drop.waited_for]) == (DROP, 10, 40, "data")


def test_what_a_move_waited_for_last_is_told() -> None:
    """Room that an op's own eviction makes, and room that another op's makes."""
    scheduler = make_scheduler(4, usable=(0, 4, 0))
    scheduler.admit(0, 0, 0, [store(0, size=4)], 0)
    scheduler.admit(1, 1, 0, [(4, 0, DROP, 1, -1), store(1, size=4)], 0)
    scheduler.admit(2, 2, 0, [(4, 1, DROP, 1, -1)], 0)
    scheduler.admit(3, 3, 0, [store(3, size=3)], 0)
    found = []
    for time in range(10, 60, 10):
        move = take(scheduler)
        assert scheduler.take() is None
        found.append((move.op.row, move.kind, move.ready_ns, move.waited_for))
        scheduler.complete(move, time)
    data, eviction, room = range(len(WAITS))
    assert found == [
        (0, STORE, 0, -1), (1, DROP, 10, data), (1, STORE, 20, eviction), (2, DROP, 30, data), (3, STORE, 40, room),
    ]  # fmt: skip
    scheduler = make_scheduler(1)
    scheduler.admit(0, 0, 0, [store(0)], 25)
    move = take(scheduler)
    assert (move.op.admitted_ns, move.ready_ns, move.waited_for) == (25, 25, -1), "the window is no move"


def test_an_eviction_that_is_needed_does_not_wait_for_its_op() -> None:
    """Op 1, which evicts, is due in a second; op 2 takes what room that leaves now."""
    scheduler = make_scheduler(3, usable=(0, 4, 0), pace=Pace("open"), time_ns=[0, 10**9, 0])
    scheduler.admit(0, 0, 0, [store(0, size=4)], 0)
    scheduler.admit(1, 1, 0, [(4, 0, DROP, 1, -1), store(1, size=2)], 0)
    first = take(scheduler)
    scheduler.complete(first, 10)
    assert scheduler.take() is None, "nobody needs it"
    scheduler.admit(2, 2, 0, [store(2, size=2)], 20)
    drop = take(scheduler)
    assert (drop.op.row, drop.kind, drop.pulled_ns, drop.ready_ns, drop.op.due_ns) == (1, DROP, 0, 10, 10**9)
    assert scheduler.take() is None
    scheduler.complete(drop, 30)
    late = take(scheduler)
    assert (late.op.row, late.ready_ns, WAITS[late.waited_for]) == (2, 30, "room")
    scheduler.release(10**9)
    assert rows_taken(scheduler) == [1]


@pytest.mark.parametrize(
    ("changes", "trade"),
    [
        ({}, True),
        ({"user_id": [0, 0]}, False),
        ({"new_tokens": [0, 1]}, False),
        ({"phase": [1, 0]}, False),
        ({"op": [0, 2]}, False),
    ],
)
def test_who_comes_first_writes(changes: dict[str, list[int]], trade: bool) -> None:
    """The plan has op 0 compute and store, and op 1 read; op 0 is due in a second, op 1 now."""
    columns = {"new_tokens": [0, 0], "time_ns": [10**9, 0]} | changes
    scheduler = make_scheduler(2, pace=Pace("open", prefill_tok_s=1e8), **columns)
    scheduler.admit(0, 0, 1, [(1, 0, MISS, -1, -1), store(0)], 0)
    scheduler.admit(1, 1, 1, [(1, 0, HIT, 1, -1)], 0)
    found = []
    for now in (10, 10**9):
        scheduler.release(now)
        while (move := scheduler.take()) is not None:
            found.append((move.kind, move.op.row, move.op.planned, move.op.position, move.op.wait_ns))
            scheduler.complete(move, now)
    if trade:
        assert found == [(MISS, 1, 0, 0, 10), (STORE, 1, 0, 0, 10), (HIT, 0, 1, 1, 0)]
    else:
        assert [move[:2] for move in found] == [(MISS, 0), (STORE, 0), (HIT, 1)]
    for position in range(2):
        op = scheduler.lowest()
        assert op is not None
        assert (op.position, op.left, op.foreground) == (position, 0, 0)
        scheduler.retire()


def test_the_ledger_does_not_grow_with_what_leaves() -> None:
    """Most of it is done at once, some is not: what is free already is one entry between those that wait."""
    scheduler, late = make_scheduler(501, usable=(0, 0, 1000)), list[Move]()
    for i in range(500):
        scheduler.admit(i, i, 0, [store(i, 2), (1, i, DELETE, 2, -1)], 0)
        stored = take(scheduler)
        scheduler.complete(stored, 0)
        deleted = take(scheduler)
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
    scheduler = make_scheduler(2 * count + 1, usable=(0, 0, count))
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
