"""Claims of run.json and counters that the log contradicts."""

from pathlib import Path
from typing import Any

import pytest

from analysis.summary.summary import check_run, summarise
from tests.support.crafted_runs import clean
from tests.support.run_json import put

pytestmark = pytest.mark.usefixtures("latencies_once")
CLAIMS: dict[str, tuple[Any, str]] = {
    "executed.ops": (5, "the log has ops = 179, the plan 5"),
    "executed.demotions.cpu>nvme": (5, "the log has demotions.cpu>nvme"),
    "executed.read_bytes.cpu": (5, "the log has read_bytes.cpu"),
    "plan.hits.cpu": (5, "counts other work than the plan's"),
    "executed_fingerprint": ("0" * 64, "names another fingerprint than the plan's"),
    "executed_ops": (178, "the log goes on to op 178"),
    "warmup.ops": (5, "rows are marked as warm-up"),
    "warmup.end_ns": (5, "the warm-up did not end at the time"),
    "window.drain_s": (5.0, "the log drained for 0.000 s, run.json says 5.000 s"),
    "window.issued_s": (5.0, "the last move began"),
    "rank": (1, "rows of rank 0 are in the log of rank 1"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_the_log_contradicts_false_claims_of_run_json(tmp_path: Path, name: str) -> None:
    value, finding = CLAIMS[name]
    run = clean(60, cpu_objects=5)
    put(run.info, name, value)
    findings = summarise(run.save(tmp_path / "run")).findings
    assert any(finding in one for one in findings), findings


CUT: dict[str, tuple[str, Any, str]] = {
    "calls itself whole": ("window.cut_s", None, "whole plan"),
    "drained less": ("window.drain_s", 0.0, "drained for"),
    "claims more work": ("executed.ops", 179, "the log has ops = 100, the plan 179"),
}


@pytest.mark.parametrize("what", CUT)
def test_the_log_contradicts_false_claims_of_a_cut_run(tmp_path: Path, what: str) -> None:
    name, value, finding = CUT[what]
    run = clean(60, cpu_objects=5, executed=100)
    put(run.info, name, value)
    findings = summarise(run.save(tmp_path / "run")).findings
    assert any(finding in one for one in findings), findings


def test_only_its_rows_tell_the_fingerprint_of_a_cut_run(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5, executed=100)
    run.info["executed_fingerprint"] = "0" * 64
    place = run.save(tmp_path / "d")
    assert summarise(place).is_valid
    assert not check_run(place).is_valid


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
