"""The compiled planner under a table of rules."""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts
from replayer.planning.order import Order
from replayer.planning.plan import Plan, PlanOptions
from replayer.schema import MOVES
from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import Table, Usable
from tests.support import traces
from tracegen.schema import Columns


def gib_of(usable: Sequence[int | None]) -> tuple[Decimal, Decimal, Decimal | None]:
    """Capacities of so many bytes, as plans take them."""
    gpu, cpu, nvme = (None if limit is None else Decimal(limit) / 2**30 for limit in usable)
    return gpu or Decimal(0), cpu or Decimal(0), nvme


def arranged(
    batch: Columns,
    table: Table,
    usable: Usable,
    unit: int = 1,
    chained: bool = False,
    order: list[int] | None = None,
    block: int = 0,
) -> Plan:
    """A plan for tiers of so many bytes, in the order of the trace or of these op_ids."""
    options = PlanOptions(
        TokenBytes(unit),
        gib_of(usable),
        headroom=Decimal(1),
        arrangement=make_arrangement("drawn", table),
        order=Order() if order is None else Order("run", "test", op_ids=np.array(order)),
    )
    plan = Plan(traces.Held(batch, prefix_chained=chained, block_tokens=block or None), options)
    assert plan.usable == usable
    return plan


def rows_of(plan: Plan, most: int = 10**6) -> list[Row]:
    """The moves, planned in stretches of so many ops."""
    told: list[Row] = []
    for stretch in plan.planner().stretches(most):
        rows = PlanCounts(plan.workload).list_moves(stretch).tolist()
        told += [(i, s, MOVES[m], *rest) for i, s, m, *rest in rows]
    return told
