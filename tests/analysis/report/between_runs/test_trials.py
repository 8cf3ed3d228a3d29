"""The spread of trials: distances from the mean of their system."""

import pytest

from analysis.report.between_runs.trials_chart import draw_trials, list_deviations, tabulate_spread
from analysis.report.svg import render_svg
from tests.analysis.report.between_runs.loads import gathered_of
from tests.support.summaries import FAILED, summary_of


def test_distances_worked_by_hand() -> None:
    """The mean of 90 and 110 is 100; their logs have the mean ln 99.499 and the deviation 0.1419.

    t(0.975; 1) is 12.706: exp(12.706 × 0.1419 ÷ √2) = 3.578, from 99.499 ÷ 3.578 = 27.81 to 99.499 × 3.578 = 356.03.
    """
    data = gathered_of(summary_of(wall_clock_tok_s=90.0), summary_of(wall_clock_tok_s=110.0), systems="aa")
    rows = list_deviations(data)
    assert rows["metric"].to_list() == ["wall_clock_tok_s"] * 2
    assert rows["value_share"].to_list() == pytest.approx([-0.1, 0.1])
    assert rows["low_share"].to_list() == pytest.approx([-0.7219] * 2, abs=1e-4)
    assert rows["high_share"].to_list() == pytest.approx([2.5603] * 2, abs=1e-4)
    assert rows["order"].to_list() == [0, 1]
    ((caption, table),) = tabulate_spread(data).items()
    assert "cv" in caption
    assert table.row(0, named=True) == {
        "metric": "wall_clock_tok_s", "system": "a", "trials": 2, "mean": 100.0,
        "low": pytest.approx(27.806, abs=1e-3), "high": pytest.approx(356.034, abs=1e-3), "cv": pytest.approx(0.02**0.5), "least": 90.0, "greatest": 110.0,
    }  # fmt: skip


def test_trials_that_are_not_valid_and_single_trials_have_no_mark() -> None:
    runs = [summary_of(wall_clock_tok_s=ms) for ms in (1.0, 2.0, 3.0)]
    invalid = summary_of(wall_clock_tok_s=900.0, doubts=[FAILED])
    data = gathered_of(*runs, invalid, summary_of(wall_clock_tok_s=5.0), systems="aaaab")
    assert set(list_deviations(data)["run"]) == {"run-0", "run-1", "run-2"}


@pytest.mark.parametrize("systems", ["ab", "a"])
def test_runs_without_trials_have_no_figure(systems: str) -> None:
    data = gathered_of(*(summary_of() for _ in systems), systems=systems)
    assert draw_trials(data, 1120) is None
    assert tabulate_spread(data) == {}


@pytest.mark.parametrize("systems", ["aaa", "aabb"])
def test_each_trial_is_a_mark_with_a_tooltip(systems: str) -> None:
    runs = [summary_of(wall_clock_tok_s=100.0 + 2 * i, ttfb_p95_ms=5.0) for i in range(len(systems))]
    plot = draw_trials(gathered_of(*runs, systems=systems), 1120)
    assert plot is not None
    picture = render_svg(plot.chart, plot.rows, "x-", "trials")
    for i in range(len(systems)):
        assert f"<title>run-{i}: {100 + 2 * i}, " in picture
    mean = 102 if len(set(systems)) == 1 else 101
    assert f">{mean} ±" in picture
