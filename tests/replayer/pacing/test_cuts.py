"""Runs that a time limit cuts, and what they drain."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from tests.replayer.arrangements.oracle import moves
from tests.replayer.arrangements.tiers import ops_of
from tests.replayer.pacing.paced_runs import EVICTIONS, go, hashed, latency, options, plan_of, whole
from tests.support import traces
from tracegen.schema import Trace

MS = 1_000_000  # ns
UNIT = 1024  # bytes per token of the real runs


@pytest.mark.parametrize(("kind", "order"), [("asap", "trace"), ("closed", "reference"), ("open", "reference")])
def test_a_duration_cuts_off_an_exact_prefix(long_trace: Trace, tmp_path: Path, kind: Any, order: str) -> None:
    """Urgent ops overtake others: what the cut leaves behind of those before the highest is executed still."""
    pace, logs = Pace(kind), []
    planned = plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))
    for duration_s in (0.25, 0.45):
        info, log = go(
            long_trace,
            tmp_path / f"{duration_s}",
            options(150, order),
            pace=pace,
            window=PlanWindow(ops=100),
            span=Span(duration_s),
            throttles=latency(3),
        )
        executed = info["executed_ops"]
        assert (info["status"], info["reason"]) == ("complete", None)
        assert 0 < executed < long_trace.ops
        issued, ended = log["start_ns"].max(), log["end_ns"].max()
        assert set(log.filter(pl.col("position") >= executed)["move"]) <= set(EVICTIONS)
        log = log.filter(pl.col("position") < executed)
        assert log["position"].unique().to_list() == list(range(executed))
        expected = [row for ops in planned[:executed] for row in ops]
        columns = ("op_id", "seq", "move", "key", "size_bytes")
        assert log.select(columns).rows() == [(*row[:4], row[6]) for row in expected]
        assert info["executed_fingerprint"] == hashed(order, expected) != info["plan"]["plan_fingerprint"]
        assert info["executed"]["ops"] == executed
        window = info["window"]
        assert window["cut_s"] >= window["duration_s"] == duration_s
        assert window["issued_s"] == issued / 1e9
        assert window["drain_s"] == max(0, ended / 1e9 - duration_s)
        assert (window["drain_limit_s"], window["stopped_s"]) == (None, None)
        logs.append(log)
    same = [name for name in logs[0].columns if not name.endswith("_ns") and name not in ("worker", "waited_for")]
    common = min(len(log) for log in logs)
    shorter, longer = (log.select(same).rows() for log in logs)
    assert common > 0
    assert shorter[:common] == longer[:common]


def test_what_was_issued_is_drained(tmp_path: Path) -> None:
    """At the cut, after 300 ms, a store of 800 ms is in flight and an op issued after it done; what is due 100 ms
    later, while it is drained, does not start."""
    steps: list[traces.Step] = [("w", 0, 1), ("w", 1, 9), *(("w", key, 1) for key in range(2, 9))]  # 1 fits nowhere
    batch = traces.columns(steps, time_ns=[0, 50 * MS] + [400 * MS] * 7)
    trace = traces.write(tmp_path / "t.parquet", batch)
    info, log = go(trace, tmp_path / "run", options(4), pace=Pace("open"), span=Span(0.3), throttles=latency(800))
    assert (info["status"], info["executed_ops"]) == ("complete", 2)
    assert log["move"].to_list() == ["store", "bypass"]
    start, end = log["start_ns"].to_list(), log["end_ns"].to_list()
    window = info["window"]
    assert 0.3 <= window["cut_s"] < 0.4
    assert (window["issued_s"], window["drain_s"]) == (start[1] / 1e9, end[0] / 1e9 - 0.3)
    assert end[0] >= 800 * MS > end[1] >= 50 * MS


def test_what_was_begun_is_ended(tmp_path: Path) -> None:
    """Op 2 finds its object gone, a row at once; it stores it anew after the cut, when op 1 gives its permit."""
    batch = traces.columns(
        [("w", 0, 1), ("w", 1, 1), ("r", 0, 1)], user_id=[1, 0, 0], session_id=[1, 0, 0], turn=[1, 1, 2]
    )
    trace = traces.write(tmp_path / "t.parquet", batch)
    info, log = go(trace, tmp_path / "run", options(users=1), allocs=1, span=Span(0.3), throttles=latency(500))
    assert (info["status"], info["executed_ops"]) == ("complete", 3)
    assert log.select("op_id", "move").rows() == [(1, "store"), (2, "miss"), (2, "store")]
    assert log["start_ns"].to_list()[2] >= log["end_ns"].to_list()[0], "one permit"


def test_a_drain_is_bounded(overtaken: Trace, tmp_path: Path) -> None:
    """20 ms each, one after the other: at the cut, after 300 ms, some of the hurried are done, and all of the others
    would have to be drained, 800 ms. After 400 of them nothing more starts; what came before the first that is lacking
    is what counts, and the log holds the others, too."""
    span = Span(0.3, drain_s=0.4)
    info, log = go(overtaken, tmp_path / "run", workers=1, span=span, throttles=latency(20))
    executed, window = info["executed_ops"], info["window"]
    assert (info["status"], info["reason"]) == ("complete", None)
    assert 0 < executed < 40
    assert (window["duration_s"], window["drain_limit_s"]) == (0.3, 0.4)
    assert 0.3 <= window["cut_s"] <= window["stopped_s"] >= 0.7
    assert log["start_ns"].max() / 1e9 == window["issued_s"] <= window["stopped_s"]
    assert window["drain_s"] == log["end_ns"].max() / 1e9 - 0.3 > 0
    positions = log["position"].to_list()
    assert positions == [*range(executed), *range(40, 40 + len(positions) - executed)]
    assert len(positions) > executed, "the hurried ones"
    (planned,) = zip(*plan_of(overtaken, options()), strict=True)
    assert info["executed_fingerprint"] == hashed("trace", planned[:executed])
    assert info["executed"]["ops"] == info["executed"]["stores"]["nvme"] == executed


@pytest.mark.parametrize(
    ("kind", "order"),
    [("asap", "reference"), ("asap", "live"), ("closed", "live"), ("open", "live"), ("open", "trace")],
)
def test_without_a_drain_nothing_starts_after_the_cut(long_trace: Trace, tmp_path: Path, kind: Any, order: str) -> None:
    pace, span = Pace(kind), Span(0.3, drain_s=0)
    info, log = go(long_trace, tmp_path / "run", options(150, order), pace=pace, span=span, throttles=latency(3))
    executed, window = info["executed_ops"], info["window"]
    assert info["status"] == "complete"
    assert 0 < executed < long_trace.ops
    assert 0.3 <= window["cut_s"] == window["stopped_s"] >= window["issued_s"]
    prefix = log.filter(pl.col("position") < executed)
    assert prefix["position"].unique().to_list() == list(range(executed))
    if order == "live":
        first = prefix.filter(pl.col("seq") == 0)
        expected = moves(ops_of(whole(long_trace)), {}, (0, 0, 150 * UNIT), UNIT, order=first["op_id"])
    else:
        planned = plan_of(long_trace, replace(options(150, order), demand=Demand(pace, 4)))
        expected = [row for ops in planned[:executed] for row in ops]
    assert prefix.select("op_id", "seq", "move", "key").rows() == [row[:4] for row in expected]
    assert info["executed_fingerprint"] == hashed(order, expected)
    assert info["executed"]["ops"] == executed
