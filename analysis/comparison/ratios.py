"""Metrics of two systems over spans of equal work, their ratios, and what these show."""

import math
import statistics
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import Final, Literal, NamedTuple

import polars as pl

from analysis.comparison.intervals import CONFIDENCE, Stratum, adjust_by_holm, estimate_ratio
from analysis.comparison.matching import Configuration
from analysis.comparison.spans import CUT_ERROR, SAME, EqualWork, find_equal_work
from analysis.comparison.trials import Trial
from analysis.comparison.work import Unit, read_work
from analysis.log.columns import FIRST_TOUCH, FOR_OTHERS, READS, TOUCHES
from analysis.metrics import METRICS
from analysis.metrics.catalogue import describe
from analysis.metrics.metric import Better, Metric
from analysis.summary.run_summary import Metrics
from analysis.summary.summary import measure
from replayer.schema import TIERS

EQUAL_WORK: Final = "equal_work"
"""The name of the first ratio: work per second over the spans of equal work, in bytes or tokens."""
# Times of requests are compared over at least as many in every trial: a P95 of 200 has ten above it.
LEAST_REQUESTS: Final = 200
# Groups of metrics that are times of requests.
_OF_REQUESTS: Final = frozenset(("waits", "qos"))
# Groups of metrics that are times of moves; they count moves that ended in the span.
_OF_MOVES: Final = frozenset(("latency",))
_FREE: Final = "one system missed more of the tokens, and computing them takes no time in these runs"
_PRICE: Final = "replay with the speed of prefill (`prefill_tok_s`), or with room for the same hits"
_EQUAL_WORK: Final = Metric(EQUAL_WORK, "", "speed", "equal work per second", "higher")
# The one row of an op that every plan has, whatever its evictions and copies.
_OWN_OP: Final = ((pl.col("op") == "read") & READS) | FIRST_TOUCH


class TrialSpan(NamedTuple):
    """A trial of a system, and the seconds, begin and end of its span of equal work."""

    system: str
    trial: Trial
    seconds: float
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Measured:
    """A configuration of two systems, with the metrics of each trial over its span of equal work.

    Attributes:
        configuration: the configuration.
        equal: the spans.
        metrics: metrics of each trial by system; empty if runs that were cut cannot be compared.
        requests: the number of requests that ended in the spans of all trials; None if whole runs
            are compared.
    """

    configuration: Configuration
    equal: EqualWork
    metrics: dict[str, list[Metrics]] = field(default_factory=dict)
    requests: int | None = None

    def values(self, system: str, metric: str) -> list[float | None]:
        """Return a metric of each trial of a system over the span of equal work."""
        return [own.get(metric) for own in self.metrics.get(system, [])]

    def explain_missing(self, metric: str) -> str:
        """Return why a metric cannot be compared over these spans; empty if it can."""
        described = describe_compared(metric)
        if described.unit.startswith("tok/s") and not self.equal.same_tokens:
            return "the spans have different tokens per unit of work"
        is_of_few = self.requests is not None and self.requests < LEAST_REQUESTS
        if is_of_few and described.group in _OF_REQUESTS:
            found = f"only {self.requests} requests ended in the spans of both"
            return f"{found}, {LEAST_REQUESTS} are needed: replay longer"
        return ""

    def has_same_load(self, metric: str) -> bool:
        """Return whether both systems asked as much of the tier of a metric."""
        tier = describe_compared(metric).tier
        if tier is None:
            return True
        side = next((side for side in TOUCHES if f"_{side}_" in metric), "read")
        means = [
            statistics.fmean(value or 0.0 for value in self.values(system, f"{tier}_{side}_bytes"))
            for system in self.metrics
        ]
        return max(means) - min(means) <= SAME * max(means)


def describe_compared(metric: str) -> Metric:
    """Return the description of a metric, or of equal work, which no summary has."""
    return _EQUAL_WORK if metric == EQUAL_WORK else describe(metric)


