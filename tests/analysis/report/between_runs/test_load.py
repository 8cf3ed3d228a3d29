"""Latency against load: which runs are points of a curve, the knee in words, and the marks of the chart."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.log.log import Targets
from analysis.report.between_runs.load import LoadPoint, find_load, name_curves
from analysis.report.between_runs.load_chart import RATE, draw_load, list_rows, tabulate_load
from analysis.report.between_runs.load_words import count_kept, describe_load_curve
from analysis.summary.run_summary import MachineName
from tests.analysis.report.between_runs.loads import LATE, gathered_of, loaded, on
from tests.support.predicted_runs import predict
from tests.support.summaries import FAILED

TIME = "The P95 of the storage part of TTFT"


def test_a_knee_worked_by_hand() -> None:
    """Loads 1, 2 and 4 take 20, 40 and 155 ms; 155 ÷ 50 = 3.1."""
    data = gathered_of(loaded(4, 155.0), loaded(1, 20.0), loaded(2, 40.0))
    assert describe_load_curve(data) == (
        f"{TIME} stays within its target of 50 ms up to speed-up 2 (2 requests/s);"
        " at speed-up 4 it is 155 ms, 3.1 × the target."
    )


def test_the_interval_of_the_trials_is_named() -> None:
    """Logs of 58, 60 and 62 have the mean ln 59.98 and the deviation 0.03335; t(0.975; 2) is 4.303.

    exp(0.03335 × 4.303 ÷ √3) = 1.0864: from 59.98 ÷ 1.0864 = 55.2 to 59.98 × 1.0864 = 65.2.
    """
    data = gathered_of(*(loaded(1, 10.0) for _ in "abc"), *(loaded(3, ms) for ms in (58.0, 60.0, 62.0)))
    text = describe_load_curve(data)
    assert text is not None
    assert "at speed-up 3 it is 60 ms (95% interval 55.2 to 65.2), 1.2 × the target." in text


def test_an_interval_that_holds_the_target_is_no_verdict() -> None:
    data = gathered_of(*(loaded(1, 10.0) for _ in "abc"), *(loaded(2, ms) for ms in (40.0, 56.0, 72.0)))
    text = describe_load_curve(data)
    assert text is not None
    assert "at speed-up 2 it is not clear: 56 ms (95% interval 26.2 to 113)." in text
    assert "× the target" not in text


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ((10.0, 50.0), "stays within its target of 50 ms up to speed-up 2 (2 requests/s), the highest load"),
        ((50.1, 90.0), "misses its target of 50 ms already at speed-up 1, the lowest load: 50.1 ms, 1 ×"),
        ((60.0, 10.0), "misses its target of 50 ms already at speed-up 1"),
    ],
)
def test_curves_without_a_knee(times: tuple[float, float], text: str) -> None:
    assert text in str(describe_load_curve(gathered_of(loaded(1, times[0]), loaded(2, times[1]))))


def test_the_class_that_misses_first_is_the_answer() -> None:
    def both(load: float, interactive: float, batch: float) -> object:
        return loaded(load, interactive, batch_ttfb_p95_ms=batch)

    data = gathered_of(both(1, 10.0, 900.0), both(2, 20.0, 1100.0), both(4, 60.0, 2000.0))  # type: ignore[arg-type]
    assert str(describe_load_curve(data)).startswith(
        f"{TIME} of batch requests stays within its target of 1,000 ms up to speed-up 1"
    )


def test_targets_that_grow_with_the_bytes_judge_nothing() -> None:
    data = gathered_of(loaded(1, 10.0), loaded(2, 500.0), targets=Targets(qos_ms_per_gib=5.0))
    assert describe_load_curve(data) == (
        "The P95 of the storage part of TTFT grows from 10 ms at speed-up 1 to 500 ms at speed-up 2."
    )


@pytest.mark.parametrize(
    ("late", "text"),
    [
        ((), None),
        ((4, 8), "From speed-up 4 on the system fell behind its schedule: it served at most 8 requests/s"),
        ((8,), "At speed-up 8 the system"),
        ((2, 8), "At speed-up 2 and speed-up 8 the system"),
        ((1, 2, 4, 8), "At every load the system"),
    ],
)
def test_loads_at_which_the_system_fell_behind(late: tuple[int, ...], text: str | None) -> None:
    runs = [loaded(load, 10.0, doubts=[LATE] if load in late else []) for load in (1, 2, 4, 8)]
    found = str(describe_load_curve(gathered_of(*runs)))
    assert "fell behind" not in found if text is None else text in found


def test_users_are_a_load_too() -> None:
    data = gathered_of(loaded(1, 20.0, users=8), loaded(1, 155.0, users=16))
    assert "up to 8 users (1 requests/s); at 16 users it is 155 ms" in str(describe_load_curve(data))


def test_runs_that_are_not_valid_are_no_points() -> None:
    data = gathered_of(loaded(1, 10.0), loaded(2, 20.0), loaded(4, 30.0, doubts=[FAILED]))
    found = find_load(data)
    assert found is not None
    assert [point.load for point in found.curves[0].points] == [1, 2]
    assert found.left_out == ["run-2"]


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
    data = gathered_of(*runs)  # type: ignore[arg-type]
    assert find_load(data) is None
    assert describe_load_curve(data) is None
    assert draw_load(data, 1120) is None
    assert tabulate_load(data) == {}


def test_curves_are_named_by_what_differs() -> None:
    runs = [loaded(load, 10.0) for load in (1, 2)]
    drives = [on(run, f"/dev/{name}", f"Acme {name}") for name in "ab" for run in runs]
    found = find_load(gathered_of(*drives))
    assert found is not None
    assert [curve.name for curve in found.curves] == ["Acme a", "Acme b"]
    sizes = [
        loaded(load, 10.0, conditions={"usable_bytes": {"gpu": 0, "cpu": gib << 30, "nvme": None}})
        for gib in (0, 4)
        for load in (1, 2)
    ]
    found = find_load(gathered_of(*sizes))
    assert found is not None
    assert [curve.name for curve in found.curves] == ["0 GiB cpu", "4 GiB cpu"]
    found = find_load(gathered_of(*sizes, systems=["small", "small", "large", "large"]))
    assert found is not None
    assert [curve.name for curve in found.curves] == ["small", "large"]


def test_several_curves_share_a_sentence() -> None:
    """The target of 50 ms is kept up to 2 with 4 workers, and at no load with 8, which fell behind."""
    times = {4: (20.0, 40.0, 90.0), 8: (60.0, 70.0, 80.0)}
    runs = [
        loaded(load, ms, conditions={"workers": n}, doubts=[LATE] if (n, load) == (8, 4) else [])
        for n, each in times.items()
        for load, ms in zip((1, 2, 4), each, strict=True)
    ]
    assert describe_load_curve(gathered_of(*runs)) == (
        f"{TIME} stays within its target (requests: 50 ms) up to speed-up 2 (2 requests/s) with workers 4;"
        " at no load with workers 8, saturated at 4 requests/s."
    )


def test_the_value_of_a_prediction_decides() -> None:
    data = gathered_of(loaded(1, 20.0, prediction=predict()), loaded(2, 60.0, prediction=predict()))
    assert "at speed-up 2 it is 60 ms (predicted), 1.2 × the target" in str(describe_load_curve(data))
    found = find_load(data)
    assert found is not None
    marks = [row for row in list_rows(found, data) if row["series"] == "P95"]
    assert [(row["low"], row["high"]) for row in marks] == [(None, None), (None, None)]
    assert str(marks[1]["note"]) == "P95, speed-up 2: 60 ms, predicted"


def test_curves_have_the_names_of_the_sides() -> None:
    """A curve of each side has its name; a run of another side among them leaves the conditions."""
    runs = [loaded(load, 10.0, run=f"{n}-{load}", conditions={"workers": n}) for n in (4, 8) for load in (1, 2)]
    curves = [[subject] for subject in gathered_of(*runs).runs]
    pairs = [curves[0] + curves[1], curves[2] + curves[3]]
    sides = {"4-1": "old", "4-2": "old", "8-1": "new", "8-2": "new"}
    assert name_curves(pairs, "speedup", sides) == ["old", "new"]
    assert name_curves(pairs, "speedup", sides | {"8-2": "old"}) == ["workers 4", "workers 8"]
    assert name_curves(pairs, "speedup", {}) == ["workers 4", "workers 8"]


def test_profiles_are_named_without_their_fingerprints() -> None:
    machines = [MachineName(None, None, None, None, f"profile {name} 0123abcd") for name in ("fast", "slow")]
    runs = [loaded(load, 10.0, machine=one, prediction=predict()) for one in machines for load in (1, 2)]
    found = find_load(gathered_of(*runs))
    assert found is not None
    assert [curve.name for curve in found.curves] == ["fast (predicted)", "slow (predicted)"]


def test_a_predicted_curve_is_marked() -> None:
    runs = [loaded(load, 10.0, prediction=made) for made in (None, predict()) for load in (1, 2)]
    found = find_load(gathered_of(*runs))
    assert found is not None
    assert [curve.predicted for curve in found.curves] == [False, True]
    assert found.curves[1].name.endswith("(predicted)")


TIMES = st.lists(st.integers(1, 200), min_size=2, max_size=6)


@given(TIMES, st.integers(1, 200))
def test_the_knee_agrees_with_a_plain_count(times: list[int], target: int) -> None:
    """With single trials: the longest run of loads from the lowest up, none above the target."""
    found = find_load(gathered_of(*(loaded(2**i, float(ms)) for i, ms in enumerate(times))))
    assert found is not None
    expected = 0
    while expected < len(times) and times[expected] <= target:
        expected += 1
    assert count_kept(found.curves[0], "ttfb_p95_ms", target) == expected


@given(st.lists(st.integers(1, 100), min_size=2, max_size=4), st.integers(1, 100))
def test_a_verdict_never_contradicts_the_trials(times: list[int], target: int) -> None:
    point = LoadPoint(1.0, [loaded(1, float(ms)) for ms in times])
    standing = point.judge("ttfb_p95_ms", target)
    logs = [math.log(ms / target) for ms in times]
    mean = statistics.fmean(logs)
    half = {2: 12.7062, 3: 4.3027, 4: 3.1824}[len(times)] * statistics.stdev(logs) / math.sqrt(len(times))
    if abs(abs(mean) - half) > 1e-3:  # not at the very end of the interval
        assert standing == ("unclear" if abs(mean) < half else "kept" if mean < 0 else "missed")
    assert standing != "kept" or min(times) <= target
    assert standing != "missed" or max(times) > target


def test_the_marks_are_the_means_with_their_intervals_and_the_target() -> None:
    """Logs of 39, 40 and 41 have the mean ln 39.99 and the deviation 0.02501; t(0.975; 2) is 4.303."""
    trials = [loaded(1, 10.0), *(loaded(2, ms, doubts=[LATE]) for ms in (39.0, 40.0, 41.0))]
    data = gathered_of(*trials)
    found = find_load(data)
    assert found is not None
    rows = {(row["panel"], row["series"], row["x"]): row for row in list_rows(found, data)}
    assert len(rows) == 8
    row = rows["storage part of TTFT, all requests", "P95", 2]
    assert (row["y"], row["target"], row["late"]) == (40.0, 50.0, True)
    assert (row["low"], row["high"]) == pytest.approx((37.58, 42.55), abs=0.01)
    assert row["note"] == ("P95, speed-up 2: 40 ms, 95% interval 37.58 to 42.55, 3 trials, fell behind its schedule")
    assert row["of"] == "target"
    first = rows["storage part of TTFT, all requests", "P99", 1]
    assert (first["y"], first["low"], first["late"]) == (20.0, None, False)
    assert rows[RATE, RATE, 2]["y"] == 2.0
    (table,) = tabulate_load(data).values()
    assert table.columns[:3] == ["speedup", "trials", "requests_per_s"]
    assert table["P95"].to_list() == [10.0, 40.0]
    assert table["fell behind"].to_list() == ["no", "yes"]
