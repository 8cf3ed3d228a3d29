"""The compiled planner against the oracle, move by move, under random arrangements."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.replayer.arrangements import oracle, strategies
from tests.replayer.arrangements.compiled_plan import arranged, rows_of
from tests.replayer.arrangements.tiers import Table, Usable

cases = {
    "picks": strategies.drawn_rows,
    "sizes": strategies.sizes,
    "words": strategies.words,
    "usable": strategies.capacities,
    "table": strategies.tables(),
    "unit": st.integers(1, 3),
}


@settings(max_examples=250, deadline=None)
@given(**cases, chained=st.booleans(), most=st.integers(1, 40))
def test_move_by_move_as_the_oracle(
    picks: list[Any],
    sizes: list[int],
    words: list[int],
    usable: Usable,
    table: Table,
    unit: int,
    chained: bool,
    most: int,
) -> None:
    batch = strategies.columns(picks, sizes, words)
    limits = tuple(None if limit is None else limit * unit for limit in usable)
    expected = oracle.moves(strategies.as_ops(batch), table, limits, unit, chained)
    assert rows_of(arranged(batch, table, limits, unit, chained), most) == expected


@settings(max_examples=150, deadline=None)
@given(**cases, rng=st.randoms(use_true_random=False))
def test_in_the_order_of_a_run_as_the_oracle(
    picks: list[Any], sizes: list[int], words: list[int], usable: Usable, table: Table, unit: int, rng: random.Random
) -> None:
    """Any order: who is first writes; owners, sources and chunks are those of the trace."""
    batch = strategies.columns(picks, sizes, words)
    limits = tuple(None if limit is None else limit * unit for limit in usable)
    order = batch["op_id"].tolist()
    rng.shuffle(order)
    expected = oracle.moves(strategies.as_ops(batch), table, limits, unit, order=order)
    assert rows_of(arranged(batch, table, limits, unit, order=order)) == expected
