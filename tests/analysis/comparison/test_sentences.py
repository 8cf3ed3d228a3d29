"""Sentences claim what intervals show, and nothing else."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from analysis.comparison.answer import convert_comparison
from analysis.comparison.sentences import PHRASES, describe_comparison
from tests.analysis.comparison.crafting import Craft, compare, render, three, typed
from views.numbers import format_ratio

METRICS = [name for name in PHRASES if name != "equal_work"]
NUMBERS = itertools.count()
FACTORS = st.fixed_dictionaries({metric: st.sampled_from((1.0, 1.01, 1.5)) for metric in METRICS})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(factors=FACTORS, spreads=st.tuples(*[st.floats(0.0, 0.03)] * 2))
def test_no_sentence_claims_a_difference_that_was_not_judged(
    craft: Craft, factors: dict[str, float], spreads: tuple[float, float]
) -> None:
    number = next(NUMBERS)
    runs: dict[str, list[Path]] = {"new": [], "old": []}
    for system, own in runs.items():
        for trial, speed in enumerate((1 - spreads[0], 1.0, 1 + spreads[1])):
            values = {metric: speed * (factors[metric] if system == "new" else 1.0) for metric in METRICS}
            own.append(craft(f"{number}-{system}-{trial}", speed, values=values))
    (pair,) = compare(runs, metrics=METRICS).pairs
    text = describe_comparison(compare(runs, metrics=METRICS))
    claims, _, equal = text.partition("o difference shown")
    for metric, phrase in PHRASES.items():
        ratio = pair.ratios[metric]
        named = re.search(rf"{re.escape(phrase)}(?= and | [\d.])", claims)
        if ratio.verdict == "not apart":
            assert named is None, text
            assert phrase in equal
        else:
            assert named is not None, text
            place = claims.find("new is worse")
            assert (0 <= place < named.start()) == (ratio.winner == "old"), text


@given(st.floats(0.05, 20), st.floats(1.0001, 3))
def test_an_interval_that_excludes_1_is_not_shown_as_one_that_ends_there(value: float, spread: float) -> None:
    ends = (value / spread, value * spread)
    low, high = map(float, format_ratio(value, *ends)[1].split(" to "))
    if not ends[0] <= 1 <= ends[1] and min(abs(end - 1) for end in ends) > 1e-4:
        assert low > 1 or high < 1


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((4.2, 3.0, 5.8), ("4 ×", "3 to 6")),
        ((1.16, 1.10, 1.22), ("1.16 ×", "1.10 to 1.22")),
        ((1.6, 0.9, 2.8), ("1.6 ×", "0.9 to 2.8")),
    ],
)
def test_a_ratio_has_the_digits_that_its_interval_supports(
    ends: tuple[float, float, float], expected: tuple[str, str]
) -> None:
    assert format_ratio(*ends) == expected


def test_both_directions_are_said_in_one_sentence(craft: Craft) -> None:
    """New is 1.5 times as fast in tokens/s, and its P95 of reads is 2.0 times as long."""
    new = three(craft, "n", (1.5, 1.5, 1.5), values={"nvme_read_p95_ms": 2.0})
    old = three(craft, "o", (1.0, 1.0, 1.0), values={"nvme_read_p95_ms": 1.0})
    found = compare({"new": new, "old": old}, metrics=["wall_clock_tok_s", "nvme_read_p95_ms"])
    sentence = describe_comparison(found)
    assert sentence == (
        "new is better than old: equal work per second and tokens/s 1.500 × (95% interval 1.500 to 1.500);"
        " new is worse than old: P95 of NVMe reads 2.000 × (2.000 to 2.000)."
    )
    assert render(found).endswith(f"\n\n{sentence}")
    assert convert_comparison(found)["sentence"] == sentence


def test_percentiles_of_few_samples_are_not_said(craft: Craft) -> None:
    few = {"nvme_read_p95_ms": 2.0, "nvme_reads": 20}
    found = compare({"new": three(craft, "n", values=few), "old": three(craft, "o", values=few)})
    assert "nvme_read_p95_ms" in found.pairs[0].ratios
    assert "P95" not in describe_comparison(found)
    assert "(2)" in render(found)


def test_configurations_that_disagree_are_said(craft: Craft) -> None:
    """Twice and half as fast: the mean shows no difference, and each configuration one."""
    runs: dict[str, list[Path]] = {"a": [], "b": []}
    for users, fast in ((1, "a"), (2, "b")):
        for side in runs:
            speeds = (2.0, 2.02) if side == fast else (1.0, 1.01)
            runs[side] += three(craft, f"{side}{users}", speeds, conditions={"users": users})
    said = describe_comparison(compare(runs))
    assert said.startswith("a against b, no difference shown: equal work per second")
    assert said.endswith("; the configurations disagree: equal work per second 0.50 × to 2.00 ×.")


def test_several_configurations_in_one_set_are_said_to_be_no_trials(craft: Craft) -> None:
    few, many = craft("few", conditions={"users": 1}), craft("many", conditions={"users": 2})
    done = typed(few, many)
    assert done.exit_code == 0
    assert "These runs are 2 configurations, not trials of one: write --against between" in done.stderr
    assert "not trials of one" not in typed(few).stderr
