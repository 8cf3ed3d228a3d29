"""Predicted runs in reports: names, dashes, the errors beside measured runs, and what is said of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.comparison.predictions import tabulate_errors
from analysis.log.targets import Targets
from analysis.report.answer import choose_state, describe_predicted, find_predicted, make_report
from analysis.report.systems import Gathered, gather
from analysis.runs.run import Doubt
from analysis.summary.run_summary import Summary
from tests.analysis.report.loads import gathered_of
from tests.support.crafted_runs import Crafted, clean
from tests.support.latencies import latencies_known
from tests.support.predicted_runs import SHEET, mark, measured, predict
from tests.support.summaries import FAILED, summary_of
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
    assert both.state == "4 VALID RUNS, 2 predicted"
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


CACHED = Doubt("page cache", "a cache served the reads", "use direct I/O", invalidates=True)


def foretold(tok_s: float, **changes: object) -> Summary:
    return summary_of(wall_clock_tok_s=tok_s, prediction=predict(), **changes)  # type: ignore[arg-type]


def test_an_error_worked_by_hand() -> None:
    """The median of 80, 100 and 110 is 100; 125 ÷ 100 − 1 = 25%."""
    trials = [summary_of(wall_clock_tok_s=value) for value in (80.0, 100.0, 110.0)]
    data = gathered_of(*trials, foretold(125.0), systems=["m", "m", "m", "p"])
    pairs = find_predicted(data)
    assert (
        describe_predicted(pairs)
        == "The prediction p is off by +25.0% in tokens/s; no metric of 1 is off by more than 25.0%."
    )
    table = tabulate_errors(pairs, ["wall_clock_tok_s"])
    assert [*table.rows[0]][2:] == ["wall_clock_tok_s", "100", "80 to 110", "125", 0.25]


OTHER_PLAN = replace(summary_of(), provenance=replace(summary_of().provenance, plan_fingerprint="q"))


@pytest.mark.parametrize(
    "other",
    [
        summary_of(trace="other"),
        summary_of(conditions={"workers": 9}),
        summary_of(doubts=[FAILED]),
        OTHER_PLAN,
        foretold(90.0),
    ],
    ids=["trace", "conditions", "not valid", "plan", "predicted"],
)
def test_runs_of_other_work_make_no_pair(other: Summary) -> None:
    data = gathered_of(other, foretold(90.0))
    assert find_predicted(data) == []
    assert describe_predicted([]) == ""


@pytest.mark.parametrize(
    "other",
    [
        summary_of(conditions={"io_bytes": 4096, "direct": False}),
        summary_of(doubts=[CACHED]),
        replace(OTHER_PLAN, provenance=replace(OTHER_PLAN.provenance, is_cut=True)),
    ],
    ids=["conditions of tiers", "page cache", "cut"],
)
def test_what_the_profile_knows_does_not_part_a_pair(other: Summary) -> None:
    assert len(find_predicted(gathered_of(other, foretold(90.0)))) == 1
