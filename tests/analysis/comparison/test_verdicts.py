"""Verdicts on two systems: better or not, in every direction, and when there is none."""

import math

import pytest

from tests.analysis.comparison.crafting import CPU, Craft, compare, render, three


def test_a_tier_of_which_less_was_asked_is_not_called_slower(craft: Craft) -> None:
    """Next to a memory tier a drive moves fewer bytes: only like is judged with like."""
    asked = {"nvme_read_bytes": 4.0, "nvme_read_gib_s": 2.0, "nvme_read_p95_ms": 3.0}
    half = {"nvme_read_bytes": 2.0, "nvme_read_gib_s": 1.0, "nvme_read_p95_ms": 2.0}
    metrics = ["nvme_read_gib_s", "nvme_read_p95_ms"]
    whole = three(craft, "w", values=asked)
    found = compare(
        {"a": three(craft, "h", conditions=CPU, plan="q", values=half), "b": whole}, ["usable_bytes"], metrics
    )
    assert {found.pairs[0].ratios[name].verdict for name in metrics} == {"not judged"}
    assert "not judged: the systems asked different work of this tier" in " ".join(render(found).split())
    slow = {"nvme_read_bytes": 4.04, "nvme_read_gib_s": 1.0, "nvme_read_p95_ms": 6.0}
    runs = [
        craft(f"s-{i}", values=slow | {"nvme_read_gib_s": 1 + i / 100, "nvme_read_p95_ms": 6 + i / 100})
        for i in range(3)
    ]
    found = compare({"a": runs, "b": whole}, metrics=metrics)
    assert {found.pairs[0].ratios[name].winner for name in metrics} == {"b"}, "1% more bytes are the same"


def test_a_faster_system_wins_in_rates_and_times(craft: Craft) -> None:
    runs = {"fast": three(craft, "a", (2.0, 2.1, 1.9)), "slow": three(craft, "b")}
    metrics = ["wall_clock_tok_s", "elapsed_s"]
    ratios = compare(runs, metrics=metrics).pairs[0].ratios
    expected = (2.0 * 2.1 * 1.9 / (0.98 * 1.03)) ** (1 / 3)
    assert ratios["wall_clock_tok_s"].ratio == pytest.approx(expected)
    assert ratios["elapsed_s"].ratio == pytest.approx(1 / expected)
    assert ratios["equal_work"].ratio == pytest.approx(expected)
    for one in ratios.values():
        assert (one.verdict, one.winner) == ("apart", "fast")
        assert (one.low or math.inf) < (one.ratio or 0) < (one.high or 0)
    other = compare({"slow": runs["slow"], "fast": runs["fast"]}, metrics=metrics)
    swapped = other.pairs[0].ratios["wall_clock_tok_s"]
    assert (swapped.ratio, swapped.winner) == (pytest.approx(1 / expected), "fast")
    assert other.ranking == ["fast", "slow"]


def test_metrics_judged_together_are_corrected_and_the_claim_is_not(craft: Craft) -> None:
    """A difference that one metric alone shows with 95% is not shown by one of three that are judged together."""
    runs = {
        side: [craft(f"{side}{i}", 1.06 * speed if side == "a" else speed) for i, speed in enumerate((1.0, 1.02, 1.05))]
        for side in "ab"
    }
    alone = compare(runs, metrics=["decode_read_gib_s"]).pairs[0].ratios
    named = ["wall_clock_tok_s", "decode_read_gib_s", "storage_tok_s", "elapsed_s"]
    many = compare(runs, metrics=named).pairs[0].ratios
    assert alone["decode_read_gib_s"].verdict == "apart"
    assert (many["equal_work"].verdict, many["wall_clock_tok_s"].verdict) == ("apart", "apart")
    assert many["decode_read_gib_s"].verdict == "not apart"
    assert (many["decode_read_gib_s"].low or 0) > 1, "its own interval excludes 1"


def test_metrics_that_were_not_named_beforehand_are_shown_and_not_judged(craft: Craft) -> None:
    ratios = compare({"a": three(craft, "a", (2.0, 2.1, 1.9)), "b": three(craft, "b")}).pairs[0].ratios
    assert ratios["wall_clock_tok_s"].verdict == "apart"
    assert (ratios["decode_read_gib_s"].verdict, ratios["decode_read_gib_s"].winner) == ("not judged", None)
    assert (ratios["decode_read_gib_s"].low or 0) > 1.5


def test_one_trial_per_system_gives_no_verdict(craft: Craft) -> None:
    found = compare({"a": [craft("a", 3.0)], "b": [craft("b")]})
    one = found.pairs[0].ratios["wall_clock_tok_s"]
    assert (one.ratio, one.low, one.high, one.verdict) == (pytest.approx(3.0), None, None, "no verdict")
    assert "no verdict: one trial each" in render(found)
    found = compare({"a": three(craft, "c"), "b": [craft("d")]})
    assert "no verdict: one trial of b" in render(found)


def test_metrics_of_the_work_are_not_judged(craft: Craft) -> None:
    values = {"hit_rate": 0.5, "generation_mean_ms": 3.0}
    other = {"hit_rate": 0.6, "generation_mean_ms": 4.0}
    systems = {"a": three(craft, "a", values=values), "b": three(craft, "b", values=other)}
    found = compare(systems, metrics=["hit_rate", "generation_mean_ms"])
    assert {found.pairs[0].ratios[name].verdict for name in ("hit_rate", "generation_mean_ms")} == {"not judged"}
    same = compare({"a": three(craft, "c", values=values), "b": three(craft, "d", values=values)}, metrics=["hit_rate"])
    assert "hit_rate" not in same.pairs[0].ratios, "what is equal by construction has no row"


def test_metrics_that_are_missing_or_zero_have_no_ratio(craft: Craft) -> None:
    found = compare(
        {"a": [craft("a1", values={"nvme_read_p95_ms": None, "drain_s": 0.0}), craft("a2")], "b": three(craft, "b", values={"nvme_read_p95_ms": 1.0, "drain_s": 1.0})},
        metrics=["nvme_read_p95_ms", "drain_s"],
    )  # fmt: skip
    assert [found.pairs[0].ratios[m].ratio for m in ("nvme_read_p95_ms", "drain_s")] == [None, None]
    assert "no ratio: missing or 0 in a trial" in render(found)
