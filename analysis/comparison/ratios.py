"""Ratios: one side over another in one metric, over matched configurations; which metric to quote."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal

from analysis.comparison.matching import Configuration
from analysis.comparison.trials import interval, ratio_interval
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import QUOTED
from analysis.metrics.metric import Better
from analysis.summary.run_summary import Summary

_EQUAL: Final = 1e-9  # floats of one number, computed in several ways
FALSE_ALARMS: Final = {
    "trials a side": {2: 0.37, 3: 0.20, 4: 0.15, 5: 0.13, 7: 0.10, 10: 0.08},
    "configurations": {2: 0.52, 3: 0.34, 4: 0.21, 5: 0.16, 7: 0.13, 10: 0.09, 15: 0.07},
}
"""How often an interval over so few excludes 1 between equal systems: normal noise, 2,500 simulations or more."""
_MARGIN: Final = math.log(1.25)  # ratios that differ by less are not called unlike

Verdict = Literal["apart", "not apart", "no verdict", "not judged"]


@dataclass(frozen=True)
class Ratio:
    """One metric of side `a` over that of side `b`.

    Attributes:
        better: which direction is; None for what belongs to the work.
        configurations: how many have the metric on both sides, above 0 in every trial.
        ratio: of the means over trials; of several configurations the geometric mean of theirs. None where none has it.
        low: 95% bootstrap interval, over the trials of one configuration, or over several configurations.
        high: its end; both None with one configuration and one trial on a side.
        least: the least ratio of a configuration.
        most: the greatest.
        win_rate: share of pairs of trials, of several configurations share of them, in which `a` is better; ties half.
        verdict: apart where the interval excludes 1; no verdict without one; not judged where no direction is better.
        winner: the better side where they are apart.
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


def ratio(configurations: Sequence[Configuration], a: str, b: str, metric: str) -> Ratio:
    """A metric of side a over that of side b, over matched configurations."""
    described = describe(metric)
    better = described.better_system
    if described.needs_equal_tiers and not all(one.same_tiers for one in configurations):
        better = None  # a tier that is asked for less is no worse
    if metric == "elapsed_s" and any(one.cut for one in configurations):
        better = None  # the window that was asked for
    both = [(c.values(a, metric), c.values(b, metric)) for c in configurations]
    known = [(one, other) for one, other in both if all(v is not None and v > 0 for v in (*one, *other))]
    values: list[tuple[list[float], list[float]]] = known  # type: ignore[assignment]
    if not values:
        return Ratio(metric, a, b, better, 0, verdict="no verdict" if better else "not judged")
    ratios = [_mean(one) / _mean(other) for one, other in values]
    if len(values) > 1:
        logs = [math.log(one) for one in ratios]
        total, bounds = math.exp(math.fsum(logs) / len(logs)), interval(logs)
        ends: tuple[float, float] | None = (math.exp(bounds[0]), math.exp(bounds[1]))
        wins = [_win(one, 1.0, better) for one in ratios]
    else:
        (one, other), total = values[0], ratios[0]
        ends = ratio_interval(one, other) if min(len(one), len(other)) > 1 else None
        wins = [_win(x, y, better) for x, y in product(one, other)]
    low, high = ends or (None, None)
    verdict, winner = _verdict(total, ends, better, a, b)
    rate = sum(wins) / len(wins) if better else None
    return Ratio(metric, a, b, better, len(values), total, low, high, min(ratios), max(ratios), rate, verdict, winner)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _win(one: float, other: float, better: str | None) -> float:
    return 0.5 if one == other else float((one > other) == (better == "higher"))


def _verdict(
    total: float, ends: tuple[float, float] | None, better: str | None, a: str, b: str
) -> tuple[Verdict, str | None]:
    if better is None:
        return "not judged", None
    if ends is None:
        return "no verdict", None
    if ends[0] <= 1 <= ends[1]:
        return "not apart", None
    return "apart", a if (total > 1) == (better == "higher") else b


def recommendation(configurations: Sequence[Configuration]) -> tuple[tuple[str, ...], str]:
    """The metrics to quote for these CPU budgets, and why."""
    if any(one.recomputes_unequally for one in configurations):
        return QUOTED[1:2], "a side recomputed more tokens than another, which storage_tok_s does not count"
    budgets = {size != 0 for one in configurations for size in one.cpu_bytes}
    if budgets == {False}:
        return QUOTED[:2], "there is no CPU tier, and storage_tok_s divides by latencies summed over concurrent moves"
    if budgets == {True}:
        return QUOTED[2:], "with a CPU tier it counts the time in storage and leaves waiting out"
    return QUOTED[1:2], "it means the same with a CPU tier and without one, and here are both"


