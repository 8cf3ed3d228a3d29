"""The answer of a sweep: sentences worked by hand, and claims against an oracle."""

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.first_screen.form import Card, FirstScreen
from analysis.sweeps.answer import compose_answer, describe_growth, make_screen
from analysis.sweeps.charts import spread_labels
from analysis.sweeps.choices import ALIKE, compare_labels, find_best, find_least, find_plateau
from analysis.sweeps.sweep import Curve, Point, SweepTable, open_sweep
from tests.analysis.sweeps.sweeps import cell, write

RATES = st.integers(0, 900)


def sweep(tmp_path: Path, *cells: dict[str, Any]) -> SweepTable:
    return open_sweep(write(tmp_path / "sweep.parquet", cells))


def make_curve(
    *points: tuple[float, float], bound: float = 1.0, without: float | None = None, tier: str = "cpu"
) -> Curve:
    cells = tuple(Point(gib, rate, number) for number, (gib, rate) in enumerate(points))
    nothing = None if without is None else Point(0.0, without, len(cells))
    return Curve(tier, "tokens", "lru", "", cells, bound, nothing)


def find_card(screen: FirstScreen, label: str) -> Card:
    return next(card for card in screen.cards if card.label == label)


def test_growth_that_ends_before_the_largest_size() -> None:
    """From 4 GiB on nothing is gained; the knee, at 2 GiB, is 0.75 - 1/3 above the diagonal."""
    curve = make_curve((1, 0.2), (2, 0.65), (4, 0.8), (8, 0.8), bound=0.9)
    assert describe_growth(curve) == (
        "2 GiB of DRAM hits 65.0% of prompt tokens, 4 GiB 80.0%; larger sizes add nothing; unlimited memory would reach 90.0%."
    )


def test_growth_that_goes_on_names_its_steepest_step() -> None:
    curve = make_curve((1, 0.1), (2, 0.2), (4, 0.6), bound=0.9, without=0.05, tier="nvme")
    assert describe_growth(curve, "vllm") == (
        "With vllm, 4 GiB of drive hits 60.0% of prompt tokens, no drive 5.0%; the steepest step is from 2 to"
        " 4 GiB; it still rises at the largest size planned; unlimited memory would reach 90.0%."
    )


@pytest.mark.parametrize(
    ("last", "said"),
    [(0.8049, "larger sizes add only 0.5 points"), (0.8051, "8 GiB 80.5%"), (0.8004, "larger sizes add nothing")],
)
def test_half_a_point_is_a_gain(last: float, said: str) -> None:
    assert said in describe_growth(make_curve((1, 0.2), (2, 0.65), (4, 0.8), (8, last)))


def test_a_bound_that_is_reached_is_said_so() -> None:
    assert describe_growth(make_curve((1, 0.5), bound=0.5)) == (
        "1 GiB of DRAM hits 50.0% of prompt tokens; unlimited memory would hit no more."
    )
    assert describe_growth(make_curve((1, 0.5), (2, 1.0))) == (
        "1 GiB of DRAM hits 50.0% of prompt tokens, 2 GiB 100.0%; the steepest step is from 1 to 2 GiB; unlimited memory would hit no more."
    )
    assert "2 GiB 100.0%;" in describe_growth(make_curve((1, 0.5), (2, 0.9999)))


def test_the_answer_names_the_rules_that_hit_the_most_and_where(tmp_path: Path) -> None:
    """lru: 10 and 50%; s3fifo: 40 and 52%. On average s3fifo leads, by 30 points at 1 GiB."""
    cells = [
        cell(0, 1.0, 100),
        cell(1, 2.0, 500),
        cell(2, 1.0, 400, policy="s3fifo"),
        cell(3, 2.0, 520, policy="s3fifo"),
    ]
    made = sweep(tmp_path, *cells)
    assert compose_answer(made) == (
        "With s3fifo, 1 GiB of DRAM hits 40.0% of prompt tokens, 2 GiB 52.0%; the steepest step is from 1 to 2"
        " GiB; it still rises at the largest size planned; unlimited memory would reach 90.0%."
        " Of 2 policies, s3fifo hits the most on average, up to 30.0 points more than lru (at 1 GiB"
        " of DRAM)."
    )
    screen = make_screen(made)
    assert find_card(screen, "Best of 2 policies").value == "s3fifo"
    assert find_card(screen, "Most prompt tokens that hit").value == "52.0%"
    assert find_card(screen, "Least memory for 90% of that").value == "not reached"
    assert "Too little memory" in [doubt.headline for doubt in screen.doubts]


def test_rules_within_half_a_point_make_no_difference(tmp_path: Path) -> None:
    cells = [cell(0, 1.0, 100), cell(1, 2.0, 504), cell(2, 1.0, 104, policy="arc"), cell(3, 2.0, 500, policy="arc")]
    made = sweep(tmp_path, *cells)
    assert "The choice of policies hardly matters: both are within 0.5 points" in compose_answer(made)
    assert find_card(make_screen(made), "Best of 2 policies").value == "equal"


