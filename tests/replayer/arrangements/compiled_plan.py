"""The compiled planner under a table of rules."""

from decimal import Decimal

import numpy as np

from replayer.arrangements.loading import make_arrangement
from replayer.bindings.compiled import Rules
from replayer.planning.model import TokenBytes
from replayer.planning.order import Order
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_summary import MoveTotals
from replayer.schema import MOVES
from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import Table, Usable
from tests.support import traces
from tracegen.schema import ENUMS, Columns


class Ruled(Plan):
    """A plan whose rules have the fields after `touch_all` set by name."""

    def __init__(self, trace: traces.Held, options: PlanOptions, table: Table) -> None:
        self.table = table
        super().__init__(trace, options)

    def rules(self) -> Rules:
        rules = super().rules()
        rules.tail_first = self.table.get("recency") == "tail-first"
        rules.ttl_ns = self.table.get("ttl_s", 0) * 10**9
        rules.pinned = sum(1 << ENUMS["source"].index(source) for source in self.table.get("pin", ()))
        return rules


def arranged(
    batch: Columns, table: Table, usable: Usable, unit: int = 1, chained: bool = False, order: list[int] | None = None
) -> Plan:
    """A plan for tiers of so many bytes, in the order of the trace or of these op_ids."""
    gpu, cpu, nvme = (None if limit is None else Decimal(limit) / 2**30 for limit in usable)
    options = PlanOptions(
        TokenBytes(unit),
        (gpu or Decimal(0), cpu or Decimal(0), nvme),
        headroom=Decimal(1),
        arrangement=make_arrangement("drawn", {key: table[key] for key in table if key != "recency"}),
        order=Order() if order is None else Order("run", "test", op_ids=np.array(order)),
    )
    plan = Ruled(traces.Held(batch, prefix_chained=chained), options, table)
    assert plan.usable == usable
    return plan


def rows_of(plan: Plan, most: int = 10**6) -> list[Row]:
    """The moves, planned in stretches of so many ops."""
    told: list[Row] = []
    for stretch in plan.planner().stretches(most):
        rows = MoveTotals().add(plan.workload, stretch).tolist()
        told += [(i, s, MOVES[m], *rest) for i, s, m, *rest in rows]
    return told
