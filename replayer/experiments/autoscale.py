"""Autoscale: find how many users a system carries, by replays, or predictions, of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from replayer.experiments import children
from replayer.experiments.series import ReplayMeans, Series
from replayer.experiments.steps import MeasuredTrial, Step, Target
from replayer.experiments.user_search import NEAR_PEAK, Search, SearchLimits, SearchMode, join_users
from replayer.record.options import TIERS
from replayer.record.reading import read_run
from replayer.run.figures import Screen
from tracegen.errors import InputError, ToolError, format_count
from tracegen.schema import Trace

READ_LATENCY: Final = "nvme_read_p95_ms"
_DIRECTIONS: Final = ("read", "write")


@dataclass(frozen=True)
class SearchSettings:
    """The goal of a search and its limits; series.json of its directory holds these names.

    Attributes:
        trace: to replay.
        mode: qos: the most users that meet the target; capacity: where throughput peaks.
        metric: of `analysis summary`; several joined by + are added.
        target: bound on the metric, in its unit; for qos.
        users: the most to try; None: all of the trace.
        trials: the most per step.
        precision: bisection ends if the bounds are this close, as a share of the lower one.
        duration_s: time limit of a replay.
        flags: of `replayer run`, for every replay.
        near: share of the peak that the fewest users must reach; for capacity.
    """

    trace: Path
    mode: SearchMode
    metric: str
    target: float
    users: int | None
    trials: int
    precision: float
    duration_s: float
    flags: tuple[str, ...]
    near: float = NEAR_PEAK


@dataclass(frozen=True)
class SearchMetric:
    """The metric that a search goes by, as `analysis metrics` describes it.

    Attributes:
        names: of the metrics to add.
        at_most: whether lower is better, so that a target is an upper limit.
        counts: names of the metrics that count the samples of each.
        least: samples that a value must rest on.
    """

    names: tuple[str, ...]
    at_most: bool
    counts: tuple[str, ...]
    least: int


def describe_metric(settings: SearchSettings, screen: Screen) -> SearchMetric:
    """Return what analysis says about the metric of a search.

    Raises:
        InputError: no search can go by this metric.
        ChildFailedError: there is no metric with this name.
    """
    names = tuple(settings.metric.split("+"))
    terms = json.loads(children.run_analysis("metrics", "--json", *names, screen=screen))
    directions = {name: term["better"] for term in terms for name in term["names"]}
    samples = [facts for term in terms for name, facts in term["samples"].items() if name in names]
    better = {directions.get(name) for name in names}
    if problem := _find_problem(better, settings.mode):
        raise InputError(*problem, setting="metric", subject=settings.metric)
    return SearchMetric(
        names=names,
        at_most="lower" in better,
        counts=tuple(facts["counted_by"] for facts in samples if facts["counted_by"]),
        least=max(facts["least"] for facts in samples),
    )


def _find_problem(better: set[str | None], mode: SearchMode) -> tuple[str, str] | None:
    """Return why no search can go by metrics with these directions, and the remedy; None: it can."""
    if None in better:
        return "neither higher nor lower values are better", "name a latency, rate or share"
    if len(better) > 1:
        return "higher is better for one of them, lower for another", "name one of them"
    if mode == "capacity" and "lower" in better:
        return "lower is better, and capacity looks for a peak", "name a rate"
    return None


def autoscale(
    settings: SearchSettings, metric: SearchMetric, series: Series, means: ReplayMeans, report: Callable[[Step], object]
) -> Path:
    """Search, and write autoscale.json to the series' directory; return its path.

    Args:
        settings: of the search.
        metric: of the settings.
        series: makes the replays.
        means: of the series.
        report: gets each step when the search has decided about it.

    Raises:
        InputError: the trace cannot be read.
        ChildFailedError: a replay failed.
        ToolError: a replay is not valid.
    """
    trace = Trace(settings.trace)
    replays = _Replays(settings, metric, series)
    is_qos = settings.mode == "qos"
    # Traces of other labs may not count users.
    users_of_trace = trace.metadata.counts.get("users") or 1
    limits = SearchLimits(
        users=min(settings.users or users_of_trace, users_of_trace),
        trials=settings.trials,
        precision=settings.precision,
        near=settings.near,
    )
    search = Search(replays.measure, limits, report)
    target = Target(settings.target, at_most=metric.at_most)
    result = search.find_most_users(target) if is_qos else search.find_peak()
    content = {
        "mode": settings.mode,
        "metric": settings.metric,
        "least_samples": metric.least,
        "target": settings.target if is_qos else None,
        "target_is": ("at_most" if metric.at_most else "at_least") if is_qos else None,
        "target_saturation": None if is_qos else settings.near,
        "trace": {"path": str(settings.trace), "fingerprint": trace.metadata.fingerprint},
        "flags": list(settings.flags),
        "duration_s": settings.duration_s,
        "prediction": means.record().get("prediction"),
        "autoscaling_stats": [step.row() for step in search.steps],
        "result": {**vars(result), "sure": not result.doubts},
        "warnings": replays.list_warnings(search.steps),
    }
    record = series.directory / "autoscale.json"
    record.write_text(json.dumps(content, indent=1) + "\n")
    return record


class _Replays:
    """The replays of a search, and what is doubtful about them."""

    def __init__(self, settings: SearchSettings, metric: SearchMetric, series: Series) -> None:
        self._settings = settings
        self._metric = metric
        self._series = series
        self._ended = set[int]()  # users with whom the trace ended before the time limit
        self._doubts: dict[tuple[str, str], list[str]] = {}  # texts by kind and advice

    def measure(self, users: int, trial: int) -> MeasuredTrial:
        """Replay a trial of the trace's first users, and return its measurements.

        Raises:
            ChildFailedError: the replay failed.
            ToolError: the run is not valid.
        """
        duration = f"{self._settings.duration_s:g}"
        flags = (*self._settings.flags, "--duration", duration, "--users", str(users))
        run = self._series.replay(f"users_{users}/trial_{trial}", self._settings.trace, flags)
        has_ended = read_run(run).cut_s is None
        if has_ended:
            self._ended.add(users)
        printed = children.run_analysis("summary", str(run), "--json", screen=self._series.screen)
        summary = json.loads(printed)
        for doubt in summary["doubts"]:
            self._doubts.setdefault((doubt["kind"], doubt["advice"]), []).append(doubt["text"])
        # A peak is one of throughput, which falls when users have nothing left to ask.
        is_cut_short = has_ended and self._settings.mode == "capacity"
        return _read_trial(summary, self._metric, is_cut_short=is_cut_short)

    def list_warnings(self, steps: Sequence[Step]) -> list[dict[str, str]]:
        """Return what makes the search doubtful, with the fields of the answer's doubts."""
        replays = sum(len(step.trials) for step in steps)
        warnings = [
            {
                "headline": kind,
                "text": f"{texts[-1]}, for example",
                "advice": advice,
                "runs": f"{len(texts)} of {format_count(replays, 'replay')}",
            }
            for (kind, advice), texts in self._doubts.items()
        ]
        if self._ended:
            text = f"before the time limit with {join_users(sorted(self._ended))}"
            advice = "replay several cycles or a longer trace"
            warnings.append({"headline": "the trace ended", "text": text, "advice": advice})
        return warnings