def test_no_reads_and_no_axes_have_answers(tmp_path: Path) -> None:
    nothing = {"hit_rate_tokens": None, "bound_tokens": None}
    assert compose_answer(sweep(tmp_path, cell(0, 1.0, 0, **nothing))) == "No cell has a prompt, so no memory helps."
    assert compose_answer(sweep(tmp_path, cell(0, 1.0, 300))) == (
        "1 GiB of DRAM hits 30.0% of prompt tokens; unlimited memory would reach 90.0%."
    )


def test_a_policy_that_knows_the_future_is_never_chosen(tmp_path: Path) -> None:
    made = sweep(tmp_path, cell(0, 1.0, 100), cell(1, 1.0, 900, policy="belady"))
    best = find_best(made)
    assert best is not None
    assert best["policy"] == "lru"
    assert compare_labels(made) is None
    assert "Belady is a bound" in [doubt.headline for doubt in make_screen(made).doubts]


def test_the_least_memory_counts_dram_before_the_drive(tmp_path: Path) -> None:
    """90% of the bound are 810 reads: 1 GiB with a drive reach them, and 4 GiB without."""
    drive = {"storage_capacity_gb": 10.0, "write_bytes_nvme": 5 << 30, "drive_writes_per_day": 3.5}
    drive["write_bytes_per_day_nvme"] = 35 << 30
    cells = [cell(0, 1.0, 809), cell(1, 4.0, 810), cell(2, 1.0, 850, **drive), cell(3, 4.0, 900, **drive)]
    screen = make_screen(sweep(tmp_path, *cells), "A title")
    assert screen.title == "A title"
    least = find_card(screen, "Least memory for 90% of that")
    assert (least.value, least.range) == ("1 + 10", "GiB of DRAM + drive")
    assert find_card(screen, "The same without a drive").value == "4"
    wear = find_card(screen, "Drive writes per day, there")
    assert (wear.value, wear.range) == ("3.5", "35 GiB a day")
    assert "No size between 0 and 10 GiB of drive was planned" in [doubt.headline for doubt in screen.doubts]


@given(st.lists(RATES, min_size=1, max_size=8))
def test_no_size_above_the_plateau_hits_more_and_each_below_it_misses_something(rates: list[int]) -> None:
    curve = make_curve(*((2.0**at, rate / 1000) for at, rate in enumerate(rates)))
    plateau = find_plateau(curve)
    for point in curve.points:
        best_above = max(later.rate for later in curve.points if later.gib >= point.gib)
        is_enough = best_above - point.rate < ALIKE
        assert is_enough if point.gib == plateau.gib else point.gib > plateau.gib or not is_enough


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 4.0]), st.sampled_from([0.0, 2.0, 8.0]), RATES), min_size=1, max_size=9
    )
)
def test_the_least_memory_is_that_of_an_oracle(cells: list[tuple[float, float, int]]) -> None:
    rows = [cell(at, cpu, hits, storage_capacity_gb=nvme) for at, (cpu, nvme, hits) in enumerate(cells)]
    with tempfile.TemporaryDirectory() as folder:
        made = sweep(Path(folder), *rows)
    fitting = [(cpu, nvme, -hits) for cpu, nvme, hits in cells if hits >= 810]
    found = find_least(made)
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert (found["cpu_mem_gb"], found["storage_capacity_gb"], -found["hits"]) == min(fitting)  # type: ignore[operator]


@given(st.lists(st.tuples(RATES, RATES, RATES), min_size=1, max_size=5))
def test_the_lead_of_the_best_rules_is_that_of_an_oracle(sizes: list[tuple[int, int, int]]) -> None:
    names = ("lru", "arc", "s3fifo")
    rows = [
        cell(3 * at + one, 2.0**at, hits[one], policy=names[one]) for at, hits in enumerate(sizes) for one in range(3)
    ]
    with tempfile.TemporaryDirectory() as folder:
        spread = compare_labels(sweep(Path(folder), *rows))
    assert spread is not None
    best = names.index(spread.best)
    assert sum(hits[best] for hits in sizes) == max(sum(hits[one] for hits in sizes) for one in range(3))
    assert spread.points == pytest.approx(max(hits[best] - min(hits) for hits in sizes) / 10)
    assert spread.widest == pytest.approx(max(max(hits) - min(hits) for hits in sizes) / 10)


@given(st.lists(st.floats(0, 300), max_size=8), st.floats(1, 30))
def test_labels_keep_their_order_and_a_gap(places: list[float], gap: float) -> None:
    moved = spread_labels(places, gap)
    order = sorted(range(len(places)), key=lambda at: (places[at], at))
    for lower, upper in itertools.pairwise(order):
        assert moved[upper] - moved[lower] >= gap - 1e-6
