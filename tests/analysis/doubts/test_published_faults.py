"""The faults of MLPerf Storage v3.0's published results, as crafted logs."""

from pathlib import Path

import pytest

from analysis.summary.summary import summarise
from tests.support.crafted_runs import REQUESTS, SECOND, SIZE, Crafted, clean
from tests.support.doubts import call, conditions, rank_runs

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


def test_gib_are_gib(tmp_path: Path) -> None:
    """10 GB in a second are 9.31 GiB/s."""
    run = clean(2)
    for name in ("due_ns", "ready_ns", "start_ns"):
        run.rows[name][:] = 0
    run.rows["end_ns"][:] = SECOND
    run.rows["size_bytes"][run.rows["read_ns"] > 0] = 10**10 // int((run.rows["read_ns"] > 0).sum())
    summary = summarise(run.settle().save(tmp_path / "run")).to_json()
    assert summary["nvme_read_bytes"] == pytest.approx(1e10)
    assert summary["nvme_read_gib_s"] == pytest.approx(9.3132, rel=1e-4)
    assert not [name for name in summary if "gbps" in name or "_gb_" in name]


def test_the_p95_of_device_times_is_separate_from_whole_times(tmp_path: Path) -> None:
    def slow(rank: int, run: Crafted) -> None:
        run.rows["device_read_ns"] = run.rows["read_ns"] * (3 + 5 * rank) // 10

    summary = summarise(rank_runs(tmp_path / "run", 2, slow, REQUESTS)).to_json()
    assert (summary["valid"], summary["doubts"]) == (True, [])
    whole = SIZE // 2**20 / 1024 * 1e3
    assert summary["nvme_read_p95_ms"] == pytest.approx(whole)
    assert summary["nvme_read_device_p50_ms"] == pytest.approx(whole * 0.55)


def test_unequal_work_of_one_trace_is_named(tmp_path: Path) -> None:
    one, other = clean(), clean(cpu_objects=30, nvme_objects=400)
    places = [one.save(tmp_path / "one"), other.save(tmp_path / "other")]
    assert one.info["trace"]["fingerprint"] == other.info["trace"]["fingerprint"]
    assert "different work" in call("summary", *places).stdout
    rows = clean(nvme_objects=400)
    rows.info["conditions"] = one.info["conditions"]
    assert "plan_fingerprint" in call("summary", places[0], rows.save(tmp_path / "alike")).stdout
