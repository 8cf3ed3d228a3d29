"""Warm-up by ops and by seconds, and how many errors a run bears."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.planning.pace import PlanWindow, Span
from tests.replayer.pacing.paced_runs import ORDERS, fingerprint, go, latency, options, whole
from tests.support.fault_injection import Transfer, injected, key_of
from tracegen.errors import InputError
from tracegen.schema import Trace

MS = 1_000_000  # ns


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("ops", [1, 100])
def test_warm_up_by_ops(small_trace: Trace, tmp_path: Path, ops: int, order: str) -> None:
    info, log = go(small_trace, tmp_path / "run", options(None, order), span=Span(warmup_ops=ops))
    assert info["warmup"]["ops"] == ops
    assert log["warmup"].to_list() == (log["position"] < ops).to_list()
    steady = log.filter(~pl.col("warmup"))["start_ns"].min()
    assert info["warmup"]["end_ns"] == steady


@pytest.mark.parametrize(
    "span", [{"warmup_ops": 10_000}, {"ops": 5, "warmup_ops": 5}, {"duration_s": 2, "warmup_s": 2}]
)
def test_a_warm_up_that_leaves_nothing_is_refused(small_trace: Trace, tmp_path: Path, span: Any) -> None:
    with pytest.raises(InputError, match="warmup"):
        go(small_trace, tmp_path / "run", span=Span(**span))


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_warm_up_by_seconds(long_trace: Trace, tmp_path: Path, order: str) -> None:
    span, plan = Span(0.7, warmup_s=0.3), options(None, order)
    info, log = go(long_trace, tmp_path / "run", plan, span=span, window=PlanWindow(ops=60), throttles=latency(3))
    boundary = info["warmup"]["ops"]
    assert 0 < boundary < info["executed_ops"]
    assert log["warmup"].to_list() == (log["position"] < boundary).to_list()
    assert log.filter(~pl.col("warmup"))["start_ns"].min() == info["warmup"]["end_ns"] >= 300 * MS


@pytest.fixture
def unreadable(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Settings of a tier on a disk, of which every tenth key can be stored and not be read."""

    def pread(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if key_of(descriptor) % 10 == 9:
            raise OSError(5, "Input/output error")
        return true(descriptor, memory, size, offset)

    with injected(pread=pread):
        yield {"layout": "files", "cache_dir": tmp_path / "cache"}


@pytest.mark.parametrize("budget", [0, 4])
def test_too_many_errors_stop_a_run(long_trace: Trace, tmp_path: Path, unreadable: dict[str, Any], budget: int) -> None:
    span = Span(max_errors=budget)
    info, log = go(long_trace, tmp_path / "run", span=span, throttles=latency(1), **unreadable)
    assert info["status"] == "failed"
    assert f"more than the {budget} allowed" in info["reason"]
    errors = log.filter(pl.col("status") == "error")
    assert budget < len(errors) <= budget + 12, "one more, and what was in flight; of 25"
    assert len(log) < info["plan"]["ops"]
    assert info["executed_ops"] < long_trace.ops
    assert set(range(info["executed_ops"])) <= set(log["op_id"])
    assert info["executed_fingerprint"] == fingerprint(whole(long_trace), below=info["executed_ops"])


def test_errors_within_the_budget_do_not(long_trace: Trace, tmp_path: Path, unreadable: dict[str, Any]) -> None:
    """A key fails once, what follows on it is upstream and not counted."""
    info, log = go(long_trace, tmp_path / "run", workers=1, span=Span(max_errors=25), **unreadable)
    assert log.filter(pl.col("status") == "error").height == 25
    assert log.filter(pl.col("status") == "upstream").height > 25
    assert (info["status"], info["executed_ops"]) == ("failed", long_trace.ops)
    assert "allowed" not in info["reason"]
