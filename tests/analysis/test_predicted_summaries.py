"""Predicted runs in summaries, Python and assessments: marked, with their errors, and judged as what they are."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.doubts.predictions import ERRORS
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.answer import list_verdicts
from analysis.summary.summary import summarise
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.paths import ROOT
from tests.support.predicted_runs import SHEET, mark, measured, predict
from tests.support.summaries import FAILED, show, summary_of

pytestmark = pytest.mark.usefixtures("latencies_once")


THROTTLED = {"nvme": {"mib_s": 300.0, "latency_us": 100.0}}
OF_DISKS = (
    "Predictions for a disk were off by 10% (median), nine of ten by at most 30%; those for a RAM disk were off"
    " by 82% (median), nine of ten by at most 196%: docs/predicting.md."
)


def test_errors_are_those_of_the_published_cells() -> None:
    """Their medians and 90% quantiles, computed a second time from the CSV file."""
    cells = pl.read_csv(ROOT / "docs" / "predicting-errors.csv").group_by("medium")
    sizes = cells.agg(pl.col("error").abs()).rows()
    media = {"a throttled tier": "throttled to 300 MiB/s and 100 us", "a disk": "disk", "a RAM disk": "disk over RAM"}
    found = {medium: (np.median(errors), np.quantile(errors, 0.9)) for medium, errors in sizes}
    assert {kind: found[medium] for kind, medium in media.items()} == {
        kind: pytest.approx(told, abs=0.005) for kind, told in ERRORS.items()
    }


def test_a_prediction_states_the_error_of_its_kind_of_tier(tmp_path: Path) -> None:
    throttled, sheet, plain = mark(clean()), mark(clean(), **SHEET), mark(clean())
    throttled.info["conditions"] |= {"throttle": THROTTLED}
    places = [run.save(tmp_path / str(n)) for n, run in enumerate((throttled, sheet, plain))]
    told = [summarise(place).to_json()["prediction_errors"] for place in places]
    assert told == [
        "Predictions for a throttled tier were off by 4% (median), nine of ten by at most 20%: docs/predicting.md.",
        "No prediction from published figures was compared with a replay.",
        OF_DISKS,
    ]
    lines = call("summary", *places).stdout.splitlines()
    assert all(f"  {error}" in lines for error in told)
    assert not [line for line in lines if "interval" in line]


def test_outside_its_profile_a_prediction_has_no_known_error(tmp_path: Path) -> None:
    run = mark(clean())
    run.info["warnings"] = [{"kind": "outside the profile", "text": "objects of 1 GiB"}]
    told = summarise(run.save(tmp_path / "run")).describe_errors()
    assert told == f"{OF_DISKS} This one is outside its profile, where errors are not known."


def test_json_has_the_profile(tmp_path: Path) -> None:
    found = summarise(mark(clean()).save(tmp_path / "run")).to_json()
    assert found["predicted"] is True
    assert found["prediction"] == {
        "profile": "drive", "kind": "measured", "source": None, "profile_sha256": "ab" * 32, "speeds": None,
    }  # fmt: skip


def test_the_first_lines_say_predicted_and_the_last_one_too(tmp_path: Path) -> None:
    place = mark(clean(), **SHEET, speeds={"nvme": 2.0, "cpu": 1.5}).save(tmp_path / "run")
    lines = call("summary", place).stdout.splitlines()
    assert lines[2] == (
        "  PREDICTED, not measured: with the profile acme-1 (data sheet: acme.example, 2026-11-01),"
        " cpu 1.5 times as fast, nvme 2 times as fast"
    )
    assert lines[-1] == f"VALID PREDICTION: {place}: complete, log and plan agree; nothing was measured."
    assert not any(line.startswith(("VALID:", "  machine:")) for line in lines)


def test_verdicts_tell_measured_and_predicted_runs_apart() -> None:
    runs = [
        summary_of(run="m"),
        summary_of(run="p", prediction=predict()),
        summary_of(run="q", prediction=predict(), doubts=[FAILED]),
    ]
    verdicts = [(run, verdict) for run, verdict, _ in list_verdicts(runs)]
    assert verdicts == [("m", "VALID"), ("p", "VALID PREDICTION"), ("q (predicted)", "NOT VALID")]


def test_a_prediction_is_neither_a_copy_nor_a_trial_of_its_replay(tmp_path: Path) -> None:
    """Times and machine of the host that computed it say nothing of it."""
    replay = measured(clean()).save(tmp_path / "replay")
    other = measured(clean().slower(3))
    twin = mark(measured(clean()))
    places = [replay, mark(other).save(tmp_path / "slow"), twin.save(tmp_path / "twin")]
    summaries = add_shared_doubts([summarise(place) for place in places])
    assert [doubt.kind for summary in summaries for doubt in summary.doubts] == []
    assert "3 runs, same work" in show(*summaries)


def test_an_assessment_says_that_no_machine_was_measured(tmp_path: Path) -> None:
    place = mark(clean()).save(tmp_path / "run")
    assert call("assess", place).stdout.splitlines()[0] == (
        f"{place}: profile latency, PREDICTED: no machine was measured"
    )
    assert json.loads(call("assess", place, "--json").stdout)["predicted"] is True
