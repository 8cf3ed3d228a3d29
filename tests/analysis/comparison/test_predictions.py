"""Predictions against measurements: errors and pairs by hand, and what is refused."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.predictions import check_predictions
from analysis.summary.summary import summarise
from tests.analysis.comparison.crafting import CPU, Craft, typed
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.predicted_runs import SHEET, mark, measured
from tracegen.errors import InputError

WALL = "wall_clock_tok_s"


@pytest.fixture
def craft(craft: Craft) -> Craft:
    """Craft runs of the present format."""
    return partial(craft, run_version=2)


def prediction(craft: Craft, name: str, speed: float = 1.0, **info: Any) -> Path:
    """Craft a predicted run whose throughput is 100 x speed."""
    return craft(name, speed, prediction=info.pop("prediction", {}), **info)


def tiers(cpu: int) -> dict[str, Any]:
    return {"usable_bytes": {"gpu": 0, "cpu": cpu << 30, "nvme": None}}


# One pair


def test_errors_of_one_pair_are_right(craft: Craft) -> None:
    """The median of 100, 104 and 120 is 104; 96 is 7.7% less."""
    trials = [craft(f"m{i}", speed) for i, speed in enumerate((1.0, 1.2, 1.04))]
    check = check_predictions(trials, [prediction(craft, "p", 0.96)], [WALL, "elapsed_s"])
    one = check.pairs[0].errors[WALL]
    assert (one.trials, one.measured, one.low, one.high) == (3, 104.0, 100.0, 120.0)
    assert one.predicted == 96.0
    assert one.error == pytest.approx(-8 / 104)
    elapsed = check.pairs[0].errors["elapsed_s"]
    assert elapsed.error == pytest.approx(10 / 0.96 / (10 / 1.04) - 1)
    assert (check.unmatched, check.warnings, check.left_out) == ([], [], {})


def test_metrics_that_one_side_lacks_have_no_error(craft: Craft) -> None:
    values = {"nvme_read_p95_ms": None, "drain_s": 0.0}
    trials = [craft("m", values=values)]
    other = prediction(craft, "p", values={"nvme_read_p95_ms": 3.0, "drain_s": 1.0})
    check = check_predictions(trials, [other], ["nvme_read_p95_ms", "drain_s"])
    assert [one.error for one in check.pairs[0].errors.values()] == [None, None]


def test_a_pair_is_shown_as_typed_in_either_order(craft: Craft) -> None:
    trials = [craft(f"m-{i}", speed) for i, speed in enumerate((1.0, 1.04, 1.2))]
    other = prediction(craft, "p", 0.9, prediction=SHEET | {"speeds": {"nvme": 2.0}})
    done = typed(*trials, "--against", other)
    assert done.exit_code == 0, done.output
    lines = [line.strip() for line in done.output.splitlines()]
    source = "the profile acme-1 (data sheet: acme.example, 2026-11-01), nvme 2 times as fast"
    assert lines[1].startswith("measured: 3 runs: ")
    assert lines[3] == f"PREDICTED, not measured: predicted: with {source}"
    assert any(line.endswith(f"predicted with {source}: no replay was as fast.") for line in lines)
    (row,) = [line.split() for line in lines if WALL in line]
    assert row[row.index(WALL) :] == [WALL, "104", "100", "to", "120", "90", "-13.5%"]
    assert typed(other, "--against", *trials).output == done.output


# Several pairs

SPEEDS = {0: (1.0, 1.1), 2: (2.0, 1.9), 4: (4.0, 4.04), 8: (5.0, 4.0)}
"""By GiB of the cpu tier, the speeds measured and predicted: errors of 10%, -5%, 1% and -20%."""


def craft_pairs(craft: Craft) -> tuple[list[Path], list[Path]]:
    trials, predictions = [], []
    for size, (own, other) in SPEEDS.items():
        about = {"conditions": tiers(size), "plan": f"plan {size}"}
        trials.append(craft(f"m{size}", own, **about))
        predictions.append(prediction(craft, f"p{size}", other, **about))
    return trials, predictions[::-1]


def test_pairs_are_found_by_their_conditions(craft: Craft) -> None:
    trials, predictions = craft_pairs(craft)
    check = check_predictions(trials, predictions)
    found = {pair.name: pair.errors[WALL].error for pair in check.pairs}
    assert found == {f"cpu {size} GiB": pytest.approx(b / a - 1) for size, (a, b) in SPEEDS.items()}


def test_json_and_csv_have_every_pair_and_metric(craft: Craft) -> None:
    trials, predictions = craft_pairs(craft)
    found = json.loads(typed(*trials, "--against", *predictions, "--json").stdout)
    last = found["pairs"][3]
    assert (last["measured"], last["predicted"]) == ([str(trials[3])], str(predictions[0]))
    assert last["errors"][WALL]["error"] == pytest.approx(-0.2)
    rows = list(csv.DictReader(typed(*trials, "--against", *predictions, "--csv").stdout.splitlines()))
    assert len(rows) == 4 * len(found["metrics"])
    (row,) = [one for one in rows if (one["pair"], one["metric"]) == ("cpu 8 GiB", WALL)]
    assert (row["measured"], row["predicted"], row["unit"]) == ("500.0", "400.0", "tok/s")


# What is refused, and what is warned of


@pytest.mark.parametrize(
    ("about", "sentence"),
    [
        ({"trace": "u"}, "m (measured) matches nothing of predicted: no run of its trace; predict the trace"),
        ({"conditions": {"workers": 9}}, "workers 8 (measured) against 9 (predicted); predict the trace"),
        ({"conditions": CPU}, "size of cpu 0 GiB (measured) against 4 GiB (predicted)"),
        ({"plan": "q"}, "have different plans within the first 1,000 ops, though trace and conditions are equal"),
    ],
)  # fmt: skip
def test_unlike_work_is_refused_in_one_sentence(craft: Craft, about: dict[str, Any], sentence: str) -> None:
    done = typed(craft("m"), "--against", prediction(craft, "p", **about))
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert sentence in line
    assert done.stdout == ""


def test_two_predictions_of_one_replay_are_refused(craft: Craft) -> None:
    pair = [prediction(craft, "p"), prediction(craft, "q", prediction={"profile_sha256": "cd" * 32})]
    with pytest.raises(InputError, match="predict the same replays"):
        check_predictions([craft("m")], pair)


def test_conditions_of_the_device_are_the_profiles(craft: Craft) -> None:
    """A replay may be slowed down or preconditioned; another way of making I/O is warned of."""
    slowed = {"throttle": {"nvme": {"mib_s": 100}}, "precondition_gib": 1}
    (quiet,) = [
        check_predictions(
            [craft("m", conditions=slowed | {"io_depth": 1})],
            [prediction(craft, "p", conditions={"io_depth": 1})],
        )
    ]
    assert quiet.warnings == []
    loud = check_predictions([craft("n")], [prediction(craft, "q", conditions={"direct": False})])
    (text,) = loud.warnings
    assert text.endswith("the profile is of other conditions: direct true (measured) against false (predicted).")


# Predictions in comparisons of systems


def test_predictions_are_compared_with_each_other_and_marked(craft: Craft) -> None:
    """A prediction has no trials, so that there is no verdict."""
    a = prediction(craft, "fast", 2.0)
    b = prediction(craft, "slow", prediction=SHEET)
    shown = typed(a, "--against", b).output
    assert "PREDICTED, not measured: fast: with the profile drive (measured)" in shown
    assert "PREDICTED, not measured: slow: with the profile acme-1 (data sheet: acme" in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("  throughput, tok/s")]
    assert row.split()[2:] == ["100", "200", "2.00", "×", "–", "no", "verdict:", "predicted"]
    assert "WARNING" not in shown
    rows = list(csv.DictReader(typed(a, "--against", b, "--csv").stdout.splitlines()))
    assert {(row["system"], row["baseline"], row["predicted"]) for row in rows} == {("fast", "slow", "true")}


def test_a_measured_and_a_predicted_run_elsewhere_are_warned_of(craft: Craft) -> None:
    m, p = craft("m"), prediction(craft, "p")
    assert "mixes measured and predicted runs" in typed(m, p).output
    three = typed(m, "--against", p, "--against", craft("n")).output
    assert "WARNING: p is predicted and n measured: ratios between them contain the error" in three
    varied = typed(m, "--against", prediction(craft, "q", 2.0, conditions={"workers": 9}), "--vary", "workers")
    assert "WARNING: q is predicted and m measured" in varied.output
    assert "0.500 ×" in varied.output


# Runs with logs


def test_replays_of_a_memory_test_the_model(tmp_path: Path) -> None:
    """They are NOT VALID as measurements of a drive, and left out elsewhere."""
    run = measured(clean())
    run.info["machine"]["storage"] |= {"filesystem": "tmpfs"}
    replay = run.save(tmp_path / "replay")
    assert not summarise(replay).is_valid
    other = mark(clean()).save(tmp_path / "p")
    shown = call("compare", replay, "--against", other).stdout
    assert f"WARNING: {replay} is NOT VALID, the nvme tier was in memory, on tmpfs: it tests the model" in shown
    failed = measured(clean())
    failed.info |= {"status": "failed", "reason": "a test"}
    broken = failed.save(tmp_path / "broken")
    assert "no valid run is left" in call("compare", broken, "--against", other, code=2).stderr
