"""Sentences claim what intervals show, and nothing else."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.comparison.crafting import compare
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio, compute_ratio
from analysis.comparison.sentences import (
    PHRASES,
    count_better,
    describe_comparison,
    describe_many,
    describe_ratios,
    drop_thin,
    format_ends,
    format_times,
)
from tests.analysis.comparison.crafting import render
from tests.analysis.comparison.crafting import Craft, three, typed
from tests.support.summaries import summary_of

VALUES = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=4)


def configuration_of(trials: dict[str, list[dict[str, float]]]) -> Configuration:
    """Make a configuration of trials with these metrics."""
    summaries = {system: [summary_of(**own) for own in each] for system, each in trials.items()}
    first = next(iter(summaries.values()))[0].provenance
    return Configuration("c", "t", first.conditions, None, False, True, summaries)


@st.composite
def systems(draw: st.DrawFn) -> Configuration:
    """Draw trials of two systems; one factor may set them apart in some metrics."""
    trials = {}
    for system in ("old", "new"):
        count = draw(st.integers(1, 4))
        columns = {metric: draw(st.lists(st.floats(0.98, 1.02), min_size=count, max_size=count)) for metric in PHRASES}
        factors = {metric: draw(st.sampled_from((1.0, 1.01, 1.5))) for metric in PHRASES}
        trials[system] = [
            {metric: columns[metric][trial] * factors[metric] for metric in PHRASES} for trial in range(count)
        ]
    return configuration_of(trials)


@given(systems())
def test_no_sentence_claims_a_difference_that_its_interval_does_not_show(one: Configuration) -> None:
    ratios = {metric: compute_ratio([one], "new", "old", metric) for metric in PHRASES}
    text = describe_ratios("new", "old", ratios, "one trial each")
    claims, _, equal = text.partition("o difference shown")
    for metric, phrase in PHRASES.items():
        ratio = ratios[metric]
        named = re.search(rf"{re.escape(phrase)}(?= and | [\d.])", claims)
        if ratio.low is None or ratio.high is None:
            assert "no verdict" in text
            assert " better " not in text
            assert " worse " not in text
        elif ratio.low <= 1 <= ratio.high:
            assert named is None, text
            assert phrase in equal
        else:
            assert named is not None, text
            is_new_better = (ratio.low > 1) == (ratio.better == "higher")
            place = claims.find("worse ")
            is_called_worse = 0 <= place < named.start()
            assert is_called_worse != is_new_better, text


@given(VALUES, VALUES)
def test_numbers_on_a_page_agree_with_the_verdict(new: list[float], old: list[float]) -> None:
    """An interval that excludes 1 is not printed as one that ends at 1."""
    metric = "wall_clock_tok_s"
    one = configuration_of({"new": [{metric: value} for value in new], "old": [{metric: value} for value in old]})
    ratio = compute_ratio([one], "new", "old", metric)
    assert float(format_times(ratio).split()[0]) == pytest.approx(ratio.ratio, abs=0.006)
    if ratio.low is None:
        assert format_ends(ratio) == "–"
        return
    low, high = map(float, format_ends(ratio).split(" to "))
    if ratio.verdict == "apart":
        assert low > 1 or high < 1 or abs((ratio.ratio or 0) - 1) < 1e-4


def test_intervals_that_exclude_1_by_little_have_more_decimals() -> None:
    ratio = Ratio("m", "a", "b", "higher", 1, 1.004, 1.0021, 1.0062, verdict="apart", winner="a")
    assert (format_times(ratio), format_ends(ratio)) == ("1.004 ×", "1.002 to 1.006")


def test_both_directions_are_said_in_one_sentence(craft: Craft) -> None:
    """New is 1.5 times as fast in tokens/s, and its P95 of reads is 2.0 times as long."""
    new = three(craft, "n", (1.5, 1.5, 1.5), values={"nvme_read_p95_ms": 2.0})
    old = three(craft, "o", (1.0, 1.0, 1.0), values={"nvme_read_p95_ms": 1.0})
    found = compare({"new": new, "old": old}, metrics=["wall_clock_tok_s", "nvme_read_p95_ms"])
    sentence = describe_comparison(found)
    assert sentence == (
        "new is better than old in tokens/s 1.50 × (95% interval 1.50 to 1.50);"
        " worse in P95 of NVMe reads 2.00 × (2.00 to 2.00)."
    )
    assert render(found).endswith(f"\n\n{sentence}")
    assert as_json(found)["sentence"] == sentence


def test_percentiles_of_few_samples_are_not_said(craft: Craft) -> None:
    few = {"nvme_read_p95_ms": 2.0, "nvme_reads": 20}
    found = compare({"new": three(craft, "n", values=few), "old": three(craft, "o", values=few)})
    ratios = drop_thin(found.pairs[0].ratios, found.configurations)
    assert "nvme_read_p95_ms" in found.pairs[0].ratios
    assert "nvme_read_p95_ms" not in ratios
    assert "P95" not in describe_comparison(found)


def test_several_systems_are_listed_best_first() -> None:
    def ratio(name: str, value: float, verdict: str) -> Ratio:
        return Ratio("nvme_read_p95_ms", name, "base", "lower", 1, value, verdict=verdict)  # type: ignore[arg-type]

    listed = [ratio("slow", 2.0, "no verdict"), ratio("fast", 0.5, "no verdict")]
    assert describe_many("base", listed) == (
        "Against base, P95 of NVMe reads: fast 0.50 ×, no verdict; slow 2.00 ×, no verdict."
    )
    assert describe_many("base", []) == "No other system can be compared with base."


@given(st.floats(0.01, 100))
def test_times_better_of_a_ratio_and_of_its_inverse_agree(value: float) -> None:
    assert count_better(value, "lower") == pytest.approx(count_better(1 / value, "higher"))


def test_the_command_ends_with_the_sentence(craft: Craft) -> None:
    fast, slow = three(craft, "fast", (2.0, 2.0, 2.0)), three(craft, "slow", (1.0, 1.0, 1.0))
    done = typed(*fast, "--against", *slow)
    assert done.exit_code == 0
    last = done.output.rstrip().splitlines()[-1]
    assert last == "fast is better than slow: tokens/s 2.00 × (95% interval 2.00 to 2.00)."


def test_several_configurations_in_one_set_are_said_to_be_no_trials(craft: Craft) -> None:
    few, many = craft("few", conditions={"users": 1}), craft("many", conditions={"users": 2})
    done = typed(few, many)
    assert done.exit_code == 0
    assert "These runs are 2 configurations, not trials of one: write --against between" in done.stderr
    assert "not trials of one" not in typed(few).stderr
    assert not re.search(r"^[A-Z] ", done.stdout, re.M), "sets are not named by letters"
