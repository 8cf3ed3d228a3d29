"""Intervals of means and ratios: against tables, and how often they are wrong in simulations."""

import math
import random
import statistics as exact
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison.intervals import (
    Statistics,
    adjust_by_holm,
    compute_statistics,
    estimate_ratio,
    find_t,
)

POSITIVE = st.floats(0.01, 1e6)


def samples(least: int, most: int) -> st.SearchStrategy[list[float]]:
    return st.lists(POSITIVE, min_size=least, max_size=most)


TABLE = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 10: 2.2281, 30: 2.0423, 120: 1.9799}
"""Student's t at 0.975, from a printed table."""


@pytest.mark.parametrize("freedom", TABLE)
def test_quantiles_of_students_t_are_those_of_the_table(freedom: int) -> None:
    assert find_t(freedom) == pytest.approx(TABLE[freedom], abs=1e-4)


@given(samples(2, 8))
def test_statistics_agree_with_the_standard_library(values: list[float]) -> None:
    found = compute_statistics(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(exact.fmean(values))
    assert found.median == exact.median(values)
    assert found.sd == pytest.approx(exact.stdev(values), abs=1e-9)
    assert found.cv == pytest.approx(exact.stdev(values) / exact.fmean(values), abs=1e-9)


def test_missing_values_do_not_count() -> None:
    assert compute_statistics([None, 3.0, math.nan, 5.0, math.inf]) == compute_statistics([3.0, 5.0])
    assert compute_statistics([None, 7]) == Statistics(1, 7.0, median=7.0)
    assert compute_statistics([None]) == Statistics(0)
    assert compute_statistics([0.0, 0.0]).cv is None


def test_the_interval_of_a_mean_worked_by_hand() -> None:
    """Of 10, 20 and 40 the logs are ln 20 − ln 2, ln 20, ln 20 + ln 2: half is 4.3027 × ln 2 / √3. With 0 it is linear."""
    found = compute_statistics([10.0, 20.0, 40.0])
    half = 4.30265 * math.log(2) / math.sqrt(3)
    assert (found.low, found.high) == pytest.approx((20 * math.exp(-half), 20 * math.exp(half)), rel=1e-4)
    linear = compute_statistics([0.0, 1.0, 2.0])
    assert (linear.low, linear.high) == pytest.approx(
        (1 - 4.30265 / math.sqrt(3), 1 + 4.30265 / math.sqrt(3)), rel=1e-4
    )


def test_strata_are_averaged_and_their_differences_are_no_noise() -> None:
    """Two configurations 10 times apart, each system with two trials: the ratio is 2, and only spread within counts."""
    strata = [([2.0, 2.2], [1.0, 1.1]), ([20.0, 22.0], [10.0, 11.0])]
    found = estimate_ratio(strata)
    assert math.exp(found.log) == pytest.approx(2.0)
    each = math.log(1.1) ** 2 / 2 / 2  # variance of two logs, over two trials
    assert found.error == pytest.approx(math.sqrt(4 * each) / 2)
    assert found.freedom == pytest.approx(4.0), "four variances of equal size with one degree of freedom each"


def test_the_error_of_a_cut_adds_in_quadrature() -> None:
    found = estimate_ratio([([2.0, 2.0], [1.0, 1.0])], systematic=math.log(1.02))
    assert found.find_ends() == pytest.approx((2 / 1.02, 2 * 1.02))
    assert estimate_ratio([([1.01, 1.01], [1.0, 1.0])], systematic=math.log(1.02)).chance == 1.0
    assert estimate_ratio([([1.03, 1.03], [1.0, 1.0])], systematic=math.log(1.02)).chance == 0.0


@given(samples(2, 6), samples(2, 6))
def test_the_chance_is_below_the_level_where_the_interval_excludes_1(one: list[float], other: list[float]) -> None:
    found = estimate_ratio([(one, other)])
    low, high = found.find_ends() or (0.0, 0.0)
    swapped = estimate_ratio([(other, one)]).find_ends() or (0.0, 0.0)
    assert swapped == pytest.approx((1 / high, 1 / low), rel=1e-6)
    if abs(math.log(low)) > 1e-3 and abs(math.log(high)) > 1e-3:
        assert (found.chance < 0.05) == (not low <= 1 <= high)


def test_holms_correction_worked_by_hand() -> None:
    """0.01 × 4 = 0.04, 0.013 × 3 = 0.039 is raised to 0.04, 0.03 × 2 = 0.06, 0.9."""
    assert adjust_by_holm([0.03, 0.01, 0.9, 0.013]) == pytest.approx([0.06, 0.04, 0.9, 0.04])
    assert adjust_by_holm([]) == []


Noise = Callable[[random.Random], float]
NOISES: dict[str, Noise] = {
    "normal": lambda rng: math.exp(rng.gauss(0, 0.05)),
    "skewed": lambda rng: 1 + 0.05 * rng.expovariate(1),
    "outliers": lambda rng: math.exp(rng.gauss(0, 0.02)) * (0.7 if rng.random() < 0.05 else 1.0),
}
REPETITIONS = 200


def draw(rng: random.Random, noise: Noise, trials: int, configurations: int, ratio: float) -> bool:
    """Draw trials of two systems; return whether their interval excludes the true ratio."""
    strata = [
        ([ratio * noise(rng) for _ in range(trials)], [noise(rng) for _ in range(trials)])
        for _ in range(configurations)
    ]
    ends = estimate_ratio(strata).find_ends()
    assert ends is not None
    return not ends[0] <= ratio <= ends[1]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("configurations", [1, 2, 4])
@pytest.mark.parametrize("trials", [2, 3, 5, 10])
def test_intervals_exclude_the_truth_in_at_most_6_percent(trials: int, configurations: int, noise: str) -> None:
    """Three standard deviations of the count are allowed for, so that a rate of 6% passes and one of 10% does not."""
    rng = random.Random(f"{trials} {configurations} {noise}")
    false = sum(draw(rng, NOISES[noise], trials, configurations, 1.0) for _ in range(REPETITIONS))
    assert false <= 0.06 * REPETITIONS + 3 * math.sqrt(REPETITIONS * 0.06 * 0.94)


def test_the_true_ratio_of_unequal_systems_is_in_93_percent_of_the_intervals() -> None:
    rng = random.Random(28)
    missed = sum(
        draw(rng, noise, rng.choice((2, 3, 5)), rng.choice((1, 2, 4)), rng.choice((1.1, 2.0, 4.7)))
        for _ in range(500)
        for noise in [rng.choice([*NOISES.values()])]
    )
    assert missed / 500 <= 0.07