def measure_configuration(configuration: Configuration, metrics: Iterable[str]) -> Measured:
    """Measure the trials of two systems over the spans in which they did equal work.

    Args:
        configuration: with two systems.
        metrics: the names of the metrics wanted.

    Raises:
        InputError: a log cannot be read.
    """
    unit: Unit = "bytes" if configuration.same_plan else "tokens"
    works = {system: [read_work(trial.run, unit) for trial in own] for system, own in configuration.trials.items()}
    equal = find_equal_work(works, unit)
    is_free = configuration.first.conditions.prefill_tok_s is None
    # Without a speed of prefill a miss is free, and the system that misses more looks faster.
    if not equal.reason and unit == "tokens" and is_free and not equal.same_misses:
        equal = replace(equal, reason=_FREE, remedy=_PRICE)
    if equal.reason:
        return Measured(configuration, equal)
    spans = [
        TrialSpan(system, trial, seconds, work.begin_ns, work.begin_ns + round(seconds * 1e9))
        for system, trials in configuration.trials.items()
        for trial, work, seconds in zip(trials, works[system], equal.spans_s[system], strict=True)
    ]
    # Spans that end with their runs have the metrics of the summaries, which are computed already.
    is_whole = all(span.end_ns >= work.last_ns for span, work in zip(spans, chain(*works.values()), strict=True))
    requests = None if is_whole else _find_common_requests(spans)
    # Loads of tiers decide whether their metrics are judged, so their bytes are measured, too.
    bytes_of_tiers = (f"{tier}_{side}_bytes" for tier in TIERS for side in TOUCHES)
    groups = {describe(name).group for name in (*metrics, *bytes_of_tiers)} & METRICS.keys()
    measured: dict[str, list[Metrics]] = {system: [] for system in works}
    for span in spans:
        summary = span.trial.summary
        own = summary.numbers if requests is None else summary.facts | _measure_span(span, groups, requests)
        measured[span.system].append(own | {EQUAL_WORK: equal.amount / span.seconds})
    count = len(requests) if requests is not None and equal.is_cut else None
    return Measured(configuration, equal, measured, count)


def _find_common_requests(spans: Iterable[TrialSpan]) -> pl.DataFrame:
    """Return rank and id of the requests that all trials began and ended in their spans."""
    tallies = []
    for span in spans:
        own = pl.concat(span.trial.run.shifted_rows()).filter(~FOR_OTHERS)
        tally = own.group_by("rank", "request_id").agg(
            _OWN_OP.sum().alias("ops"), pl.col("start_ns").min(), pl.col("end_ns").max()
        )
        is_inside = (pl.col("start_ns") >= span.begin_ns) & (pl.col("end_ns") <= span.end_ns)
        tallies.append(tally.filter(is_inside).collect(engine="streaming"))
    # A request with fewer ops in one of the logs was begun before its window.
    common = reduce(lambda one, other: one.join(other, on=["rank", "request_id", "ops"], how="semi"), tallies)
    return common.select("rank", "request_id")


def _measure_span(span: TrialSpan, groups: Set[str], requests: pl.DataFrame) -> Metrics:
    """Compute groups of metrics of a run as though it had been cut at the end of a span."""
    log = span.trial.run.make_log()
    rows = log.every_move.filter(pl.col("start_ns") < span.end_ns).collect()
    # Only requests that ended in every trial: the slower run would lose its slowest ones otherwise.
    chosen = rows.join(requests, on=["rank", "request_id"], how="semi")
    ended = rows.filter(pl.col("end_ns") <= span.end_ns)  # others end in a drain or among later moves
    parts = ((rows, groups - _OF_MOVES - _OF_REQUESTS), (ended, groups & _OF_MOVES), (chosen, groups & _OF_REQUESTS))
    values: Metrics = {}
    for kept, own in parts:
        if own:
            values |= measure(log.cut(kept, (span.begin_ns, span.end_ns)), groups=own)
    return values


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
    chance: float = 1.0
    verdict: Verdict = "no verdict"
    winner: str | None = None
    why: str = ""


