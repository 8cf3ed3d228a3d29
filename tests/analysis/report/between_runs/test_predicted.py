"""Measured beside predicted: which runs make a pair, and the errors."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.between_runs.predicted import describe_predicted, find_predicted
from analysis.report.between_runs.predicted_chart import draw_predicted, list_errors, tabulate_errors
from analysis.report.svg import render_svg
from analysis.runs.run import Doubt
from analysis.summary.run_summary import Summary
from tests.analysis.report.between_runs.loads import gathered_of
from tests.support.predicted_runs import predict
from tests.support.summaries import FAILED, summary_of

CACHED = Doubt("page cache", "a cache served the reads", "use direct I/O", invalidates=True)


def foretold(tok_s: float, **changes: object) -> Summary:
    return summary_of(wall_clock_tok_s=tok_s, prediction=predict(), **changes)  # type: ignore[arg-type]


def test_an_error_worked_by_hand() -> None:
    """The median of 80, 100 and 110 is 100; 125 ÷ 100 − 1 = 25%."""
    measured = [summary_of(wall_clock_tok_s=value) for value in (80.0, 100.0, 110.0)]
    data = gathered_of(*measured, foretold(125.0), systems=["m", "m", "m", "p"])
    rows = list_errors(data).to_dicts()
    assert [row["side"] for row in rows] == ["measured", "predicted"]
    assert [row["low_share"] for row in rows] == [pytest.approx(-0.2), None]
    assert [row["value_share"] for row in rows] == pytest.approx([0.0, 0.25])
    assert [row["high_share"] for row in rows] == [pytest.approx(0.1), None]
    assert rows[1]["error"] == 0.25
    assert describe_predicted(data) == (
        "The prediction is off by +25.0% in tokens/s; no metric of 1 is off by more than 25.0%."
    )
    (table,) = tabulate_errors(data).values()
    assert table.row(0) == ("p", "wall_clock_tok_s", 100.0, 80.0, 110.0, 125.0, 0.25, False)
    plot = draw_predicted(data, 1120)
    assert plot is not None
    picture = render_svg(plot.chart, plot.rows, "x-", "label")
    assert ">125 predicted, +25.0%<" in picture
    assert "<title>throughput by the wall clock, tok/s, measured: 100 [80 to 110]</title>" in picture


def test_a_negative_error_has_a_minus_sign() -> None:
    data = gathered_of(summary_of(wall_clock_tok_s=100.0), foretold(90.0))
    assert describe_predicted(data) == (
        "The prediction is off by −10.0% in tokens/s; no metric of 1 is off by more than 10.0%."
    )
    both = str(describe_predicted(gathered_of(summary_of(wall_clock_tok_s=100.0), foretold(90.0), foretold(99.0))))
    assert both.startswith("s1 is off by −10.0% in tokens/s;")
    assert "s2 is off by −1.0% in tokens/s;" in both


OTHER_PLAN = replace(summary_of(), provenance=replace(summary_of().provenance, plan_fingerprint="q"))


@pytest.mark.parametrize(
    "measured",
    [
        summary_of(trace="other"),
        summary_of(conditions={"workers": 9}),
        summary_of(doubts=[FAILED]),
        OTHER_PLAN,
        foretold(90.0),
    ],
    ids=["trace", "conditions", "not valid", "plan", "predicted"],
)
def test_runs_of_other_work_make_no_pair(measured: Summary) -> None:
    data = gathered_of(measured, foretold(90.0))
    assert find_predicted(data) == []
    assert describe_predicted(data) is None
    assert draw_predicted(data, 1120) is None
    assert tabulate_errors(data) == {}


@pytest.mark.parametrize(
    "measured",
    [
        summary_of(conditions={"io_bytes": 4096, "direct": False}),
        summary_of(doubts=[CACHED]),
        replace(OTHER_PLAN, provenance=replace(OTHER_PLAN.provenance, is_cut=True)),
    ],
    ids=["conditions of tiers", "page cache", "cut"],
)
def test_what_the_profile_knows_does_not_part_a_pair(measured: Summary) -> None:
    assert len(find_predicted(gathered_of(measured, foretold(90.0)))) == 1


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.integers(1, 1000))
def test_errors_agree_with_a_plain_median(values: list[int], predicted: int) -> None:
    data = gathered_of(*(summary_of(wall_clock_tok_s=float(value)) for value in values), foretold(float(predicted)))
    (system,) = find_predicted(data)
    ordered = sorted(values)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    assert system.errors["wall_clock_tok_s"].error == pytest.approx(predicted / middle - 1)
