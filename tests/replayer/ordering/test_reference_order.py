"""The compiled reference order against the oracle that was written from docs/ordering.md alone."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from replayer.planning.counts import PlanCounts
from replayer.planning.pace import Demand
from replayer.planning.plan import Plan, PlanOptions
from replayer.schema import MOVES
from tests.replayer import order_oracle
from tests.replayer.ordering.strategies import UNIT, capacities, columns, demand, device, headrooms, options, rows
from tests.support import traces
from tracegen.schema import ENUMS, Columns, Trace


def planned(trace: Trace, chosen: PlanOptions, most: int) -> list[Any]:
    plan = Plan(trace, chosen)
    found: list[Any] = []
    for stretch in plan.planner().stretches(most):
        found += PlanCounts(plan.workload).list_moves(stretch).tolist()
    return [(a, b, MOVES[c], *more) for a, b, c, *more in found]


def as_oracle(batch: Columns, users: int) -> list[order_oracle.Op]:
    found = []
    for i in range(len(batch["op_id"])):
        row = {name: int(batch[name][i]) for name in batch}
        if row["user_id"] >= users:
            continue
        found.append(
            order_oracle.Op(
                row["op_id"], ENUMS["op"][row["op"]], row["key"], row["tokens"] * UNIT, ENUMS["phase"][row["phase"]],
                row["request_id"], row["user_id"], row["qos"], row["step"], row["time_ns"], row["think_ns"],
                row["new_tokens"], row["tokens"],
            )
        )  # fmt: skip
    return found


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
    st.sampled_from(["waterfall", "spillover"]),
    st.integers(1, 5),
    st.sampled_from([1, 7, 1000]),
)
def test_move_by_move_as_the_oracle(  # noqa: PLR0917 (a workload, a system and a load)
    picks: list[Any], sizes: list[int], limits: Any, headroom: str, load: Demand, devices: Any, promote: bool, lookup: Any,
    arrangement: str, users: int, most: int,
) -> None:  # fmt: skip
    batch = columns(picks, sizes)
    pace = load.pace
    told = order_oracle.Load(
        pace.kind, load.workers, pace.speedup, pace.token_ms, pace.prefill_tok_s, pace.request_depth, load.allocs,
    )  # fmt: skip
    system = tuple(order_oracle.Device(*astuple(one)) for one in devices)
    with tempfile.TemporaryDirectory() as folder:
        trace = traces.write(Path(folder) / "t.parquet", batch)
        chosen = options(limits, load, devices, promote, lookup, headroom, users, arrangement)
        usable, whole = chosen.usable(), chosen.capacity()
        found = planned(trace, chosen, most)
        fingerprint = Plan(trace, chosen).simulate().plan_fingerprint
    expected = order_oracle.simulate(
        as_oracle(batch, users), usable, told, system, promote, lookup, whole, arrangement  # type: ignore[arg-type]
    )  # fmt: skip
    assert found == expected.rows
    assert fingerprint == order_oracle.fingerprint(expected.rows)