def _read_trial(summary: dict[str, Any], metric: SearchMetric, *, is_cut_short: bool) -> MeasuredTrial:
    """Return the measurements in a run's summary; a ToolError says that the run is not valid."""
    if not summary["valid"]:
        problem = f"not valid: {'; '.join(summary['findings'])}"
        raise ToolError(problem, "mend the cause, then repeat the command", subject=summary["run"])
    count = min((summary[name] for name in metric.counts), default=None)
    return MeasuredTrial(
        value=sum_if_measured([summary["more_than"].get(name, summary[name]) for name in metric.names]),
        throughput=sum_if_measured([summary[f"steady_nvme_{direction}_gib_s"] for direction in _DIRECTIONS]),
        p95_ms=summary[READ_LATENCY],
        saturation=_find_saturation(summary),
        run=summary["run"],
        count=count,
        reads=summary["nvme_reads"],
        is_enough=not is_cut_short and (count is None or count >= metric.least),
    )


def sum_if_measured(values: Sequence[Any]) -> float | None:
    """Return the sum of numbers; None if one was not measured."""
    return None if None in values else sum(values)


def _find_saturation(summary: dict[str, Any]) -> float:
    """Return the share of time in which the busiest tier moved data.

    Other tiers than nvme count in their busier direction: the rate over all time is that share of
    the rate while the tier was busy.
    """
    names = [f"{tier}_{direction}" for tier in TIERS if tier != "nvme" for direction in _DIRECTIONS]
    rates = [(summary[f"{name}_gib_s"], summary[f"{name}_busy_gib_s"]) for name in names]
    shares = [rate / busy_rate for rate, busy_rate in rates if rate and busy_rate]
    return float(min(1.0, max([summary["nvme_busy_share"] or 0.0, *shares])))
