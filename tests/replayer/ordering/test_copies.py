"""The compiled scheduler when several tiers hold an object: order per key and tier, and background moves."""

from typing import Any

from replayer.arrangements.rules import Usable
from replayer.planning.moves import COPY, DEMOTE, DROP, HIT, MISS
from replayer.planning.pace import Pace
from replayer.schema import WAITS
from tests.replayer.ordering.world import make_scheduler, store
from tests.support.compiled_core import Account, Move, Planned, Scheduler

GPU, CPU, NVME = range(3)
LARGE: Usable = (100, 100, None)


def made(ops: int, requests: list[int] | None = None, **more: Any) -> Scheduler:
    """A scheduler of an inclusive plan."""
    return make_scheduler(ops, requests, LARGE, inclusive=True, **more)


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
