"""The faults of MLPerf Storage v3.0's published results, as crafted logs."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.summary.summary import check_run, summarise
from tests.support.crafted_runs import REQUESTS, SECOND, SIZE, Crafted, clean
from tests.support.doubts import call, conditions, counted, rank_runs

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
    (doubt,) = [doubt for doubt in summary["doubts"] if doubt["kind"] == "long drain"]
    assert "192.7 s past the 300 s" in doubt["text"]
    assert summary["valid"]
    assert "drain after the cut" in call("summary", tmp_path / "run").stdout


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
    assert re.search(r"nvme reads, GiB/s +9\.31\n", call("summary", tmp_path / "run").stdout)
    assert "nvme_read_gib_s" in json.loads(call("summary", tmp_path / "run", "--json").stdout)


def test_the_p95_of_device_times_is_separate_from_whole_times(tmp_path: Path) -> None:
    def slow(rank: int, run: Crafted) -> None:
        run.rows["device_read_ns"] = run.rows["read_ns"] * (3 + 5 * rank) // 10

    summary = summarise(rank_runs(tmp_path / "run", 2, slow, REQUESTS)).to_json()
    assert (summary["valid"], summary["doubts"]) == (True, [])
    whole = SIZE // 2**20 / 1024 * 1e3
    assert summary["nvme_read_p95_ms"] == pytest.approx(whole)
    assert summary["nvme_read_device_p50_ms"] == pytest.approx(whole * 0.55)


def test_a_run_with_a_rank_missing_is_not_complete(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run", 3)
    assert check_run(place).is_valid, "of ranks that are all there"
    for path in sorted((place / "rank_1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    summary = summarise(place).to_json()
    assert not summary["valid"]
    assert summary["status"] == "failed"
    assert any("rank 1 of 3 is missing" in finding for finding in summary["findings"])


@pytest.mark.parametrize("direct", [True, False])
def test_a_run_served_by_the_page_cache_is_not_valid(tmp_path: Path, direct: bool) -> None:
    run = clean()
    conditions(run, direct=direct)
    counted(run, read=0.4)
    summary = summarise(run.save(tmp_path / "run")).to_json()
    told = {
        True: "the device delivered 40% of what the nvme tier read: a cache served the rest",
        False: "the nvme tier was read and written through the page cache; devices delivered 40% of its reads",
    }
    assert summary["findings"] == [told[direct]]


def test_device_writes_that_time_only_the_fsync(tmp_path: Path) -> None:
    """1.03 ms of 3,682 ms."""
    run = clean()
    writes = run.rows["write_ns"] > 0
    run.slower(3_682_000_000 / int(run.rows["write_ns"][writes][0]))
    run.rows["device_write_ns"] = np.where(writes, 1_030_000, 0)
    summary = summarise(run.save(tmp_path / "run")).to_json()
    (finding,) = summary["findings"]
    assert finding.startswith("device times of nvme writes are 0.03% of their whole times, 3,682 ms")


def test_counters_beyond_all_bounds_are_refused_in_a_sentence(tmp_path: Path) -> None:
    run = clean()
    path = run.save(tmp_path / "run") / "device.parquet"
    table = pq.read_table(path)
    most = pa.array([2**63 - 1] * len(table), table.schema.field("read_bytes").type)
    pq.write_table(table.set_column(table.schema.get_field_index("read_bytes"), "read_bytes", most), path)
    assert "run backwards or are impossible" in call("check", path.parent, code=2).stderr


def test_unequal_work_of_one_trace_is_named(tmp_path: Path) -> None:
    one, other = clean(), clean(cpu_objects=30, nvme_objects=400)
    places = [one.save(tmp_path / "one"), other.save(tmp_path / "other")]
    assert one.info["trace"]["fingerprint"] == other.info["trace"]["fingerprint"]
    shown = call("summary", *places).stdout.splitlines()[-1]
    assert "2 runs, different work" in shown
    rows = clean(nvme_objects=400)
    rows.info["conditions"] = one.info["conditions"]
    shown = call("summary", places[0], rows.save(tmp_path / "alike")).stdout.splitlines()[-1]
    assert shown.startswith("VALID: 2 runs, different work: ")
    assert "plan_fingerprint" in shown
