"""The faults of MLPerf Storage v3.0's published results, as crafted logs."""

from pathlib import Path

import pytest

from analysis.summary.summary import summarise
from tests.support.crafted_runs import clean
from tests.support.doubts import call, conditions

GIB = 2**30
pytestmark = pytest.mark.usefixtures("latencies_once")


def test_rates_leave_out_what_draining_moved(tmp_path: Path) -> None:
    """All bytes over a nominal 300 s while requests drained until 492.7 s overstate by 1.64."""
    run = clean(executed=1700)
    run.slower(492.7e9 / float(run.rows["end_ns"].max()))
    conditions(run, duration_s=300.0)
    run.info["window"]["cut_s"] = 300.0
    summary = summarise(run.settle().save(tmp_path / "run")).to_json()
    rows, read = run.rows, run.rows["read_ns"] > 0
    inside = ((300e9 - rows["start_ns"]) / (rows["end_ns"] - rows["start_ns"])).clip(0, 1) * rows["size_bytes"]
    begin_s = float(rows["start_ns"].min()) / 1e9
    assert summary["elapsed_s"] == pytest.approx(300 - begin_s)
    assert summary["drain_s"] == pytest.approx(192.7)
    assert summary["nvme_read_gib_s"] == pytest.approx(float(inside[read].sum()) / GIB / (300 - begin_s))
    assert summary["drained_bytes"] == pytest.approx(float((rows["size_bytes"] - inside).sum()))
    assert "long drain" in [doubt["kind"] for doubt in summary["doubts"]]
    assert summary["valid"]


def test_unequal_work_of_one_trace_is_named(tmp_path: Path) -> None:
    one, other = clean(), clean(cpu_objects=30, nvme_objects=400)
    places = [one.save(tmp_path / "one"), other.save(tmp_path / "other")]
    assert one.info["trace"]["fingerprint"] == other.info["trace"]["fingerprint"]
    assert "different work" in call("summary", *places).stdout
    rows = clean(nvme_objects=400)
    rows.info["conditions"] = one.info["conditions"]
    assert "plan_fingerprint" in call("summary", places[0], rows.save(tmp_path / "alike")).stdout
