"""Runs of the first ops of a trace, and runs that repeat what another executed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.planning.order import read_order
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from tests.replayer.pacing.paced_runs import ORDERS, go, hashed, latency, options, plan_of
from tracegen.schema import Trace


@pytest.mark.parametrize(("kind", "order"), [("asap", "trace"), ("closed", "reference")])
def test_so_many_ops_are_the_same_work_on_every_system(
    long_trace: Trace, tmp_path: Path, kind: Any, order: str
) -> None:
    """A system that is fast and one that is slow; a window that holds all, and one that holds few."""
    pace, found = Pace(kind), []
    for name, ms, window in (("fast", 0, 4096), ("slow", 2, 8)):
        info, log = go(
            long_trace,
            tmp_path / name,
            options(150, order),
            pace=pace,
            span=Span(ops=500),
            window=PlanWindow(window),
            throttles=latency(ms) if ms else {},
        )
        assert (info["status"], info["executed_ops"], info["executed"]["ops"]) == ("complete", 500, 500)
        assert info["window"]["cut_s"] is None
        found.append(
            (info["executed_fingerprint"], info["executed"], log.select("position", "seq", "move", "key").rows())
        )
    assert found[0] == found[1]
    rows = [
        row for ops in plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))[:500] for row in ops
    ]
    assert found[0][0] == hashed(order, rows)
    assert [row[2:] for row in found[0][2]] == [row[2:4] for row in rows]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_more_ops_than_there_are_are_all(small_trace: Trace, tmp_path: Path, order: str) -> None:
    for ops in (small_trace.ops, small_trace.ops + 1):
        info, log = go(small_trace, tmp_path / f"{ops}", options(40, order), span=Span(ops=ops))
        assert (info["status"], info["executed_ops"]) == ("complete", small_trace.ops)
        assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"]
        assert log["position"].n_unique() == small_trace.ops


def test_so_many_ops_and_so_many_seconds(long_trace: Trace, tmp_path: Path) -> None:
    """Whichever comes first."""
    info, _ = go(long_trace, tmp_path / "ops", span=Span(600, ops=100))
    assert (info["executed_ops"], info["window"]["cut_s"]) == (100, None)
    info, _ = go(long_trace, tmp_path / "s", span=Span(0.2, ops=1499), throttles=latency(5))
    assert 0 < info["executed_ops"] < 1499
    assert info["window"]["cut_s"] >= 0.2


@pytest.mark.parametrize(
    ("order", "span"),
    [("reference", Span()), ("reference", Span(0.3, drain_s=0)), ("live", Span(0.3)), ("live", Span(ops=200))],
    ids=["whole", "stopped", "cut", "first ops"],
)
def test_what_a_run_executed_is_executed_again(long_trace: Trace, tmp_path: Path, order: str, span: Span) -> None:
    """All of it and nothing else, on another system."""
    slow = Pace("closed", token_ms=0.3)
    info, log = go(long_trace, tmp_path / "run", options(150, order), pace=slow, span=span, throttles=latency(2))
    executed = info["executed_ops"]
    assert info["status"] == "complete"
    again = replace(options(150), order=read_order(tmp_path / "run"))
    fast, other = go(long_trace, tmp_path / "again", again, workers=9, window=PlanWindow(50), throttles=latency(0.5))
    assert (fast["status"], fast["executed_ops"], fast["plan"]["ops"]) == ("complete", executed, executed)
    assert fast["executed_fingerprint"] == fast["plan"]["plan_fingerprint"] == info["executed_fingerprint"]
    assert fast["executed"] == info["executed"]
    columns = ["position", "op_id", "seq", "op", "move", "key", "from_tier", "to_tier", "size_bytes", "new_tokens"]
    assert other.select(columns).rows() == log.filter(pl.col("position") < executed).select(columns).rows()
