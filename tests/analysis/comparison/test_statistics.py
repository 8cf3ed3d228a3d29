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
from analysis.comparison.trials import bootstrap_mean, bootstrap_ratio, compute_statistics
from tests.analysis.comparison.crafting import resampled_means

POSITIVE = st.floats(0.01, 1e6)


def samples(least: int, most: int) -> st.SearchStrategy[list[float]]:
    return st.lists(POSITIVE, min_size=least, max_size=most)


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
    assert compute_statistics([None, 7]) == trials.Statistics(1, 7.0, median=7.0)
    assert compute_statistics([None]) == trials.Statistics(0)
    assert compute_statistics([0.0, 0.0]).cv is None


@given(samples(2, 5))
def test_the_interval_of_few_values_enumerates_all_resamples(values: list[float]) -> None:
    expected = np.quantile(resampled_means(values), [0.025, 0.975])
    assert bootstrap_mean(values) == pytest.approx(tuple(expected), rel=1e-8)


@given(samples(2, 3), samples(2, 4))
def test_the_interval_of_a_ratio_enumerates_all_pairs_of_resamples(one: list[float], other: list[float]) -> None:
    logs = [math.log(a / b) for a, b in itertools.product(resampled_means(one), resampled_means(other))]
    expected = np.exp(np.quantile(logs, [0.025, 0.975]))
    assert bootstrap_ratio(one, other) == pytest.approx(tuple(expected), rel=1e-8)


def test_the_interval_of_many_values_never_changes() -> None:
    values = [float(v) for v in range(1, 21)]
    low, high = bootstrap_mean(values)
    half = 1.96 * exact.pstdev(values) / math.sqrt(len(values))
    assert (low, high) == pytest.approx((10.5 - half, 10.5 + half), rel=0.02)
    assert (low, high) == pytest.approx((8.0, 13.05125), rel=1e-12)


@given(samples(2, 8), samples(2, 8), st.randoms(use_true_random=False))
def test_intervals_contain_the_mean_and_ignore_the_order(
    one: list[float], other: list[float], rng: random.Random
) -> None:
    low, high = bootstrap_mean(one)
    assert low <= exact.fmean(one) * (1 + 1e-12)
    assert exact.fmean(one) <= high * (1 + 1e-12)
    found = bootstrap_ratio(one, other)
    swapped = bootstrap_ratio(other, one)
    assert swapped == pytest.approx((1 / found[1], 1 / found[0]), rel=1e-6)
    assert bootstrap_ratio(rng.sample(one, len(one)), rng.sample(other, len(other))) == found


@given(samples(2, 8))
def test_equal_samples_are_not_told_apart(values: list[float]) -> None:
    low, high = bootstrap_ratio(values, values)
    assert low <= 1 <= high
    assert low < high or len(set(values)) == 1


def test_the_rate_of_false_alarms_is_as_documented() -> None:
    rng = random.Random(3)
    sets = [[math.exp(rng.gauss(0, 0.03)) for _ in range(3)] for _ in range(1600)]
    alarms = [not low <= 1 <= high for low, high in map(bootstrap_ratio, sets[::2], sets[1::2])]
    assert sum(alarms) / len(alarms) == pytest.approx(ratios.FALSE_ALARMS["trials per system"][3], abs=0.04)
