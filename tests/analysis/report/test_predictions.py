"""Predicted runs in reports: names, dashes, and what is said of them."""

from pathlib import Path

import pytest

from analysis.log.targets import Targets
from analysis.report.answer import choose_state, make_report
from analysis.report.systems import Gathered, gather
from tests.support.crafted_runs import Crafted, clean
from tests.support.latencies import latencies_known
from tests.support.predicted_runs import SHEET, mark, measured
from views.answer import Answer
from views.formats import FORMATS


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gathered]:
    """Gather two trials, a prediction and one from a data sheet; and that prediction alone."""
    place = tmp_path_factory.mktemp("predictions")
    trials = [measured(clean(), started=n).save(place / f"drive-{n}") for n in range(2)]
    other = mark(clean().slower(1.05)).save(place / "what-if")
    sheet = mark(clean().slower(0.5), **SHEET).save(place / "predicted-sheet")
    with latencies_known():
        return {
            "both": gather([*trials, other, sheet], Targets()),
            "alone": gather([other], Targets()),
            "measured": gather(trials, Targets()),
        }


@pytest.fixture(scope="module")
def answers(reported: dict[str, Gathered]) -> dict[str, Answer]:
    return {name: make_report(data) for name, data in reported.items()}


def test_names_are_marked_unless_they_say_it(reported: dict[str, Gathered]) -> None:
    both = reported["both"]
    assert [run.name for run in both.runs] == ["drive-0", "drive-1", "what-if (predicted)", "predicted-sheet"]
    assert [*both.trials] == ["drive", "what-if (predicted)", "predicted-sheet"]
    assert both.predicted == {"what-if (predicted)", "predicted-sheet"}
    assert reported["measured"].predicted == set()


def test_predicted_lines_are_dashed_and_measured_lines_are_not(answers: dict[str, Answer]) -> None:
    drawn = {name: next(one for one in answer.charts if one.name == "bandwidth") for name, answer in answers.items()}
    assert drawn["both"].dashed == {"what-if (predicted)", "predicted-sheet"}
    assert set(drawn["both"].rows["series"]) == {"drive", *drawn["both"].dashed}
    assert drawn["alone"].dashed == set(drawn["alone"].rows["series"])
    assert drawn["measured"].dashed == set()


def test_the_answer_says_what_is_predicted(answers: dict[str, Answer]) -> None:
    both, alone = answers["both"], answers["alone"]
    assert both.state == "VALID, 2 predicted"
    assert any("PREDICTED, not measured, with the profile" in line for line in both.subject)
    assert any("the profile acme-1 (data sheet: acme.example, 2026-11-01)" in line for line in both.subject)
    assert alone.state == "VALID PREDICTION"
    assert alone.subject[0] == "PREDICTED, not measured, with the profile drive (measured)"
    assert alone.sentence.startswith("By the profile this machine serves ")
    assert alone.sentence.count("Predictions for a disk were off by ") == 1
    assert "redicted" not in FORMATS["md"](answers["measured"])


def test_a_prediction_outside_its_profile_is_not_called_valid(tmp_path: Path) -> None:
    def go_outside(*, is_outside: bool) -> Crafted:
        run = mark(clean(), **SHEET)
        run.info["warnings"] = [{"kind": "outside the profile", "text": "there are 64 workers"}] if is_outside else []
        return run

    places = [go_outside(is_outside=n == 0).save(tmp_path / f"run-{n}") for n in range(2)]
    with latencies_known():
        both, alone = gather(places, Targets()), gather(places[:1], Targets())
    assert choose_state(both) == "PREDICTED OUTSIDE THE PROFILE: 1 of 2 runs"
    assert choose_state(alone) == "PREDICTED OUTSIDE THE PROFILE"
    assert [make_report(data).tone for data in (both, alone)] == ["plain", "plain"]
