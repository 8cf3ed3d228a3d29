"""Means, resampled intervals and win rates against brute force."""

import itertools
import math
import random
import statistics as exact

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.comparison import ratios, trials
from analysis.comparison.trials import interval, ratio_interval, statistics
from tests.analysis.comparison.crafting import resampled_means

POSITIVE = st.floats(0.01, 1e6)


def some(least: int, most: int) -> st.SearchStrategy[list[float]]:
    return st.lists(POSITIVE, min_size=least, max_size=most)


@given(some(2, 8))
def test_statistics_are_those_of_the_standard_library(values: list[float]) -> None:
    found = statistics(values)
    assert found.n == len(values)
    assert found.mean == pytest.approx(exact.fmean(values))
    assert found.median == exact.median(values)
    assert found.sd == pytest.approx(exact.stdev(values), abs=1e-9)
    assert found.cv == pytest.approx(exact.stdev(values) / exact.fmean(values), abs=1e-9)


def test_values_that_are_missing_do_not_count() -> None:
    assert statistics([None, 3.0, math.nan, 5.0, math.inf]) == statistics([3.0, 5.0])
    assert statistics([None, 7]) == trials.Statistics(1, 7.0, median=7.0)
    assert statistics([None]) == trials.Statistics(0)
    assert statistics([0.0, 0.0]).cv is None


@given(some(2, 5))
def test_the_interval_of_few_values_is_that_of_all_resamples(values: list[float]) -> None:
    expected = np.quantile(resampled_means(values), [0.025, 0.975])
    assert interval(values) == pytest.approx(tuple(expected), rel=1e-9)


@given(some(2, 3), some(2, 4))
def test_the_interval_of_a_ratio_is_that_of_all_pairs_of_resamples(one: list[float], other: list[float]) -> None:
    logs = [math.log(a / b) for a, b in itertools.product(resampled_means(one), resampled_means(other))]
    expected = np.exp(np.quantile(logs, [0.025, 0.975]))
    assert ratio_interval(one, other) == pytest.approx(tuple(expected), rel=1e-9)


def test_the_interval_of_many_values_is_drawn_alike_for_ever() -> None:
    values = [float(v) for v in range(1, 21)]
    low, high = interval(values)
    half = 1.96 * exact.pstdev(values) / math.sqrt(len(values))
    assert (low, high) == pytest.approx((10.5 - half, 10.5 + half), rel=0.02)
    assert (low, high) == pytest.approx((8.0, 13.05125), rel=1e-12)


@given(some(2, 8), some(2, 8), st.randoms(use_true_random=False))
def test_intervals_hold_their_mean_and_know_no_order(one: list[float], other: list[float], rng: random.Random) -> None:
    low, high = interval(one)
    assert low <= exact.fmean(one) * (1 + 1e-12)
    assert exact.fmean(one) <= high * (1 + 1e-12)
    found = ratio_interval(one, other)
    swapped = ratio_interval(other, one)
    assert swapped == pytest.approx((1 / found[1], 1 / found[0]), rel=1e-6)
    assert ratio_interval(rng.sample(one, len(one)), rng.sample(other, len(other))) == found


@given(some(2, 8))
def test_a_set_is_no_other_than_itself(values: list[float]) -> None:
    low, high = ratio_interval(values, values)
    assert low <= 1 <= high
    assert low < high or len(set(values)) == 1


def test_the_rate_of_false_alarms_is_as_stated() -> None:
    rng = random.Random(3)
    sets = [[math.exp(rng.gauss(0, 0.03)) for _ in range(3)] for _ in range(1600)]
    alarms = [not low <= 1 <= high for low, high in map(ratio_interval, sets[::2], sets[1::2])]
    assert sum(alarms) / len(alarms) == pytest.approx(ratios.FALSE_ALARMS["trials a side"][3], abs=0.04)
