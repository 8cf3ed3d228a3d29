"""Ratios of a metric between two systems, over matched configurations, and the metric to quote."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from analysis.comparison.matching import Configuration
from analysis.comparison.trials import Interval, bootstrap_mean, bootstrap_ratio
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import QUOTED
from analysis.metrics.metric import Better
from analysis.summary.run_summary import Summary

_EQUAL: Final = 1e-9  # tolerance for one number that is computed in several ways
FALSE_ALARMS: Final = {
    "trials per system": {2: 0.37, 3: 0.20, 4: 0.15, 5: 0.13, 7: 0.10, 10: 0.08},
    "configurations": {2: 0.52, 3: 0.34, 4: 0.21, 5: 0.16, 7: 0.13, 10: 0.09, 15: 0.07},
}
"""Share of intervals that exclude 1 although the systems are equal, by sample and its size.

Simulated with normal noise, at least 2,500 times each.
"""
_MARGIN: Final = math.log(1.25)  # smaller differences between ratios are not reported

Verdict = Literal["apart", "not apart", "no verdict", "not judged"]


@dataclass(frozen=True)
class Ratio:
    """One metric of system `a` over that of system `b`.

    Attributes:
        metric: the metric's name.
        a: the system above the line.
        b: the system below the line.
        better: the better direction; None for metrics that depend on the work alone.
        configurations: number of configurations with the metric above 0 in every trial of both.
        ratio: ratio of the means over trials; the geometric mean over several configurations; None
            if no configuration has one.
        low: start of the 95% bootstrap interval, over the trials of a single configuration, or over
            several configurations; None for one configuration with a single trial of a system.
        high: end of the same interval.
        least: the least ratio of a configuration.
        most: the greatest ratio of a configuration.
        win_rate: share of pairs of trials in which `a` is better, of several configurations the
            share of configurations; ties count half.
        verdict: "apart" if the interval excludes 1, "no verdict" without an interval, "not judged"
            if no direction is better.
        winner: the better system if the verdict is "apart".
    """

    metric: str
    a: str
    b: str
    better: Better | None
    configurations: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    win_rate: float | None = None
    verdict: Verdict = "no verdict"
    winner: str | None = None


def compute_ratio(configurations: Sequence[Configuration], a: str, b: str, metric: str) -> Ratio:
    """Compute the ratio of a metric between systems `a` and `b`, over matched configurations."""
    described = describe(metric)
    better = described.better_system
    if described.needs_equal_tiers and not all(one.same_tiers for one in configurations):
        better = None  # a tier that serves fewer requests is not worse
    if metric == "elapsed_s" and any(one.cut for one in configurations):
        better = None  # the time limit, which the user set
    samples = [
        (numerators, denominators)
        for configuration in configurations
        if (numerators := _positive(configuration.values(a, metric)))
        and (denominators := _positive(configuration.values(b, metric)))
    ]
    if not samples:
        return Ratio(metric, a, b, better, 0, verdict="no verdict" if better else "not judged")
    ratios = [_mean(numerators) / _mean(denominators) for numerators, denominators in samples]
    if len(samples) > 1:
        logs = [math.log(ratio) for ratio in ratios]
        total = math.exp(math.fsum(logs) / len(logs))
        low, high = bootstrap_mean(logs)
        ends: Interval | None = (math.exp(low), math.exp(high))
        wins = [_score(ratio, 1.0, better) for ratio in ratios]
    else:
        numerators, denominators = samples[0]
        total = ratios[0]
        has_interval = min(len(numerators), len(denominators)) > 1
        ends = bootstrap_ratio(numerators, denominators) if has_interval else None
        wins = [_score(x, y, better) for x, y in product(numerators, denominators)]
    verdict, winner = _judge(total, ends, better, a, b)
    return Ratio(
        metric,
        a,
        b,
        better,
        configurations=len(samples),
        ratio=total,
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
        least=min(ratios),
        most=max(ratios),
        win_rate=sum(wins) / len(wins) if better else None,
        verdict=verdict,
        winner=winner,
    )


def _positive(values: Sequence[float | None]) -> list[float]:
    """Return the values of all trials if all are above 0, otherwise none."""
    positive = [value for value in values if value is not None and value > 0]
    return positive if len(positive) == len(values) else []


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _score(value: float, other: float, better: Better | None) -> float:
    """Return 1 for a win of the first value, 0 for a loss and 0.5 for a tie."""
    return 0.5 if value == other else float((value > other) == (better == "higher"))


def _judge(ratio: float, ends: Interval | None, better: Better | None, a: str, b: str) -> tuple[Verdict, str | None]:
    """Return the verdict on a ratio with its interval, and the winner if there is one."""
    if better is None:
        return "not judged", None
    if ends is None:
        return "no verdict", None
    if ends[0] <= 1 <= ends[1]:
        return "not apart", None
    return "apart", a if (ratio > 1) == (better == "higher") else b


def recommend_metrics(configurations: Sequence[Configuration]) -> tuple[tuple[str, ...], str]:
    """Return the metrics to quote for the CPU budgets of these configurations, and why."""
    if any(one.recomputes_unequally for one in configurations):
        return QUOTED[1:2], "one system recomputed more tokens than another, which storage_tok_s does not count"
    budgets = {size != 0 for one in configurations for size in one.cpu_bytes}
    if budgets == {False}:
        return (
            QUOTED[:2],
            "there is no CPU tier, and storage_tok_s divides by latencies summed over concurrent moves",
        )
    if budgets == {True}:
        return QUOTED[2:], "with a CPU tier it counts the time in storage and excludes waiting"
    return QUOTED[1:2], "some configurations have a CPU tier and some have none, and it means the same for both"


def recommend_by_budget(
    configurations: Sequence[Configuration],
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Return `recommend_metrics` by the size of the CPU tier in GiB, the smallest first."""
    groups: dict[float | None, list[Configuration]] = {}
    for one in sorted(configurations, key=lambda c: (c.cpu_gib is None, c.cpu_gib or 0.0)):
        groups.setdefault(one.cpu_gib, []).append(one)
    return {format_group(size): recommend_metrics(group) for size, group in groups.items()}


