"""Metrics of two systems over spans of equal work, of each trial."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final

import polars as pl

from analysis.comparison.matching import Configuration
from analysis.comparison.spans import SAME, EqualWork, find_equal_work
from analysis.comparison.work import Unit, Work, read_work
from analysis.log.columns import FIRST_TOUCH, FOR_OTHERS, READS, TOUCHES
from analysis.metrics import METRICS
from analysis.metrics.catalogue import CATALOGUE
from analysis.runs.run import Run
from analysis.summary.run_summary import Metrics
from analysis.summary.summary import measure
from replayer.schema import TIERS

EQUAL_WORK: Final = "equal_work"
"""The name of the first ratio: work per second over the spans of equal work, in bytes or tokens."""
LEAST_REQUESTS: Final = 200
"""The fewest requests that ended in every trial by which times of requests are compared."""
_OF_REQUESTS: Final = frozenset(("waits", "qos"))
"""Groups of metrics that are times of requests."""
_OF_MOVES: Final = frozenset(("latency",))
"""Groups of metrics that are times of moves."""
_FREE: Final = "one system missed more of the tokens, and computing them takes no time in these runs"
_PRICE: Final = "replay with the speed of prefill (`prefill_tok_s`), or with room for the same hits"
_OWN_OP: Final = ((pl.col("op") == "read") & READS) | FIRST_TOUCH
"""The one row of an op that every plan has."""


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
        unit = CATALOGUE[metric].unit if metric in CATALOGUE else ""
        if unit.startswith("tok/s") and not self.equal.same_tokens:
            return "the spans have different tokens per unit of work"
        is_of_requests = metric in CATALOGUE and CATALOGUE[metric].group in _OF_REQUESTS
        if is_of_requests and self.requests is not None and self.requests < LEAST_REQUESTS:
            return (
                f"only {self.requests} requests ended in the spans of both, {LEAST_REQUESTS} are needed: replay longer"
            )
        return ""

    def has_same_load(self, metric: str) -> bool:
        """Return whether both systems asked as much of the tier of a metric."""
        described = CATALOGUE.get(metric)
        if described is None or described.tier is None:
            return True
        side = next((side for side in TOUCHES if f"_{side}_" in metric), "read")
        sums = [
            sum(value or 0.0 for value in self.values(system, f"{described.tier}_{side}_bytes"))
            / max(len(self.metrics[system]), 1)
            for system in self.metrics
        ]
        return max(sums) - min(sums) <= SAME * max(sums)


def measure_configuration(configuration: Configuration, metrics: Iterable[str]) -> Measured:
    """Measure the trials of two systems over the spans in which they did equal work.

    Args:
        configuration: with two systems.
        metrics: the names of the metrics wanted.

    Raises:
        InputError: a log cannot be read.
    """
    unit: Unit = "bytes" if configuration.same_plan else "tokens"
    works = {
        system: [read_work(trial.run, unit) for trial in trials] for system, trials in configuration.trials.items()
    }
    equal = find_equal_work(works, unit)
    is_free = configuration.conditions.load.prefill_tok_s is None
    if not equal.reason and unit == "tokens" and is_free and not equal.same_misses:
        equal = replace(equal, reason=_FREE, remedy=_PRICE)
    if equal.reason:
        return Measured(configuration, equal)
    if not equal.has_ends_before(works):
        whole = {system: [trial.summary.numbers for trial in own] for system, own in configuration.trials.items()}
        return Measured(configuration, equal, _add_rates(equal, whole))
    groups = {CATALOGUE[name].group for name in _list_needed(metrics)} & METRICS.keys()
    requests = _find_common_requests(configuration, works, equal)
    sliced: dict[str, list[Metrics]] = {}
    for system, trials in configuration.trials.items():
        each = zip(trials, works[system], equal.ends_ns[system], strict=True)
        spans = ((trial, (work.begin_ns, end_ns)) for trial, work, end_ns in each)
        sliced[system] = [
            trial.summary.facts | _measure_span(trial.run, span, groups, requests) for trial, span in spans
        ]
    count = len(requests) if equal.is_cut else None
    return Measured(configuration, equal, _add_rates(equal, sliced), count)


def _list_needed(metrics: Iterable[str]) -> list[str]:
    """Return the metrics that functions compute, and the bytes that were asked of tiers."""
    bytes_of_tiers = [f"{tier}_{side}_bytes" for tier in TIERS for side in TOUCHES]
    return [name for name in (*metrics, *bytes_of_tiers) if name in CATALOGUE]


def _add_rates(
    equal: EqualWork,
    metrics: Mapping[str, Sequence[Metrics]],
) -> dict[str, list[Metrics]]:
    """Add the rate of equal work to the metrics of each trial."""
    return {
        system: [
            {**own, EQUAL_WORK: equal.amount / span if span > 0 else None}
            for own, span in zip(trials, equal.spans_s[system], strict=True)
        ]
        for system, trials in metrics.items()
    }


def _find_common_requests(
    configuration: Configuration, works: Mapping[str, Sequence[Work]], equal: EqualWork
) -> pl.DataFrame:
    """Return rank and id of the requests that all trials began and ended in their spans."""
    tallies = [
        _tally_requests(trial.run, work.begin_ns, end_ns)
        for system, trials in configuration.trials.items()
        for trial, work, end_ns in zip(trials, works[system], equal.ends_ns[system], strict=True)
    ]
    common = reduce(
        lambda one, other: one.join(other, on=["rank", "request_id", "ops"], how="semi"),
        tallies,
    )
    return common.select("rank", "request_id")


def _tally_requests(run: Run, begin_ns: int, end_ns: int) -> pl.DataFrame:
    """Return rank, id and number of ops of the requests that began and ended in a span."""
    own = pl.concat(run.shifted_rows()).filter(~FOR_OTHERS)
    tally = own.group_by("rank", "request_id").agg(
        _OWN_OP.sum().alias("ops"), pl.col("start_ns").min(), pl.col("end_ns").max()
    )
    return tally.filter(
        (pl.col("start_ns") >= begin_ns) & (pl.col("end_ns") <= end_ns),
    ).collect(engine="streaming")


def _measure_span(
    run: Run,
    span_ns: tuple[int, int],
    groups: Set[str],
    requests: pl.DataFrame,
) -> Metrics:
    """Compute metrics of a run as though it had been cut at the end of a span.

    Args:
        run: an opened run.
        span_ns: begin and end.
        groups: the functions of METRICS to call.
        requests: those whose times count.
    """
    log = run.make_log()
    rows = log.every_move.filter(pl.col("start_ns") < span_ns[1]).collect()
    chosen = rows.join(requests, on=["rank", "request_id"], how="semi")
    ended = rows.filter(pl.col("end_ns") <= span_ns[1])  # others end in a drain or among later moves
    values: Metrics = {}
    for kept, own in (
        (rows, groups - _OF_MOVES - _OF_REQUESTS),
        (ended, groups & _OF_MOVES),
        (chosen, groups & _OF_REQUESTS),
    ):
        if own:
            values |= measure(log.cut(kept, span_ns), groups=own)
    return values
