"""The engine on tiers that keep nothing, behind a throttle: every op is due when the oracle says."""

import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.engine.engine import Engine
from replayer.engine.move_executor import Staging
from replayer.models.geometry import TokenBytes
from replayer.planning.executing import make_settings
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.schema import LOG_COLUMNS, MOVES
from replayer.tiers.native import NullTier
from replayer.tiers.payload import Payload
from replayer.tiers.throttled import Throttle
from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import Usable, ops_of
from tests.replayer.pacing.paced_runs import ORDERS, Request, check_paced, lay_out, watched
from tests.support import traces
from tracegen.schema import Columns, Trace

MS = 1_000_000  # ns
UNLIMITED: Usable = (0, 0, None)


def executed(trace: Trace, chosen: PlanOptions, window: int, ms: float) -> pl.DataFrame:
    """The log of an engine on its own."""
    tiers: list[Any] = [NullTier() for _ in range(3)]
    if ms:
        for tier in tiers:
            Throttle(1_000_000, ms * 1000).slow_down(tier)
    plan = Plan(trace, chosen)
    made = make_settings(plan, "off", 1 << 18, PlanWindow(ops=window), Span())
    engine = Engine(plan, made, tiers, Payload(0), lambda _: Staging(1 << 18))
    found: list[Any] = []
    with watched(20):
        engine.run(lambda records, _errors, _rows: found.append(records.copy()), every_s=60)
    state = engine.state()
    assert (state.over, state.failures, state.in_window) == (1, 0, 0), "everything ends, nothing is remembered of it"
    engine.close()
    for tier in tiers:
        tier.close()
    records = np.concatenate(found)
    log = pl.DataFrame({name: records[name] for name in LOG_COLUMNS if name not in ("rank", "error")})
    return log.with_columns(pl.Series("move", [MOVES[move] for move in log["move"]])).sort("position", "seq")


ops_of_step = st.lists(
    st.tuples(st.sampled_from("wwrrddx"), st.integers(0, 15), st.sampled_from([0, 0, 1, 7])), min_size=1, max_size=5
)


workloads = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from([0, 1, 3 * MS, 40_000_003]),
        st.sampled_from([0, 1, 2_000_001, 90 * MS]),
        st.lists(ops_of_step, min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=8,
)


paces = st.builds(
    Pace,
    st.sampled_from(["asap", "closed", "open"]),
    st.sampled_from([20, 5, 60, 1000]) | st.floats(5, 100),
    st.sampled_from([0, 0.2, 1]) | st.floats(0, 1),
    st.sampled_from([None, 10_000, 7e6]) | st.floats(1e4, 1e9),
    st.sampled_from([1, 2, None]),
)


@settings(max_examples=100)
@given(
    workloads,
    paces,
    st.sampled_from([UNLIMITED, (0, 6, None), (0, 5, 9), (3, 0, 0)]),
    st.sampled_from(["independent", "contiguous"]),
    st.sampled_from([1, 3, 8, 1000]),
    st.integers(1, 8),
    st.sampled_from([0, 0, 0.3]),
    st.sampled_from(sorted(ORDERS)),
)
def test_every_op_is_due_when_the_oracle_says(
    requests: list[Request], pace: Pace, usable: Usable, lookup: Any, window: int, workers: int, ms: float, order: str
) -> None:
    """Given when the ops before it ended on real workers, which run each in its own way; and none starts before."""
    check_executed(lay_out(requests), pace, window, usable=usable, lookup=lookup, workers=workers, ms=ms, order=order)


def check_executed(
    batch: Columns,
    pace: Pace,
    window: int,
    *,
    usable: Usable = UNLIMITED,
    lookup: Any = "independent",
    workers: int = 4,
    ms: float = 0.5,
    order: str = "trace",
) -> None:
    gib = [None if limit is None else Decimal(limit) / 2**30 for limit in usable]
    with tempfile.TemporaryDirectory() as folder:
        trace = traces.write(Path(folder) / "t.parquet", batch)
        chosen = PlanOptions(
            TokenBytes(1), (gib[0] or Decimal(0), gib[1] or Decimal(0), gib[2]), Decimal(1), lookup=lookup,
            order=ORDERS[order], demand=Demand(pace, workers),
        )  # fmt: skip
        log = executed(trace, chosen, window, ms)
    order_of = log.filter(pl.col("seq") == 0)["op_id"].to_list()
    if order == "trace":
        assert order_of == batch["op_id"].tolist()
    rows = moves(ops_of(batch), {"lookup": lookup}, usable, order=order_of)
    assert log.select("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes").rows() == rows
    check_paced(batch, log, pace, rows)
    if order == "live" and pace.kind == "asap":
        spans = log.group_by("request_id").agg(pl.col("due_ns").min(), pl.col("end_ns").max())
        edges = sorted([*((end, -1) for end in spans["end_ns"]), *((due, 1) for due in spans["due_ns"])])
        assert max(np.cumsum([change for _, change in edges])) <= workers, "so many requests at once"


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_window_shorter_than_a_step_does_not_move_due_times(depth: int | None) -> None:
    """The third op of a step is due when one of the first two has ended, whether it was admitted by then or not."""
    batch = lay_out([(0, 0, 0, 0, [[("w", key, 0) for key in range(6)]])])
    for window in (1, 2, 3, 6):
        check_executed(batch, Pace(request_depth=depth), window, workers=4)