def format_group(value: str | float | None) -> str:
    """Format a value that groups configurations in tables: a model, GiB or a number of users."""
    if value is None:
        return "varied or unknown"
    return f"{value:g}" if isinstance(value, float) else str(value)


def find_same_ratios(equal_work: Sequence[Sequence[Summary]], metrics: Iterable[str]) -> dict[str, list[str]]:
    """Find the metrics whose ratios are one number by construction: work over elapsed_s, in proportion.

    Two metrics are in proportion if their quotients (with elapsed_s: their products) are equal
    within 1e-9 in each group.

    Args:
        equal_work: summaries of runs that may have done equal work, in groups.
        metrics: names of the metrics to look at, in their order.

    Returns:
        By the first metric of each proportion, the others.
    """
    proportions: dict[str, list[str]] = {}
    for metric in (name for name in metrics if describe(name).over_elapsed):
        for first, others in proportions.items():
            if all(_is_proportional(group, first, metric) for group in equal_work):
                others.append(metric)
                break
        else:
            proportions[metric] = []
    return {first: others for first, others in proportions.items() if others}


def _is_proportional(summaries: Sequence[Summary], metric: str, other: str) -> bool:
    values = [(summary.metrics.get(metric), summary.metrics.get(other)) for summary in summaries]
    known = [(a, b) for a, b in values if a and b]
    factors = [a * b if "elapsed_s" in (metric, other) else a / b for a, b in known]
    return len(known) == len(values) and max(factors) - min(factors) <= _EQUAL * max(factors)


def estimate_false_alarms(
    configurations: Sequence[Configuration],
) -> tuple[int, str, float] | None:
    """Estimate how often equal systems would be told apart by chance, because the sample is small.

    Returns:
        The size of the sample, what it consists of, and the share of metrics; None if there is no
        verdict, or if the sample is larger than FALSE_ALARMS knows.
    """
    if len(configurations) > 1:
        sample = "configurations"
        size = len(configurations)
    else:
        sample = "trials per system"
        size = min(len(trials) for trials in configurations[0].summaries.values())
    shares = FALSE_ALARMS[sample]
    if not 2 <= size <= max(shares):
        return None
    return size, sample, shares[max(n for n in shares if n <= size)]


def describe_findings(ratios: Mapping[str, Ratio], recommended: Sequence[str]) -> list[str]:
    """Describe whether the recommended metrics tell two systems apart, or another candidate does.

    Returns:
        Sentences.
    """
    quoted = [ratios[metric] for metric in recommended if ratios[metric].ratio]
    others = [ratios[metric] for metric in QUOTED if metric not in recommended and ratios[metric].ratio]
    if not quoted:
        return ["No metric to quote is above 0 for both systems."]
    best = max(quoted, key=_strength)
    notes = [_compare_candidates(other, best) for other in others]
    return ["; ".join(map(_describe_ratio, quoted)) + ".", *(note for note in notes if note)]


def _compare_candidates(other: Ratio, best: Ratio) -> str | None:
    """Describe how a candidate differs from the best recommended metric; None if it agrees."""
    difference = _strength(other) - _strength(best)
    other_counts = other.verdict != "not apart"
    best_counts = best.verdict != "not apart"
    values = f"{_format_ratio(other)} while {best.metric} shows {_format_ratio(best)}"
    is_opposite = ((other.ratio or 1) - 1) * ((best.ratio or 1) - 1) < 0
    if other_counts and best_counts and is_opposite:
        return f"{other.metric} says the opposite, {values}: look at mean_inflight, and quote both."
    if other_counts and (not best_counts or difference > _MARGIN):
        return f"{other.metric} separates them better here, {values}: quote it as well."
    if best_counts and (not other_counts or difference < -_MARGIN):
        claim = "shows less" if other_counts else "does not tell them apart"
        return f"{other.metric} {claim}, {values}."
    return None


def _describe_ratio(ratio: Ratio) -> str:
    if ratio.verdict == "no verdict":
        return f"{ratio.metric} shows {_format_ratio(ratio)}, without a verdict"
    verb = "tells" if ratio.verdict == "apart" else "does not tell"
    return f"{ratio.metric} {verb} {ratio.a} and {ratio.b} apart, {_format_ratio(ratio)}"


def _format_ratio(ratio: Ratio) -> str:
    return f"{ratio.ratio:.2f}x"


def _strength(ratio: Ratio) -> float:
    """Return how far a ratio is from 1, on the log scale."""
    return abs(math.log(ratio.ratio or 1.0))
