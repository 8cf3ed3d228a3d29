"""Latency against load: which runs are points of a curve, the knee in words, the figures and the marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.log.targets import Targets
from analysis.report.load import (
    LoadCurves,
    describe_curves,
    draw_load,
    find_load,
    is_one_curve,
    list_load_figures,
    make_load_title,
)
from analysis.report.systems import Gathered
from analysis.summary.run_summary import MachineName
from tests.analysis.report.loads import LATE, gathered_of, loaded, on
from tests.support.predicted_runs import predict
from tests.support.summaries import FAILED

TIME = "The P95 of the storage part of TTFT"


def find(data: Gathered) -> LoadCurves:
    found = find_load(data)
    assert found is not None
    return found


def describe(data: Gathered) -> str:
    return describe_curves(find(data))


def name(data: Gathered) -> list[str]:
    return [curve.name for curve in find(data).curves]


def test_a_knee_worked_by_hand() -> None:
    """Loads 1, 2 and 4 take 20, 40 and 155 ms; the target of 50 ms is kept up to 2."""
    found = find(gathered_of(loaded(4, 155.0), loaded(1, 20.0), loaded(2, 40.0)))
    assert describe_curves(found) == (
        f"{TIME} of requests is within 50 ms up to speed-up 2 (2 requests/s); 155 ms at speed-up 4."
    )
    assert make_load_title(found) == "Latency against load: speed-up 1 to 4"
    assert [(figure.value, figure.unit) for figure in list_load_figures(found)] == [
        (2, "× speed-up"),
        (4, "requests/s"),
    ]


def test_the_class_that_misses_first_is_the_answer() -> None:
    times = ((1, 10.0, 900.0), (2, 20.0, 1100.0), (4, 60.0, 2000.0))
    data = gathered_of(*(loaded(load, ms, batch_ttfb_p95_ms=batch) for load, ms, batch in times))
    assert describe(data).startswith(f"{TIME} of batch requests is within 1,000 ms up to speed-up 1 ")
    assert {rule.y for rule in draw_load(find(data)).rules} == {50.0, 1000.0}


def test_classes_without_a_percentile_have_no_knee() -> None:
    found = find(gathered_of(*(loaded(load, 10.0, interactive_ttfb_p95_ms=None) for load in (1, 2))))
    assert describe_curves(found) == "No class of requests has a P95 of the storage part of TTFT at any load."
    assert list_load_figures(found)[0].value is None


@pytest.mark.parametrize("late", [(), (4, 8), (1, 2, 4, 8)])
def test_loads_at_which_the_system_fell_behind_are_listed(late: tuple[int, ...]) -> None:
    runs = [loaded(load, 10.0, doubts=[LATE] if load in late else []) for load in (1, 2, 4, 8)]
    listed = f"at speed-up {', '.join(map(str, late))}, and served at most 8 requests/s"
    assert (listed in describe(gathered_of(*runs))) == bool(late)


def test_users_are_a_load_too() -> None:
    found = find(gathered_of(loaded(1, 20.0, users=8), loaded(1, 155.0, users=16)))
    assert "up to 8 users (1 requests/s); 155 ms at 16 users" in describe_curves(found)
    assert make_load_title(found) == "Latency against load: 8 users to 16"
    assert (list_load_figures(found)[0].value, list_load_figures(found)[0].unit) == (8, "users")


def test_runs_that_are_not_valid_are_no_points() -> None:
    found = find(gathered_of(loaded(1, 10.0), loaded(2, 20.0), loaded(4, 30.0, doubts=[FAILED])))
    assert [point.load for point in found.curves[0].points] == [1, 2]
    assert found.runs == 3


@pytest.mark.parametrize(
    "runs",
    [
        [loaded(1, 10.0), loaded(1, 11.0)],
        [loaded(1, 10.0), loaded(2, 11.0, conditions={"workers": 4})],
        [loaded(1, None), loaded(2, None)],
        [loaded(1, 10.0), loaded(2, 11.0, doubts=[FAILED])],
        [loaded(1, 10.0), on(loaded(2, 11.0), "/dev/b")],
        [loaded(1, 10.0, conditions={"pace": "closed"}), loaded(2, 11.0, conditions={"pace": "closed"})],
    ],
    ids=["one load", "other workers", "no times", "one valid load", "other drive", "no pace"],
)
def test_other_runs_have_no_curve(runs: list[object]) -> None:
    assert find_load(gathered_of(*runs)) is None  # type: ignore[arg-type]


def test_curves_are_named_by_what_differs() -> None:
    runs = [loaded(load, 10.0) for load in (1, 2)]
    drives = [on(run, f"/dev/{name}", f"Acme {name}") for name in "ab" for run in runs]
    assert name(gathered_of(*drives)) == ["Acme a", "Acme b"]
    sizes = [
        loaded(load, 10.0, conditions={"usable_bytes": {"gpu": 0, "cpu": gib << 30, "nvme": None}})
        for gib in (0, 4)
        for load in (1, 2)
    ]
    assert name(gathered_of(*sizes)) == ["cpu 0 GiB", "cpu 4 GiB"]
    machines = [MachineName(None, None, None, None, f"profile {name} 0123abcd") for name in ("fast", "slow")]
    predicted = [loaded(load, 10.0, machine=one, prediction=predict()) for one in machines for load in (1, 2)]
    assert len({*name(gathered_of(*predicted))}) == 2


def test_several_curves_share_a_sentence_and_have_a_figure_each() -> None:
    """The target of 50 ms is kept up to 2 with 4 workers, and at no load with 8."""
    times = {4: (20.0, 40.0, 90.0), 8: (60.0, 70.0, 80.0)}
    runs = [
        loaded(load, ms, conditions={"workers": n})
        for n, each in times.items()
        for load, ms in zip((1, 2, 4), each, strict=True)
    ]
    found = find(gathered_of(*runs))
    assert describe_curves(found) == (
        f"{TIME} of requests is within 50 ms up to speed-up 2 (2 requests/s) (workers 4), at no load (workers 8)."
    )
    figures = [(figure.label, figure.value, figure.text) for figure in list_load_figures(found)]
    assert figures == [("workers 4", 2, ""), ("workers 8", None, "none")]
    assert not is_one_curve(found, gathered_of(*runs))


def test_a_predicted_curve_is_dashed_and_says_so() -> None:
    runs = [loaded(load, 10.0, prediction=made) for made in (None, predict()) for load in (1, 2)]
    found = find(gathered_of(*runs))
    assert [curve.is_predicted for curve in found.curves] == [False, True]
    assert found.curves[1].name.endswith("(predicted)")
    assert draw_load(found).dashed == {found.curves[1].name}
    alone = find(gathered_of(*runs[2:]))
    assert draw_load(alone).dashed >= {"P50", "P95", "P99"}


TIMES = st.lists(st.integers(1, 200), min_size=2, max_size=6)


@given(TIMES, st.integers(1, 200))
def test_the_knee_agrees_with_a_plain_count(times: list[int], target: int) -> None:
    """With single trials: the longest run of loads from the lowest up, none above the target."""
    targets = Targets(qos_ms=dict.fromkeys(("interactive", "responsive", "batch"), float(target)))
    data = gathered_of(*(loaded(2**i, float(ms)) for i, ms in enumerate(times)), targets=targets)
    limit = find(data).find_limit(find(data).curves[0])
    expected = 0
    while expected < len(times) and times[expected] <= target:
        expected += 1
    assert limit is not None
    assert limit.kept == expected


def test_the_marks_are_the_means_with_their_intervals_and_the_target() -> None:
    """Logs of 39, 40 and 41 have the mean ln 39.99 and the deviation 0.02501; t(0.975; 2) is 4.303."""
    trials = [loaded(1, 10.0), *(loaded(2, ms, doubts=[LATE]) for ms in (39.0, 40.0, 41.0))]
    found = find(gathered_of(*trials))
    chart = draw_load(found)
    rows = {
        (series, x): row for series, x, *row in chart.rows.select("series", "x", "y", "low", "high", "hollow").rows()
    }
    assert len(rows) == 6
    mean, low, high, is_hollow = rows["P95", 2]
    assert (mean, low, high) == pytest.approx((40.0, 37.58, 42.55), abs=0.01)
    assert is_hollow
    assert rows["P99", 1] == [20.0, None, None, False]
    assert [(rule.y, rule.panel) for rule in chart.rules] == [(50.0, "")]


def test_loads_of_one_configuration_are_not_compared_as_systems() -> None:
    """The curve compares them; another run beside them is a system to compare with."""
    alone = gathered_of(loaded(1, 10.0), loaded(2, 20.0))
    assert is_one_curve(find_load(alone), alone)
    beside = gathered_of(loaded(1, 10.0), loaded(2, 20.0), loaded(2, 20.0, conditions={"workers": 4}))
    assert not is_one_curve(find(beside), beside)
