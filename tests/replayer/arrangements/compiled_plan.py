"""The compiled planner under a table of rules."""

from decimal import Decimal

import numpy as np

from replayer.bindings.compiled import UNLIMITED, Rules, TierRulesStruct, address, call, reference
from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_summary import MoveTotals
from replayer.schema import MOVES
from tests.replayer.arrangements import tiers
from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import Table, Usable, exact_share
from tests.support import traces
from tracegen.schema import ENUMS, Columns

POLICIES = "lru fifo lfu clock sieve arc slru s3fifo wtinylfu gdsf leaf-lru belady".split()
DOWN, UP = ("on-evict", "on-store", "on-touch"), ("stay", "move", "copy", "copy-top")


class ArrangedPlan(Plan):
    def __init__(self, trace: traces.Held, options: PlanOptions, table: Table) -> None:
        self.table = tiers.TABLE | dict(table)
        self.token_bytes = options.bytes_per_token.object_bytes(np.ones(1, np.int64))[0].item()
        super().__init__(trace, options)
        if self.lookup != self.table["lookup"] and self.table["lookup"] != "trace":
            self.lookup = self.table["lookup"]
        if chunk := self.table["chunk_tokens"]:
            held, keys = np.zeros(self.workload.keys, np.int32), self.workload._key
            keep, unsaved = self.table["tail"] == "keep", self.table["unsaved_tokens"]
            call("workload_store")(reference(self.workload.struct), address(keys), chunk, keep, unsaved, address(held))
            keys["size"] = options.bytes_per_token.object_bytes(held)

    def rules(self) -> Rules:
        table = self.table
        each = [self.tier_rules(name, usable) for name, usable in zip(tiers.NAMES, self.usable, strict=True)]
        return Rules(
            (TierRulesStruct * 3)(*each),
            inclusive=table["copies"] == "inclusive",
            contiguous=self.lookup == "contiguous",
            first_writes=self.options.order.kind != "trace",
            with_room=table["place"] == "with-room",
            touch_all=table["touch"] == "all",
            ttl_ns=table["ttl_s"] * 10**9,
            pinned=sum(1 << ENUMS["source"].index(source) for source in table["pin"]),
        )

    def tier_rules(self, name: str, usable: int | None) -> TierRulesStruct:
        rules, of = tiers.rules_of(self.table, name), 0 if usable is None else usable
        limits = [rules["fetch_in_flight"] or UNLIMITED]
        if rules["fetch_share"]:
            gpu, cpu = self.usable[0] or 0, self.usable[1] or 0
            limits.append(max(0, exact_share(rules["fetch_share"], cpu - gpu) // self.token_bytes))
        watched = usable is not None and rules["high"] < 1
        return TierRulesStruct(
            usable=UNLIMITED if usable is None else usable,
            capacity=UNLIMITED if usable is None else usable,
            down=DOWN.index(rules["down"]),
            touches=rules["touches"],
            admit_touches=rules["admit_touches"],
            admit_table=rules["admit_table"],
            up=UP.index(rules["up"]),
            policy=POLICIES.index(rules["policy"]),
            high=exact_share(rules["high"], of) if watched else UNLIMITED,
            low=exact_share(rules["low"], of),
            evict_ppm=int(Decimal(str(rules["evict_share"])) * 10**6),
            fetch_tokens=rules["fetch_tokens"],
            fetch_in_flight=min(limits),
            user_quota=exact_share(rules["user_quota"], of)
            if rules["user_quota"] < 1 and usable is not None
            else UNLIMITED,
        )


def arranged(
    batch: Columns, table: Table, usable: Usable, unit: int = 1, chained: bool = False, order: list[int] | None = None
) -> ArrangedPlan:
    """A plan for tiers of so many bytes, in the order of the trace or of these op_ids."""
    gpu, cpu, nvme = (None if limit is None else Decimal(limit) / 2**30 for limit in usable)
    kind = Order() if order is None else Order("run", "test", op_ids=np.array(order))
    options = PlanOptions(
        TokenBytes(unit), (gpu or Decimal(0), cpu or Decimal(0), nvme), headroom=Decimal(1), order=kind
    )
    plan = ArrangedPlan(traces.Held(batch, prefix_chained=chained), options, table)
    assert plan.usable == usable
    return plan


def rows_of(plan: Plan, most: int = 10**6) -> list[Row]:
    """The moves, planned in stretches of so many ops."""
    told: list[Row] = []
    for stretch in plan.planner().stretches(most):
        rows = MoveTotals().add(plan.workload, stretch).tolist()
        told += [(i, s, MOVES[m], *rest) for i, s, m, *rest in rows]
    return told
