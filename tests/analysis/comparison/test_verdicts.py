"""Verdicts of two systems: apart or not, in every direction, and with intervals."""

import math
import statistics as exact
from pathlib import Path

import pytest

from tests.analysis.comparison.crafting import compare
from tests.analysis.comparison.crafting import render
from tests.analysis.comparison.crafting import CPU, Craft, three


def test_a_tier_that_serves_fewer_requests_is_not_called_slower(craft: Craft) -> None:
    """Next to a memory tier a drive moves fewer bytes per second; only equal tiers are judged by that."""
    half = [craft(f"h{i}", conditions=CPU, plan="q", values={"nvme_read_gib_s": 1.0 + i / 100}) for i in range(3)]
    whole = [craft(f"w{i}", values={"nvme_read_gib_s": 2.0 + i / 100}) for i in range(3)]
    found = compare({"a": half, "b": whole}, vary=["usable_bytes"], metrics=["nvme_read_gib_s"])
    assert found.pairs[0].ratios["nvme_read_gib_s"].verdict == "not judged"
    slow = [craft(f"s{i}", values={"nvme_read_gib_s": 1.0 + i / 100}) for i in range(3)]
    found = compare({"a": slow, "b": whole}, metrics=["nvme_read_gib_s"])
    assert found.pairs[0].ratios["nvme_read_gib_s"].winner == "b"


def test_a_faster_system_wins_in_rates_and_times(craft: Craft) -> None:
    found = compare({"fast": three(craft, "a", (2.0, 2.1, 1.9)), "slow": three(craft, "b")})
    (pair,) = found.pairs
    wall, elapsed = pair.ratios["wall_clock_tok_s"], pair.ratios["elapsed_s"]
    assert wall.ratio == pytest.approx(6.0 / 3.01)
    assert elapsed.ratio == pytest.approx(exact.fmean([1 / 2, 1 / 2.1, 1 / 1.9]) / exact.fmean([1 / 0.98, 1, 1 / 1.03]))
    for one in (wall, elapsed):
        assert (one.verdict, one.winner, one.win_rate) == ("apart", "fast", 1.0)
        assert (one.low or math.inf) < (one.ratio or 0) < (one.high or 0)
    other = compare(
        {
            "slow": [Path(p) for p in found.runs["slow"]],
            "fast": [Path(p) for p in found.runs["fast"]],
        }
    )
    swapped = other.pairs[0].ratios["wall_clock_tok_s"]
    assert (swapped.ratio, swapped.win_rate, swapped.winner) == (pytest.approx(1 / (wall.ratio or 0)), 0.0, "fast")
    assert found.ranking == other.ranking == ["fast", "slow"]


def test_equal_systems_are_not_told_apart_and_win_half_of_the_pairs(craft: Craft) -> None:
    found = compare({"a": three(craft, "a"), "b": three(craft, "b")})
    one = found.pairs[0].ratios["decode_read_gib_s"]
    assert (one.ratio, one.win_rate, one.verdict, one.winner) == (1.0, 0.5, "not apart", None)
    found = compare({s: three(craft, f"constant {s}", (1.0, 1.0)) for s in "ab"})
    assert found.pairs[0].ratios["elapsed_s"].verdict == "not apart"


def test_the_order_of_runs_does_not_matter(craft: Craft) -> None:
    a, b = three(craft, "a", (1.2, 1.3, 1.1)), three(craft, "b")
    assert compare({"a": a[::-1], "b": b[1:] + b[:1]}).pairs == compare({"a": a, "b": b}).pairs


def test_one_trial_per_system_gives_no_verdict(craft: Craft) -> None:
    found = compare({"a": [craft("a", 3.0)], "b": [craft("b")]})
    one = found.pairs[0].ratios["wall_clock_tok_s"]
    assert (one.ratio, one.low, one.high, one.verdict) == (pytest.approx(3.0), None, None, "no verdict")
    assert "one trial per system: no verdict" in render(found)
    found = compare({"a": three(craft, "c"), "b": [craft("d")]})
    assert "one trial of b: no verdict" in render(found)


def test_metrics_of_the_work_are_not_judged(craft: Craft) -> None:
    values = {"hit_rate": 0.5, "generation_mean_ms": 3.0}
    systems = {system: three(craft, system, (1.0, 1.1), values=values) for system in "ab"}
    found = compare(systems, metrics=["hit_rate", "tokens_generated", "generation_mean_ms"])
    assert {one.verdict for m, one in found.pairs[0].ratios.items() if m in found.metrics} == {"not judged"}
    assert "Work is equal" in render(found)


def test_metrics_that_are_missing_or_zero_have_no_ratio(craft: Craft) -> None:
    found = compare(
        {"a": [craft("a1", values={"nvme_read_p95_ms": None, "drain_s": 0.0}), craft("a2")], "b": three(craft, "b", values={"nvme_read_p95_ms": 1.0, "drain_s": 1.0})},
        metrics=["nvme_read_p95_ms", "drain_s"],
    )  # fmt: skip
    assert [found.pairs[0].ratios[m].ratio for m in found.metrics] == [None, None]
    assert "no ratio: missing or 0 in a trial" in render(found)
