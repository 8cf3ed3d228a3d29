"""Claims of run.json and counters that the log contradicts."""

from pathlib import Path
from typing import Any

import pytest

from analysis.summary.summary import summarise
from tests.support.crafted_runs import clean
from tests.support.doubts import call, put

pytestmark = pytest.mark.usefixtures("latencies_once")
CLAIMS: list[tuple[str, Any, str]] = [
    ("executed.ops", 5, "the log has ops = 179, the plan 5"),
    ("executed.hits.nvme", 5, "the log has hits.nvme"),
    ("executed.stores.cpu", 5, "the log has stores.cpu"),
    ("executed.demotions.cpu>nvme", 5, "the log has demotions.cpu>nvme"),
    ("executed.reads", 5, "the log has reads"),
    ("executed.read_bytes.cpu", 5, "the log has read_bytes.cpu"),
    ("plan.hits.cpu", 5, "counts other work than the plan's"),
    ("executed_fingerprint", "0" * 64, "names another fingerprint than the plan's"),
    ("executed_ops", 178, "the log goes on to op 178"),
    ("executed_ops", 200, "200 ops of 179"),
    ("warmup.ops", 5, "rows are marked as warm-up"),
    ("warmup.end_ns", 5, "the warm-up did not end at the time"),
    ("window.drain_s", 5.0, "the log drained for 0.000 s, run.json says 5.000 s"),
    ("window.issued_s", 5.0, "the last move began"),
    ("rank", 1, "rows of rank 0 are in the log of rank 1"),
]


@pytest.mark.parametrize(("name", "value", "finding"), CLAIMS, ids=[f"{case[0]}={case[1]}" for case in CLAIMS])
def test_the_log_contradicts_false_claims_of_run_json(tmp_path: Path, name: str, value: Any, finding: str) -> None:
    run = clean(60, cpu_objects=5)
    put(run.info, name, value)
    findings = summarise(run.save(tmp_path / "run")).findings
    assert any(finding in one for one in findings), findings


def test_a_cut_run_that_calls_itself_whole_or_drains_less(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.cut_s", None)
    assert any("whole plan" in finding for finding in summarise(run.settle().save(tmp_path / "a")).findings)
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.drain_s", 0.0)
    assert any("drained for" in finding for finding in summarise(run.save(tmp_path / "b")).findings)
    run = clean(60, cpu_objects=5, executed=100)
    run.info |= {"executed": run.info["plan"], "executed_ops": 179}
    assert any("parts are missing" in finding for finding in summarise(run.save(tmp_path / "c")).findings)
    run = clean(60, cpu_objects=5, executed=100)
    run.info["executed_fingerprint"] = "0" * 64
    place = run.save(tmp_path / "d")
    assert summarise(place).is_valid, "nothing but its rows tells the fingerprint of a cut run"
    assert "are not those of its plan" in call("check", place, code=1).stdout


def test_an_interrupted_run_that_calls_itself_complete(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, "window.cut_s", None)
    run.info["conditions"]["duration_s"] = None
    assert run.settle().info["status"] == "complete"
    findings = summarise(run.save(tmp_path / "run")).findings
    assert any("100 ops of 179" in finding for finding in findings)


def test_counters_of_another_run(tmp_path: Path) -> None:
    run = clean()
    assert run.samples is not None
    run.samples = run.samples[:50]
    findings = summarise(run.save(tmp_path / "run")).findings
    assert any("device.parquet counts for 50.000 s, the log goes on for" in finding for finding in findings)
