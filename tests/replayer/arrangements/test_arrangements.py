"""The compiled planner against the oracle, move by move, under random arrangements."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.planning.counts import PlanCounts
from tests.replayer.arrangements import oracle, strategies
from tests.replayer.arrangements.compiled_plan import arranged, rows_of
from tests.replayer.arrangements.tiers import Table, Usable, ops_of
from tests.support import traces

cases = {
    "picks": strategies.drawn_rows,
    "sizes": strategies.sizes,
    "words": strategies.words,
    "usable": strategies.capacities,
    "table": strategies.tables(),
    "unit": st.integers(1, 3),
}


@settings(max_examples=250, deadline=None)
@given(**cases, chained=st.booleans(), most=st.integers(1, 40), block=st.integers(0, 5))
def test_move_by_move_as_the_oracle(
    picks: list[Any],
    sizes: list[int],
    words: list[int],
    usable: Usable,
    table: Table,
    unit: int,
    chained: bool,
    most: int,
    block: int,
) -> None:
    batch = strategies.columns(picks, sizes, words)
    limits = tuple(None if limit is None else limit * unit for limit in usable)
    expected = oracle.moves(ops_of(batch, block), table, limits, unit, chained)
    plan = arranged(batch, table, limits, unit, chained, block=block)
    assert rows_of(plan, most) == expected
    version = 1 if plan.options.arrangement.to_record().rules is None else 3
    counts = PlanCounts(plan.workload)
    assert plan.simulate(counts=counts).plan_fingerprint == oracle.fingerprint(expected, version)
    account = counts.account
    assert (list(account.used), list(account.peak), list(account.peak_objects)) == add_up(expected)
    assert all(limit is None or peak <= limit for peak, limit in zip(account.peak, limits, strict=True))


def add_up(rows: list[oracle.Row]) -> tuple[list[int], list[int], list[int]]:
    """Add up used bytes, peak bytes and peak objects of each tier from the rows alone."""
    used, peak, objects, most = [0] * 3, [0] * 3, [0] * 3, [0] * 3
    for _, _, move, _, source, target, size in rows:
        if source >= 0 and move not in ("hit", "copy"):
            used[source] -= size
            objects[source] -= 1
        if target >= 0:
            used[target] += size
            objects[target] += 1
            peak[target] = max(peak[target], used[target])
            most[target] = max(most[target], objects[target])
    return used, peak, most


@settings(max_examples=150, deadline=None)
@given(**cases, seed=strategies.seeds)
def test_in_the_order_of_a_run_as_the_oracle(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, unit: int, seed: int
) -> None:
    """Any order: who is first writes; owners, sources and chunks are those of the trace."""
    batch = strategies.columns(picks, sizes, words)
    limits = tuple(None if limit is None else limit * unit for limit in usable)
    order = batch["op_id"].tolist()
    random.Random(seed).shuffle(order)
    expected = oracle.moves(ops_of(batch), table, limits, unit, order=order)
    assert rows_of(arranged(batch, table, limits, unit, order=order)) == expected


def test_what_a_prompt_has_at_both_ends_is_turned_round() -> None:
    """Random traces seldom have it: request 0 writes a, b and c and reads a; then three writes evict a, c and b."""
    steps = [("w", 0, 1), ("w", 1, 1), ("w", 2, 1), ("r", 0, 1), ("w", 3, 1), ("w", 4, 1), ("w", 5, 1)]
    batch, table = traces.columns(steps, [0, 0, 0, 0, 1, 2, 3]), {"recency": "tail-first"}
    found = rows_of(arranged(batch, table, (0, 3, 0)))
    assert [key for _, _, move, key, *_ in found if move == "drop"] == [0, 2, 1]
    assert found == oracle.moves(ops_of(batch), table, (0, 3, 0))


def test_belady_knows_no_op_beyond_the_end_of_a_run() -> None:
    """A cut run executed no read of object 0, so it goes; in the whole trace its read is the nearest."""
    batch = traces.columns([("w", 0, 1), ("w", 1, 1), ("w", 2, 1), ("r", 0, 1), ("r", 1, 1)])
    table = {"cpu": {"policy": "belady"}}
    cut = rows_of(arranged(batch, table, (0, 2, 0), order=[0, 1, 2, 4]))
    assert [row[2:4] for row in cut][2:] == [("drop", 0), ("store", 2), ("hit", 1)]
    whole = rows_of(arranged(batch, table, (0, 2, 0), order=[0, 1, 2, 3, 4]))
    assert [row[2:4] for row in whole][2:5] == [("drop", 1), ("store", 2), ("hit", 0)]
