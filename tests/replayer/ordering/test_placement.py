"""Whatever completes first, moves keep to what data demands, and no tier exceeds its room."""

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts  # fmt: skip
from replayer.planning.order import Order
from replayer.planning.pace import Demand, Pace, PlanWindow
from replayer.planning.plan import Plan, PlanOptions, Usable, free_live
from replayer.run.footprint import most_objects
from tests.replayer.ordering import strategies
from tests.replayer.ordering.world import World, many, run, workload_of
from tests.support import traces
from tests.support.compiled_core import Scheduler
from tracegen.errors import InputError


@settings(max_examples=200)
@given(
    **many,
    devices=st.one_of(st.none(), st.tuples(*[strategies.device] * 3)),
    workers=st.integers(1, 16),
    window=st.integers(1, 20),
)
def test_no_deadlock_and_no_tier_past_its_room(  # noqa: PLR0917
    picks: list[Any], sizes: list[int], limits: Usable, headroom: str, demand: Demand, promote: bool, lookup: Any,
    arrangement: Any, users: int, rng: random.Random, devices: Any, workers: int, window: int,
) -> None:  # fmt: skip
    """A plan in the trace's order, or a reference system's, with any window, workers and load."""
    trace, batch = workload_of(picks, sizes, users)
    options = strategies.options(limits, demand, devices, promote, lookup, headroom, users, arrangement)
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
            assert entries <= (limit or 0) // strategies.UNIT, "each of them is room for an object at least"

    ended = run(scheduler, world, workers, rng, admit)
    assert not queue
    ended.sort(key=lambda move: move.number)
    assert [move.number for move in ended] == list(range(len(moves))), "each once"
    found = [(move.size, move.key, move.kind, move.source, move.target, move.background) for move in ended]
    assert found == moves
    assert [move.op.planned for move in ended if move.seq == 0] == order
    for tier in range(3):  # more than the plan has at a time: what leaves may leave later than others come
        assert world.most_objects[tier] <= most_objects(plan, plan.simulate(), PlanWindow(window))[tier]


@settings(max_examples=150)
@given(**many)
def test_placement_that_is_decided_on_the_way(
    picks: list[Any], sizes: list[int], limits: Usable, headroom: str, demand: Demand, promote: bool, lookup: Any,
    arrangement: Any, users: int, rng: random.Random,
) -> None:  # fmt: skip
    """Whatever takes however long, all is executed, and a plan in the order that came of it is the same."""
    trace, batch = workload_of(picks, sizes, users)
    options = strategies.options(limits, demand, None, promote, lookup, headroom, users, arrangement)
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
    told = [
        row
        for stretch in again.planner().stretches()
        for row in PlanCounts(again.workload).list_moves(stretch).tolist()
    ]
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
            with pytest.raises(InputError, match=r"order RUN: users in it ask again"):
                Plan(traces.Held(batch), options)
