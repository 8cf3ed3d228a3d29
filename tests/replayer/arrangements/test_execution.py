"""Plans of random arrangements, executed in any order that data and room allow; and orders other than the trace's."""

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order
from replayer.planning.pace import Demand, PlanWindow
from replayer.planning.plan import Plan, PlanOptions, free_live
from replayer.run.footprint import Footprint
from replayer.schema import MOVES
from tests.replayer.arrangements import oracle, strategies
from tests.replayer.arrangements.compiled_plan import gib_of, rows_of
from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import Table, Usable, ops_of
from tests.replayer.ordering.strategies import UNIT, demand, device
from tests.replayer.ordering.world import World, run
from tests.support import traces
from tests.support.compiled_core import Move, Scheduler
from tracegen.schema import Columns

cases = {
    "picks": strategies.drawn_rows,
    "sizes": strategies.sizes,
    "words": strategies.words,
    "usable": strategies.capacities,
    "table": strategies.tables(),
    "load": demand,
}


def planned(batch: Columns, table: Table, usable: Usable, load: Demand, order: Order) -> Plan:
    """A plan of tiers of so many tokens, in which seconds last a microsecond."""
    options = PlanOptions(
        TokenBytes(UNIT), gib_of([None if limit is None else limit * UNIT for limit in usable]),
        arrangement=make_arrangement("drawn", table), order=order, demand=load,
    )  # fmt: skip
    return Plan(traces.Held(batch), options)


def fast(batch: Columns, table: Table) -> tuple[Columns, Table]:
    """Microseconds for seconds, so that an execution's times are those of its trace."""
    quick = {name: batch[name] // 10**6 for name in ("time_ns", "think_ns")}
    return batch | quick, {**table, "ttl_s": table.get("ttl_s", 0) / 10**6}


def as_rows(moves: list[Move], op_ids: list[int]) -> list[Row]:
    return [
        (op_ids[one.op.planned], one.seq, MOVES[one.kind], one.key, one.source, one.target, one.size) for one in moves
    ]


@settings(max_examples=300, deadline=None)
@given(
    **cases,
    devices=st.one_of(st.none(), st.tuples(*[device] * 3)),
    seed=strategies.seeds,
    workers=st.integers(1, 16),
    window=st.integers(1, 20),
)
def test_each_planned_move_is_made_once_when_it_may(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, load: Demand, devices: Any,
    seed: int, workers: int, window: int,
) -> None:  # fmt: skip
    """Dependencies point backwards, so that nothing is stuck, whatever ends first; in two orders, with any window."""
    batch, table = fast(strategies.columns(picks, sizes, words), table)
    plan = planned(batch, table, usable, load, Order("reference", "test", devices) if devices else Order())
    planner, queue = plan.planner(), list[Any]()
    for stretch in planner.stretches():
        ends = np.cumsum(stretch.ops["moves"])[:-1]
        queue += zip(stretch.ops.tolist(), np.split(stretch.moves.copy(), ends), strict=True)
    expected, order = rows_of(plan), list[int]()
    inclusive = plan.options.arrangement.copies == "inclusive"
    scheduler = Scheduler(plan.workload, plan.capacity, load, inclusive=inclusive)
    world = World(batch, plan.capacity, load, inclusive=inclusive)

    def admit(now: int) -> None:
        while queue and scheduler.in_window() < window:
            (row, role, _), moves = queue.pop(0)
            scheduler.admit(len(order), row, role, moves, now)
            order.append(row)
        for entries, limit in zip(scheduler.account().ledgers, plan.capacity, strict=True):
            assert entries <= (limit or 0) // UNIT, "each of them is room for an object at least"

    ended = run(scheduler, world, workers, random.Random(seed), admit)
    assert not queue
    ended.sort(key=lambda move: move.number)
    assert [move.number for move in ended] == list(range(len(expected))), "each once"
    assert as_rows(ended, batch["op_id"].tolist()) == expected
    bounds = Footprint(plan, plan.simulate(), PlanWindow(window)).objects
    for most, bound in zip(world.most_objects, bounds, strict=True):
        assert most <= bound, "more than the plan has at a time: what leaves may leave later than others come"


@settings(max_examples=100, deadline=None)
@given(**cases, devices=st.tuples(*[device] * 3))
def test_the_order_of_a_reference_system_as_the_oracle(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, load: Demand, devices: Any
) -> None:
    """Whatever order it is, the oracle decides the same moves in it."""
    batch, table = fast(strategies.columns(picks, sizes, words), table)
    plan = planned(batch, table, usable, load, Order("reference", "test", devices))
    found = rows_of(plan, 7)
    order = list(dict.fromkeys(row[0] for row in found))
    assert sorted(order) == batch["op_id"].tolist()
    assert found == oracle.moves(ops_of(batch), table, plan.usable, UNIT, order=order)


@settings(max_examples=200, deadline=None)
@given(**cases, seed=strategies.seeds)
def test_placement_that_is_decided_on_the_way_as_the_oracle(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, load: Demand, seed: int
) -> None:
    batch, table = fast(strategies.columns(picks, sizes, words), table)
    plan = planned(batch, table, usable, load, Order("live"))
    inclusive = plan.options.arrangement.copies == "inclusive"
    placement = plan.live()
    try:
        scheduler = Scheduler(plan.workload, plan.capacity, load, placement, inclusive=inclusive)
        world = World(batch, plan.capacity, load, inclusive=inclusive)
        ended = run(scheduler, world, load.workers, random.Random(seed), lambda _: None)
        assert scheduler.decided() == plan.workload.ops
        del scheduler
    finally:
        free_live(placement)
    ended.sort(key=lambda move: move.number)
    order = [int(batch["op_id"][move.op.row]) for move in ended if move.seq == 0]
    expected = oracle.moves(ops_of(batch), table, plan.usable, UNIT, order=order)
    assert as_rows(ended, batch["op_id"].tolist()) == expected