def compute_ratios(
    measured: Sequence[Measured],
    systems: tuple[str, str],
    metrics: Iterable[str],
    family: Collection[str] = FAMILY,
    withheld: str = "",
) -> dict[str, Ratio]:
    """Compute the ratios of metrics between two systems, over all configurations.

    Args:
        measured: configurations of both systems that can be compared, at least one.
        systems: the one above the line, and the one below.
        metrics: names of metrics.
        family: those that are judged together, after Holm's correction.
        withheld: why there are no verdicts; empty if there are.
    """
    ratios = {metric: _compute_ratio(measured, systems, metric) for metric in (EQUAL_WORK, *metrics)}
    known = [one for one in ratios.values() if one.better and one.low is not None]
    # The claim was chosen beforehand and is judged by itself; the others share the chance of an error.
    together = [one for one in known if one.metric in family and one.metric not in PRIMARY]
    adjusted = adjust_by_holm([one.chance for one in together])
    chances = {one.metric: one.chance for one in known if one.metric in PRIMARY}
    chances |= zip((one.metric for one in together), adjusted, strict=True)
    for one in known:
        if one.metric not in chances:
            ratios[one.metric] = replace(one, verdict="not judged", why=ONLY_SHOWN)
        elif withheld:
            ratios[one.metric] = replace(one, why=withheld)
        elif chances[one.metric] >= _LEVEL:
            ratios[one.metric] = replace(one, verdict="not apart")
        else:
            is_a = ((one.ratio or 1.0) > 1) == (one.better == "higher")
            ratios[one.metric] = replace(one, verdict="apart", winner=systems[0 if is_a else 1])
    return ratios


def _compute_ratio(measured: Sequence[Measured], systems: tuple[str, str], metric: str) -> Ratio:
    """Compute a ratio with its interval; the verdict on it depends on other metrics."""
    better, why = describe_compared(metric).better_system, ""
    if better and not all(one.has_same_load(metric) for one in measured):
        better, why = None, _OTHER_LOAD
    strata: list[Stratum] = []
    means: list[float | None] = [None, None]
    for one in measured:
        if missing := one.explain_missing(metric):
            why = missing
            continue
        values = [one.values(system, metric) for system in systems]
        first, second = ([value for value in own if value is not None] for own in values)
        means = [statistics.fmean(own) if own else None for own in (first, second)]
        # A logarithm needs a value above 0 of every trial.
        if [first, second] == values and min(first + second) > 0:
            strata.append((first, second))
    found = Ratio(
        metric,
        *systems,
        better,
        means=(means[0], means[1]) if len(measured) == 1 else (None, None),
        verdict="no verdict" if better else "not judged",
    )
    if not strata:
        return replace(found, why=why or "missing or 0 in a trial")
    is_cut = any(one.equal.is_cut for one in measured)
    # The error that cutting makes is the same in all trials, so their spread does not show it.
    estimate = estimate_ratio(strata, CUT_ERROR if is_cut else 0.0)
    low, high = estimate.find_ends() or (None, None)
    return replace(
        found,
        configurations=len(strata),
        ratio=math.exp(estimate.log),
        low=low,
        high=high,
        chance=estimate.chance,
        why=why or (_explain_no_interval(measured, systems) if better and low is None else ""),
    )


def _explain_no_interval(measured: Sequence[Measured], systems: tuple[str, str]) -> str:
    """Explain why two systems have no interval."""
    each = [one.configuration.trials for one in measured]
    predicted = [system for system in systems if each[0][system][0].summary.prediction is not None]
    if predicted:
        return "predicted" if len(predicted) == 2 else f"{predicted[0]} is predicted"
    single = [system for system in systems if any(len(trials[system]) == 1 for trials in each)]
    return "one trial each" if len(single) == 2 else f"one trial of {single[0]}"
