"""What holds under every arrangement: the oracle alone, on random traces."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replayer.arrangements import strategies
from tests.replayer.arrangements.bystander import Bystander
from tests.replayer.arrangements.oracle import Planner, Row, moves, steps
from tests.replayer.arrangements.tiers import Op, Table, Tier, Usable, ops_of
from tests.replayer.arrangements.tiers import exact_share as share

traces = {
    "picks": strategies.drawn_rows,
    "sizes": strategies.sizes,
    "words": strategies.words,
    "usable": strategies.capacities,
}


@settings(max_examples=300)
@given(
    **traces,
    table=strategies.tables(),
    unit=st.integers(1, 3),
    chained=st.booleans(),
    seed=strategies.seeds,
    shuffles=st.booleans(),
)
def test_every_move_is_legal_and_every_bound_holds(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, unit: int, chained: bool,
    seed: int, shuffles: bool,
) -> None:  # fmt: skip
    ops = ops_of(strategies.columns(picks, sizes, words))
    order = [op.op_id for op in ops]
    if shuffles:
        random.Random(seed).shuffle(order)
    limits = tuple(None if limit is None else limit * unit for limit in usable)
    bystander, seen = Bystander(limits), 0
    for planner in steps(ops, table, limits, unit, chained, order):
        new = planner.rows[seen:]
        assert new, "each op has a move"
        check_pins(planner, new)
        bystander.watch(new)
        seen += len(new)
        for tier, held in zip(planner.tiers, bystander.held, strict=True):
            assert {key: planner.things[key].size for key in tier.held} == held
            check_bounds(planner, tier)
        if planner.table["copies"] == "exclusive":
            assert all(len(planner.holders(key)) <= 1 for key in planner.things)
            assert not any(row[2] == "copy" for row in new)


def check_bounds(planner: Planner, tier: Tier) -> None:
    """Room, quotas of users, and the mark above which a tier is not left."""
    free = [key for key in tier.held if not planner.things[key].is_pinned]
    if tier.usable is None or tier.usable == 0:
        assert tier.usable is None or not tier.held
        return
    owners = {planner.things[key].owner for key in free}
    if tier.rules["user_quota"] < 1:
        quota = share(tier.rules["user_quota"], tier.usable)
        assert all(
            sum(planner.things[key].size for key in free if planner.is_of(key, owner)) <= quota for owner in owners
        )
    if tier.rules["high"] < 1 and not tier.rules["evict_share"]:
        assert not free or planner.used(tier) <= share(tier.rules["high"], tier.usable)


def check_pins(planner: Planner, rows: list[Row]) -> None:
    """A pinned object leaves only by an op on it: a delete, a promotion, a read that did not ask its tier."""
    for _, _, move, key, *_ in rows:
        if planner.things[key].is_pinned and move in ("demote", "drop", "promote", "delete"):
            assert key == planner.op.key
            assert move != "demote"


@settings(max_examples=100)
@given(**traces, table=strategies.tables())
def test_a_hit_is_no_older_than_the_time_to_live(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table
) -> None:
    """Counted from the moves alone: ops that touched the object are those whose moves name it, bypasses left out."""
    ops = ops_of(strategies.columns(picks, sizes, words))
    table = {**table, "ttl_s": 3, "pin": []}
    begun, latest = dict[int, int](), dict[int, int]()
    for op in ops:
        begun.setdefault(op.request, op.time_ns)
    now = 0
    for op, rows in zip(ops, by_op(ops, moves(ops, table, usable)), strict=True):
        now = max(now, begun[op.request])
        served = [row for row in rows if row[2] in ("hit", "promote") and row[3] == op.key]
        assert not served or now - latest[op.key] <= 3 * 10**9
        if not any(row[2] == "bypass" for row in rows):
            latest[op.key] = now


def by_op(ops: list[Op], rows: list[Row]) -> list[list[Row]]:
    found: dict[int, list[Row]] = {op.op_id: [] for op in ops}
    for row in rows:
        found[row[0]].append(row)
    return list(found.values())
