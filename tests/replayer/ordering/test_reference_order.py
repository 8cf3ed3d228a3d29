"""The compiled reference order against the oracle that was written from docs/ordering.md alone."""

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Plan, PlanOptions
from tests.replayer import order_oracle
from tests.replayer.arrangements.compiled_plan import rows_of
from tests.replayer.arrangements.oracle import fingerprint
from tests.replayer.arrangements.tiers import PROMOTING, ops_of
from tests.replayer.ordering.strategies import UNIT, capacities, columns, demand, device, headrooms, options, rows
from tests.support import traces
from tracegen.errors import InputError


@settings(max_examples=150, deadline=None)
@given(
    rows,
    st.lists(st.integers(1, 4), min_size=10, max_size=10),
    capacities,
    headrooms,
    demand,
    st.tuples(device, device, device),
    st.booleans(),
    st.sampled_from(["independent", "contiguous"]),
    st.sampled_from(["fastest", "with-room"]),
    st.integers(1, 5),
    st.sampled_from([1, 7, 1000]),
)
def test_move_by_move_as_the_oracle(  # noqa: PLR0917 (a workload, a system and a load)
    picks: list[Any], sizes: list[int], limits: Any, headroom: str, load: Demand, devices: Any, promote: bool, lookup: Any,
    place: str, users: int, most: int,
) -> None:  # fmt: skip
    batch = columns(picks, sizes)
    pace = load.pace
    told = order_oracle.Load(
        pace.kind, load.workers, pace.speedup, pace.token_ms, pace.prefill_tok_s, pace.request_depth, load.allocs,
    )  # fmt: skip
    system = tuple(order_oracle.Device(*astuple(one)) for one in devices)
    with tempfile.TemporaryDirectory() as folder:
        trace = traces.write(Path(folder) / "t.parquet", batch)
        chosen = options(
            limits,
            load,
            devices,
            promote,
            lookup,
            headroom,
            users,
            {"fastest": "waterfall", "with-room": "spillover"}[place],
        )
        usable, whole = chosen.usable(), chosen.capacity()
        plan = Plan(trace, chosen)
    table = {"lookup": lookup, "place": place} | (PROMOTING if promote else {})
    ops = [op for op in ops_of(batch) if op.user < users]
    expected = order_oracle.simulate(ops, usable, told, system, table, UNIT, whole)  # type: ignore[arg-type]
    assert rows_of(plan, most) == expected.rows
    assert plan.simulate().plan_fingerprint == fingerprint(expected.rows, 2)


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
