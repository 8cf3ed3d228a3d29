"""The compiled scheduler: its ledger of room does not grow. What moves wait for is compared with an oracle in `prediction`."""

import random

from replayer.models.geometry import TokenBytes
from replayer.planning.moves import DELETE, DROP, STORE
from replayer.planning.pace import Demand, Pace
from replayer.planning.trace_selection import Selection
from replayer.planning.workload import Workload
from tests.support import traces
from tests.support.compiled_core import Move, Planned, Scheduler


def make_scheduler(ops: int, room: int) -> Scheduler:
    """A scheduler for writes of a token on keys of their own, to nvme alone."""
    batch = traces.columns([("w", key, 1) for key in range(ops)])
    workload = Workload(traces.Held(batch), Selection(), TokenBytes(1))
    return Scheduler(workload, (0, 0, room), Demand(Pace(), 8))


def take(scheduler: Scheduler) -> Move:
    """The next move that may start; there is one."""
    move = scheduler.take()
    assert move is not None
    return move


def store(key: int, size: int = 1) -> Planned:
    return size, key, STORE, -1, 2


def rows_taken(scheduler: Scheduler) -> list[int]:
    """The rows of all moves that may start now."""
    found = []
    while (move := scheduler.take()) is not None:
        found.append(move.op.row)
    return found


def test_the_ledger_does_not_grow_with_what_leaves() -> None:
    """Most of it is done at once, some is not: what is free already is one entry between those that wait."""
    scheduler, late = make_scheduler(501, 1000), list[Move]()
    for i in range(500):
        scheduler.admit(i, i, 0, [store(i), (1, i, DELETE, 2, -1)], 0)
        stored = take(scheduler)
        scheduler.complete(stored, 0)
        deleted = take(scheduler)
        if i % 7:
            scheduler.complete(deleted, 0)
        else:
            late.append(deleted)
    assert scheduler.account().ledgers[2] < 160
    scheduler.admit(500, 500, 0, [store(500, 1000)], 0)
    random.Random(0).shuffle(late)
    for move in late:
        assert scheduler.take() is None, "it needs all the room there is"
        scheduler.complete(move, 0)
    assert rows_taken(scheduler) == [500], "and there is no less"
    assert scheduler.account().ledgers[2] == 0


def test_a_ledger_of_many_that_wait() -> None:
    """Its ring has grown several times, and has been gone around, when all of it is drawn again."""
    count = 1000
    scheduler = make_scheduler(2 * count + 1, count)
    for i in range(count):
        scheduler.admit(i, i, 0, [store(i), (1, i, DROP, 2, -1)], 0)
    assert scheduler.account().ledgers[2] == count
    for i in range(count, 2 * count):
        scheduler.admit(i, i, 0, [store(i)], 0)
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