def budgets(configurations: Sequence[Configuration]) -> dict[str, tuple[tuple[str, ...], str]]:
    """`recommendation` by the CPU tier's size: those of one budget have one answer."""
    groups: dict[float | None, list[Configuration]] = {}
    for one in sorted(configurations, key=lambda c: (c.cpu_gib is None, c.cpu_gib or 0.0)):
        groups.setdefault(one.cpu_gib, []).append(one)
    return {named(size): recommendation(found) for size, found in groups.items()}


def named(value: Any) -> str:
    """What tells configurations apart, as tables have it."""
    return "unlike or unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def same_ratios(equal_work: Sequence[Sequence[Summary]], metrics: Iterable[str]) -> dict[str, list[str]]:
    """By metric, those after it that are the same number by construction: work over elapsed_s, in a fixed proportion.

    It holds where in each group their quotients (of elapsed_s: their products) are equal to 1e-9.

    Args:
        equal_work: summaries of runs that may have done equal work, in groups.
        metrics: which to look at.
    """
    found: dict[str, list[str]] = {}
    for metric in (name for name in metrics if describe(name).over_elapsed):
        like = next((first for first in found if all(_proportional(some, first, metric) for some in equal_work)), None)
        if like is None:
            found[metric] = []
        else:
            found[like].append(metric)
    return {first: others for first, others in found.items() if others}


def _proportional(summaries: Sequence[Summary], one: str, other: str) -> bool:
    values = [(summary.metrics.get(one), summary.metrics.get(other)) for summary in summaries]
    known = [(a, b) for a, b in values if a and b]
    factors = [a * b if "elapsed_s" in (one, other) else a / b for a, b in known]
    return len(known) == len(values) and max(factors) - min(factors) <= _EQUAL * max(factors)


def false_alarm(configurations: Sequence[Configuration]) -> tuple[int, str, float] | None:
    """Of what there are few, and the share of metrics in which equal systems are told apart for that reason alone.

    None where there is no verdict, or more than FALSE_ALARMS knows.
    """
    what, few = "configurations", len(configurations)
    if few == 1:
        what, few = "trials a side", min(len(found) for found in configurations[0].summaries.values())
    known = FALSE_ALARMS[what]
    return (few, what, known[max(n for n in known if n <= few)]) if 2 <= few <= max(known) else None


def notes(ratios: Mapping[str, Ratio], recommended: Sequence[str]) -> list[str]:
    """Whether the recommended metrics tell two sides apart, and whether another candidate does so better."""
    own = [ratios[metric] for metric in recommended if ratios[metric].ratio]
    others = [ratios[metric] for metric in QUOTED if metric not in recommended and ratios[metric].ratio]
    if not own:
        return ["None of the metrics to quote is above 0 on both sides."]
    best = max(own, key=_strength)
    told = [_beside(other, best) for other in others]
    return ["; ".join(map(_finding, own)) + ".", *(note for note in told if note)]


def _beside(other: Ratio, best: Ratio) -> str | None:
    """What another candidate shows where the best of the recommended ones shows what it does."""
    more = _strength(other) - _strength(best)
    sure, against = other.verdict != "not apart", best.verdict != "not apart"
    where = f"{_times(other)} where {best.metric} shows {_times(best)}"
    if sure and against and ((other.ratio or 1) - 1) * ((best.ratio or 1) - 1) < 0:
        return f"{other.metric} says the opposite, {where}: look at mean_inflight, and quote both."
    if sure and (not against or more > _MARGIN):
        return f"{other.metric} separates them better here, {where}: quote it as well."
    if against and (not sure or more < -_MARGIN):
        return f"{other.metric} {'shows less' if sure else 'does not tell them apart'}, {where}."
    return None


def _finding(one: Ratio) -> str:
    if one.verdict == "no verdict":
        return f"{one.metric} shows {_times(one)}, without a verdict"
    told = "tells" if one.verdict == "apart" else "does not tell"
    return f"{one.metric} {told} {one.a} and {one.b} apart, {_times(one)}"


def _times(one: Ratio) -> str:
    return f"{one.ratio:.2f}x"


def _strength(one: Ratio) -> float:
    return abs(math.log(one.ratio or 1.0))
