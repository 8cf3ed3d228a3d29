"""Predicted runs in summaries, Python and assessments: marked, with intervals, and judged as what they are."""

import json
from pathlib import Path

import polars as pl
import pytest

import analysis
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.summary import summarise
from analysis.summary.text import format_verdicts, render
from tests.support.command_line import here
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.paths import ROOT
from tests.support.predicted_runs import SHEET, mark, measured, predict, save_predicted
from tests.support.summaries import FAILED, summary_of

pytestmark = pytest.mark.usefixtures("latencies_once")


def test_intervals_are_the_range_of_the_run_and_its_bounds(tmp_path: Path) -> None:
    """Moves take 48.83 ms, a quarter more in the slower bound, a fifth less in the faster one."""
    place = save_predicted(tmp_path / "run", slower=1.25, faster=0.8)
    found = summarise(place).to_json()
    low, high = found["intervals"]["nvme_read_p95_ms"]
    assert found["nvme_read_p95_ms"] == pytest.approx(48.828125)
    assert (low, high) == pytest.approx((39.0625, 61.03515625))
    low, high = found["intervals"]["wall_clock_tok_s"]
    assert (low, high) == pytest.approx((found["wall_clock_tok_s"] / 1.25, found["wall_clock_tok_s"] / 0.8), rel=1e-6)
    assert found["intervals"]["nvme_reads"] == [found["nvme_reads"]] * 2, "the work is equal"
    assert "bottleneck" not in found["intervals"]
    assert found["predicted"] is True
    assert found["prediction"] == {
        "profile": "drive", "kind": "measured", "source": None, "profile_sha256": "ab" * 32, "speeds": None,
    }  # fmt: skip
    names = {name for name, value in found.items() if isinstance(value, int | float) and value is not True}
    assert {"elapsed_s", "e2e_p95_ms", "hit_rate"} <= names & set(found["intervals"])


def test_a_run_that_is_faster_than_its_faster_bound_is_inside_its_interval(tmp_path: Path) -> None:
    found = summarise(save_predicted(tmp_path / "run", slower=1.25, faster=1.1)).to_json()
    assert found["intervals"]["elapsed_s"][0] == found["elapsed_s"]


def test_a_bound_says_which_one_it_is(tmp_path: Path) -> None:
    place = save_predicted(tmp_path / "run") / "bounds" / "slower"
    first = call("summary", place).stdout.splitlines()[0]
    assert "with the profile drive (measured), slower by its errors; without bounds" in first


def test_a_measured_run_has_no_mark(tmp_path: Path) -> None:
    found = summarise(clean().save(tmp_path / "run")).to_json()
    assert found["predicted"] is False
    assert "prediction" not in found
    assert "intervals" not in found


def test_the_first_line_says_predicted_and_the_last_one_too(tmp_path: Path) -> None:
    place = save_predicted(tmp_path / "run", **SHEET, speeds={"nvme": 2.0, "cpu": 1.5})
    lines = call("summary", place).stdout.splitlines()
    assert lines[0] == (
        "PREDICTED, not measured: run: with the profile acme-1 (data sheet: acme.example, 2026-11-01),"
        " cpu 1.5 times as fast, nvme 2 times as fast"
    )
    assert lines[1].startswith("Doubt: data sheet: ")
    assert lines[-1] == f"VALID PREDICTION: {place}: complete, log and plan agree; nothing was measured."
    assert not any(line.startswith(("VALID:", "  machine:")) for line in lines)
    (row,) = [line for line in lines if "nvme reads, P95 per object" in line]
    assert row.split()[-4:] == ["48.83", "[39.06", "..", "61.04]"]
    (work,) = [line for line in lines if line.startswith("  requests   ")]
    assert work.split() == ["requests", "600"], "no interval where both ends are equal"


def test_a_run_without_bounds_says_so(tmp_path: Path) -> None:
    lines = call("summary", mark(clean()).save(tmp_path / "run")).stdout.splitlines()
    assert lines[0].endswith("the profile drive (measured); without bounds, so no intervals")
    assert not any("interval" in line for line in lines[1:])


def test_verdicts_tell_measured_and_predicted_runs_apart() -> None:
    runs = [
        summary_of(run="m"),
        summary_of(run="p", prediction=predict()),
        summary_of(run="q", prediction=predict(), doubts=[FAILED]),
    ]
    assert format_verdicts(runs)[:3] == [
        "VALID: m: complete, no move failed, log and plan agree.",
        "VALID PREDICTION: p: complete, log and plan agree; nothing was measured.",
        "NOT VALID: q (predicted): the run is failed: by design.",
    ]


def test_a_prediction_is_neither_a_copy_nor_a_trial_of_its_replay(tmp_path: Path) -> None:
    """Times and machine of the host that computed it say nothing of it."""
    replay = measured(clean()).save(tmp_path / "replay")
    other = measured(clean().slower(3))
    twin = mark(measured(clean()))
    places = [replay, mark(other).save(tmp_path / "slow"), twin.save(tmp_path / "twin")]
    summaries = add_shared_doubts([summarise(place) for place in places])
    assert [doubt.kind for summary in summaries for doubt in summary.doubts] == []
    assert "3 runs, same work" in render(summaries)


def test_python_reads_predicted_runs(tmp_path: Path) -> None:
    loaded = analysis.load(save_predicted(tmp_path / "run"))
    count, last_ns = loaded.moves.select(pl.len(), pl.col("end_ns").max()).collect().row(0)
    assert count == 1799
    assert loaded.device is None
    assert loaded.info[0].prediction is not None
    prediction = loaded.summary().prediction
    assert prediction is not None
    assert prediction.intervals["elapsed_s"][1] == pytest.approx(1.25 * last_ns / 1e9, rel=1e-3)


def test_an_assessment_says_that_no_machine_was_measured(tmp_path: Path) -> None:
    place = mark(clean()).save(tmp_path / "run")
    assert call("assess", place).stdout.splitlines()[0] == (
        f"{place}: profile latency, PREDICTED: no machine was measured"
    )
    assert json.loads(call("assess", place, "--json").stdout)["predicted"] is True


@pytest.mark.parametrize("gb_s", [3.0, 14.1])
def test_a_drive_that_is_busy_throughout_is_the_limit(tmp_path: Path, gb_s: float) -> None:
    """MLPerf's option 2 on one station without latency: its moves wait for one another far longer than they move."""
    here("tracegen", "generate", "mlperf_option_2", "-o", tmp_path / "t.parquet")
    both = f"latency_us = 0\nstream_gb_s = {gb_s}\nbandwidth_gb_s = {gb_s}\n"
    text = (ROOT / "replayer" / "drives" / "intel-p4500.toml").read_text()
    head, stations = text[: text.index("[nvme.read]")], f"[nvme.read]\n{both}[nvme.write]\n{both}"
    (tmp_path / "drive.toml").write_text(head + stations)
    here("replayer", "predict", tmp_path / "t.parquet", "--profile", tmp_path / "drive.toml", "-o", tmp_path / "run")
    found = summarise(tmp_path / "run").to_json()
    assert found["nvme_busy_share"] > 0.99
    assert found["data_wait_s"] > found["device_s"]
    assert found["bottleneck"] == "device"
