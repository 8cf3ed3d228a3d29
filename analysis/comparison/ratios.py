"""Ratios of a metric between two systems over matched configurations, and what they show."""

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from analysis.comparison.intervals import CONFIDENCE, Stratum, adjust_by_holm, estimate_ratio
from analysis.comparison.measuring import EQUAL_WORK, Measured
from analysis.comparison.spans import CUT_ERROR
from analysis.metrics.catalogue import describe
from analysis.metrics.metric import Better

Verdict = Literal["apart", "not apart", "no verdict", "not judged"]
_LEVEL: Final = 1 - CONFIDENCE
PRIMARY: Final = (EQUAL_WORK, "wall_clock_tok_s")
"""The claim of a comparison, in work and in tokens: judged by itself."""
FAMILY: Final = ("nvme_read_p95_ms", "ttfb_p95_ms")
"""The metrics that are judged together, unless the user names others; the rest is shown."""
ONLY_SHOWN: Final = "not one of the metrics named beforehand"
_OTHER_LOAD: Final = "the systems asked different work of this tier"


@dataclass(frozen=True)
class Ratio:
    """One metric of system `a` over that of system `b`, the baseline.

    Attributes:
        metric: the metric's name, or EQUAL_WORK.
        a: the system above the line.
        b: the system below the line.
        better: the better direction; None if the metric does not depend on the systems alone.
        configurations: number of configurations with the metric above 0 in every trial of both.
        means: over the trials of `a` and of `b`; None over several configurations, or without a
            value.
        ratio: ratio of the geometric means over trials, and over configurations; None if no
            configuration has one.
        low: start of its 95% interval; None if a configuration has a single trial of a system.
        high: end of the same interval.
        least: the least ratio of a configuration.
        most: the greatest ratio of a configuration.
        chance: the share of equal systems that would differ by as much.
        verdict: "apart" if the systems differ; "not apart" if the trials do not show it; "no
            verdict" without an interval; "not judged" if `better` is None.
        winner: the better system if the verdict is "apart".
        why: why there is no ratio, no verdict or no judgement.
    """

    metric: str
    a: str
    b: str
    better: Better | None
    configurations: int = 0
    means: tuple[float | None, float | None] = (None, None)
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    chance: float = 1.0
    verdict: Verdict = "no verdict"
    winner: str | None = None
    why: str = ""


def compute_ratios(
    measured: Sequence[Measured],
    systems: tuple[str, str],
    metrics: Iterable[str],
    family: Collection[str] = FAMILY,
) -> dict[str, Ratio]:
    """Compute the ratios of metrics between two systems, over all configurations.

    Args:
        measured: configurations of both systems that can be compared, at least one.
        systems: the one above the line, and the one below.
        metrics: names of metrics.
        family: those that are judged together, after Holm's correction.
    """
    a, b = systems
    ratios = {metric: _compute_ratio(measured, a, b, metric) for metric in (EQUAL_WORK, *metrics)}
    known = [one for one in ratios.values() if one.better and one.low is not None]
    together = [one for one in known if one.metric in family and one.metric not in PRIMARY]
    adjusted = adjust_by_holm([one.chance for one in together])
    chances = dict(zip((one.metric for one in together), adjusted, strict=True))
    for one in known:
        if one.metric not in PRIMARY and one.metric not in chances:
            ratios[one.metric] = replace(one, verdict="not judged", why=ONLY_SHOWN)
            continue
        if chances.get(one.metric, one.chance) >= _LEVEL:
            ratios[one.metric] = replace(one, verdict="not apart")
        else:
            is_a = ((one.ratio or 1.0) > 1) == (one.better == "higher")
            ratios[one.metric] = replace(one, verdict="apart", winner=a if is_a else b)
    return ratios


def _compute_ratio(measured: Sequence[Measured], a: str, b: str, metric: str) -> Ratio:
    """Compute a ratio with its interval; the verdict on it depends on other metrics."""
    better: Better | None = "higher" if metric == EQUAL_WORK else describe(metric).better_system
    why = ""
    if better and not all(one.has_same_load(metric) for one in measured):
        better, why = None, _OTHER_LOAD
    strata: list[Stratum] = []
    means: tuple[float | None, float | None] = (None, None)
    for one in measured:
        if missing := one.explain_missing(metric):
            why = missing
            continue
        values = [one.values(system, metric) for system in (a, b)]
        known = [[value for value in own if value is not None] for own in values]
        first, second = (statistics.fmean(own) if own else None for own in known)
        means = (first, second)
        if all(map(_is_positive, values)):
            strata.append((known[0], known[1]))
    found = Ratio(
        metric,
        a,
        b,
        better,
        means=means if len(measured) == 1 else (None, None),
        verdict="no verdict" if better else "not judged",
    )
    if not strata:
        return replace(found, why=why or "missing or 0 in a trial")
    is_cut = any(one.equal.is_cut for one in measured)
    estimate = estimate_ratio(strata, CUT_ERROR if is_cut else 0.0)
    each = [math.exp(estimate_ratio([stratum]).log) for stratum in strata]
    low, high = estimate.find_ends() or (None, None)
    return replace(
        found,
        configurations=len(strata),
        ratio=math.exp(estimate.log),
        low=low,
        high=high,
        least=min(each),
        most=max(each),
        chance=estimate.chance,
        why=why or (_explain_no_interval(measured, a, b) if better and low is None else ""),
    )


def _is_positive(values: Sequence[float | None]) -> bool:
    """Return whether every trial has a value above 0."""
    return bool(values) and all(value is not None and value > 0 for value in values)


def _explain_no_interval(measured: Sequence[Measured], a: str, b: str) -> str:
    """Explain why two systems have no interval."""
    trials = measured[0].configuration.trials
    predicted = [system for system in (a, b) if trials[system][0].summary.prediction is not None]
    if predicted:
        return "predicted" if len(predicted) == 2 else f"{predicted[0]} is predicted"
    single = [system for system in (a, b) if any(len(one.configuration.trials[system]) == 1 for one in measured)]
    return "one trial each" if len(single) == 2 else f"one trial of {single[0]}"
