"""Logs that were changed after the run: refused, or told by summary or check."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.doubts import integrity as recomputed
from analysis.summary.summary import check_run, summarise
from tests.analysis.doubts.tampering import CODE, HITS, STORES, Log, cell, swap, tampered, twice_and_gone
from tests.support.crafted_runs import Crafted, clean
from tests.support.doubts import conditions, rank_runs, refusal
from tests.support.run_json import put

pytestmark = pytest.mark.usefixtures("latencies_once")
AT_9 = pl.col("op_id") == 9
IMPOSSIBLE: dict[str, tuple[Log, str]] = {
    "an end before its start": (cell("end_ns", pl.col("start_ns") - 1, AT_9), "numbers below 0, or times"),
    "a negative window": (cell("window_ns", -1), "numbers below 0, or times"),
    "a time of days": (cell("end_ns", 1 << 50, AT_9), "moves of days"),
    "reading for longer than the move": (cell("read_ns", pl.col("end_ns") - pl.col("start_ns") + 1, HITS & AT_9), "numbers below 0, or times"),
    "ids that would mix with another rank's": (cell("request_id", 1 << 40), "too large"),
    "a negative size": (cell("size_bytes", -5), "numbers below 0, or times"),
    "a hit of no tier": (cell("from_tier", None, HITS), "moves between tiers"),
}  # fmt: skip


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_rows_that_no_replay_writes_are_refused(tmp_path: Path, what: str) -> None:
    change, reason = IMPOSSIBLE[what]
    run = clean(60, cpu_objects=5)
    assert reason in refusal(tampered(run.save(tmp_path / "run", parts=1), change))


def test_device_times_of_a_gpu_may_exceed_the_hosts(tmp_path: Path) -> None:
    run = clean(60, cpu_objects=5)
    for name in ("from_tier", "to_tier"):
        run.rows[name] = np.where(run.rows[name] == CODE[name]["cpu"], CODE[name]["gpu"], run.rows[name])
    run.rows["device_read_ns"] = np.where(
        run.rows["from_tier"] == 0, run.rows["read_ns"] + 5, run.rows["device_read_ns"]
    )
    run.info["status"] = "failed"
    summarise(run.save(tmp_path / "run")).to_json()


SEEN: dict[str, Log] = {  # by `analysis summary`: totals or single figures show them
    "a row less": lambda table: table.slice(0, len(table) - 1),
    "a row twice": lambda table: pl.concat([table, table.slice(3, 1)]),
    "a size": cell("size_bytes", pl.col("size_bytes") - 1, STORES & (pl.col("op_id") == 0)),
    "a write called a read": cell("op", "read", pl.col("op") == "write"),
    "half of the rows warm-up": cell("warmup", pl.col("op_id") % 2 == 0, pl.lit(True)),
    "another rank's rows": cell("rank", 1),
    "a position past the end": cell("position", 10**6, pl.col("op_id") == 100),
    "an error made up": cell("status", "error", HITS),
}
SWAPPED: dict[str, Log] = {  # by `analysis check` only: every total stays
    "a row twice, another gone": twice_and_gone,
    "keys swapped": swap("key", HITS),
    "tiers swapped": swap("from_tier", HITS),
    "positions swapped": swap("position", HITS & (pl.col("phase") == "decode")),
    "ops swapped": swap("op_id", HITS & (pl.col("phase") == "decode")),
}


@pytest.mark.parametrize("what", SEEN | SWAPPED)
def test_tampering_is_found(tmp_path: Path, what: str) -> None:
    place = clean(60, cpu_objects=1).save(tmp_path / "run", parts=1)
    summary = summarise(tampered(place, (SEEN | SWAPPED)[what]))
    assert summary.is_valid == (what in SWAPPED)
    found = check_run(place)
    assert {doubt.kind for doubt in found.doubts if doubt.invalidates} & {"altered log", "errors", "incomplete"}


def test_a_log_is_hashed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputed, "HASHED_OPS", 16)
    place = clean(60, cpu_objects=5, executed=100).save(tmp_path / "run")
    assert check_run(place).is_valid
    assert not check_run(tampered(place, swap("key", HITS))).is_valid


def beyond(run: Crafted, ops: int) -> Crafted:
    """The last ops of the log were executed inside the window, but past the exact prefix."""
    kept, whole = clean(60, executed=ops), run.info
    for name in ("executed", "executed_ops", "executed_fingerprint"):
        whole[name] = kept.info[name]
    return run


def test_only_a_cut_run_may_have_rows_beyond_its_prefix(tmp_path: Path) -> None:
    cut = beyond(clean(60, executed=120), 100)
    assert check_run(cut.save(tmp_path / "cut")).findings == []
    assert summarise(tmp_path / "cut").to_json()["logged_ops"] == 120
    whole = beyond(clean(60), 100)
    assert any("the log goes on to op 178" in one for one in summarise(whole.save(tmp_path / "whole")).findings)


def test_a_run_of_the_first_ops_asked_for(tmp_path: Path) -> None:
    run = clean(60, executed=100)
    conditions(run, ops=100, duration_s=None)
    put(run.info, "window.cut_s", None)
    summary = check_run(run.settle().save(tmp_path / "run")).to_json()
    assert (summary["findings"], summary["cut"]) == ([], False)


def test_a_live_run_has_no_plan_until_it_has_ended(tmp_path: Path) -> None:
    run = clean(60)
    run.info |= {"plan": None, "status": "running"}
    conditions(run, placement="live", order={"kind": "live"})
    assert {doubt["kind"] for doubt in summarise(run.save(tmp_path / "run")).to_json()["doubts"]} >= {"incomplete"}
    conditions(run, placement="planned")
    assert "plan is null, not an object" in refusal(run.save(tmp_path / "b"))


def test_parts_of_other_runs(tmp_path: Path) -> None:
    """Of a trial of the same trace, and of another rank; and a part that is gone."""
    name = "moves/part-00000.parquet"
    whole, slower = clean(60, cpu_objects=5), clean(60, cpu_objects=5).slower(1.1)
    place, trial = whole.save(tmp_path / "run", parts=1), slower.save(tmp_path / "trial", parts=1)
    (place / name).write_bytes((trial / name).read_bytes())
    assert any("the last move began" in finding for finding in summarise(place).findings)
    ranks = rank_runs(tmp_path / "ranks")
    (ranks / "rank_0" / name).write_bytes((ranks / "rank_1" / name).read_bytes())
    assert "rows of rank 1 are in the log of rank 0" in summarise(ranks).findings
    halved = whole.save(tmp_path / "halved")
    (halved / name).unlink()
    assert not summarise(halved).is_valid
