"""Autoscale: find how many users a system carries, by replays, or predictions, of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from replayer.experiments import children
from replayer.experiments.series import ReplayMeans, Series
from replayer.experiments.steps import MeasuredTrial, Result, Step, Target
from replayer.experiments.user_search import NEAR_PEAK, Search, SearchLimits, join_users
from replayer.live.figures import Screen
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from tracegen.errors import InputError, ToolError, format_count
from tracegen.schema import Trace

SearchMode = Literal["qos", "capacity"]

LATENCY: Final = "ttfb_p95_ms"
THROUGHPUT: Final = "steady_nvme_read_gib_s+steady_nvme_write_gib_s"
READ_LATENCY: Final = "nvme_read_p95_ms"
_DIRECTIONS: Final = ("read", "write")
_KINDS: Final = {"measured": "", "data sheet": "a data sheet, ", "estimated": "an estimate, "}


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
    better = {name: directions.get(name) for name in names}
    _check_directions(settings, better)
    return SearchMetric(
        names=names,
        at_most=better[names[0]] == "lower",
        counts=tuple(facts["counted_by"] for facts in samples if facts["counted_by"]),
        least=max(facts["least"] for facts in samples),
    )


def _check_directions(settings: SearchSettings, better: dict[str, str | None]) -> None:
    """Refuse metrics without a direction, sums of several, and one whose peak is not the best value."""
    subject = settings.metric
    if aimless := next((name for name, direction in better.items() if direction is None), None):
        subject = aimless
        problem, remedy = "neither higher nor lower values are better", "name a latency, rate or share"
    elif len(set(better.values())) > 1:
        problem, remedy = "higher is better for one of them, lower for another", "name one of them"
    elif settings.mode == "capacity" and "lower" in better.values():
        problem, remedy = "lower is better, and capacity looks for a peak", "name a rate"
    else:
        return
    raise InputError(problem, remedy, setting="metric", subject=subject)


def autoscale(
    settings: SearchSettings,
    metric: SearchMetric,
    series: Series,
    means: ReplayMeans,
    report: Callable[[Step], object],
) -> dict[str, Any]:
    """Search, and write autoscale.json and report.html to the series' directory.

    Args:
        settings: of the search.
        metric: of the settings.
        series: makes the replays.
        means: of the series.
        report: gets each step when the search has decided about it.

    Returns:
        The content of autoscale.json.

    Raises:
        InputError: the trace cannot be read.
        ChildFailedError: a replay failed.
        ToolError: a replay is not valid.
    """
    trace = Trace(settings.trace)
    replays = _Replays(settings, metric, series)
    is_qos = settings.mode == "qos"
    users_of_trace = trace.metadata.counts.get("users") or 1
    limits = SearchLimits(
        users=min(settings.users or users_of_trace, users_of_trace),
        trials=settings.trials,
        precision=settings.precision,
        least=metric.least,
        must_last=not is_qos,
        near=settings.near,
    )
    search = Search(settings.metric, replays.measure, limits, report)
    target = Target(settings.target, at_most=metric.at_most)
    result = search.find_most_users(target) if is_qos else search.find_peak()
    if means.system is not None:
        result = replace(result, text=f"{describe_prediction(means)}: {result.text}")
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
        "result": vars(result),
        "warnings": replays.list_warnings(search.steps, result),
    }
    record = series.directory / "autoscale.json"
    record.write_text(json.dumps(content, indent=1) + "\n")
    try:
        page = str(series.directory / "report.html")
        children.run_analysis("report", str(record), "-o", page, "--force", screen=series.screen)
    except children.ChildFailedError as error:  # the search is complete all the same
        series.screen.warn(f"no report.html: {error}")
    return content


def describe_prediction(means: ReplayMeans) -> str:
    """Describe the profile that replays are predicted from."""
    assert means.system is not None
    profile = means.system.profile
    speeds = "".join(f", {tier} × {speed:g}" for tier, speed in means.system.speeds.items())
    return f"predicted from {_KINDS[profile.kind]}the profile {profile.name}{speeds}"


class _Replays:
    """The replays of a search, and what is doubtful about them."""

    def __init__(self, settings: SearchSettings, metric: SearchMetric, series: Series) -> None:
        self._settings = settings
        self._metric = metric
        self._series = series
        self._ended = set[int]()  # users with whom the trace ended before the time limit
        self._doubts: dict[tuple[str, str], dict[str, str]] = {}  # text by replay, of kind and advice

    def measure(self, users: int, trial: int, stretch: int) -> MeasuredTrial:
        """Replay a trial, and return its measurements.

        Args:
            users: the trace's first ones.
            trial: number of the trial in its step.
            stretch: its duration over the one asked for.

        Raises:
            ChildFailedError: the replay failed.
            ToolError: the run is not valid.
        """
        name = f"users_{users}/trial_{trial}"
        if stretch > 1:
            name += f"-{stretch}_times_longer"
        duration = f"{self._settings.duration_s * stretch:g}"
        flags = (*self._settings.flags, "--duration", duration, "--users", str(users))
        run = self._series.replay(name, self._settings.trace, flags)
        has_ended = read_run(run).cut_s is None
        if has_ended:
            self._ended.add(users)
        printed = children.run_analysis("summary", str(run), "--json", screen=self._series.screen)
        summary = json.loads(printed)
        for doubt in summary["doubts"]:
            self._doubts.setdefault((doubt["kind"], doubt["advice"]), {})[name] = doubt["text"]
        return _read_trial(summary, self._metric, ended=has_ended)

    def list_warnings(self, steps: Sequence[Step], result: Result) -> list[str]:
        """Return sentences on what makes the search doubtful."""
        replays = sum(len(step.trials) + len(step.short_trials) for step in steps)
        sentences = []
        if self._ended:
            verb = "rests" if result.users in self._ended else "does not rest"
            sentences.append(
                f"the trace ended before the time limit with {join_users(sorted(self._ended))}"
                f" (the answer {verb} on them); replay several cycles or a longer trace."
            )
        for (kind, advice), texts in self._doubts.items():
            name, text = list(texts.items())[-1]
            share = f"{len(texts)} of {format_count(replays, 'replay')}"
            sentences.append(f"{kind}: {share}, {name} for example: {text}; {advice}.")
        return sentences


def _read_trial(summary: dict[str, Any], metric: SearchMetric, *, ended: bool) -> MeasuredTrial:
    """Return the measurements in a run's summary; a ToolError says that the run is not valid."""
    if not summary["valid"]:
        problem = f"not valid: {'; '.join(summary['findings'])}"
        raise ToolError(problem, "mend the cause, then repeat the command", subject=summary["run"])
    return MeasuredTrial(
        value=sum_if_measured([summary["more_than"].get(name, summary[name]) for name in metric.names]),
        throughput=sum_if_measured([summary[f"steady_nvme_{direction}_gib_s"] for direction in _DIRECTIONS]),
        p95_ms=summary[READ_LATENCY],
        saturation=_find_saturation(summary),
        run=summary["run"],
        count=min((summary[name] for name in metric.counts), default=None),
        reads=summary["nvme_reads"],
        ended=ended,
        predicted=summary["predicted"],
    )


def sum_if_measured(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if a value was not measured."""
    measured = [value for value in values if value is not None]
    return sum(measured) if len(measured) == len(values) else None


def _find_saturation(summary: dict[str, Any]) -> float:
    """Return the share of time in which the busiest tier moved data.

    Other tiers than nvme count in their busier direction: the rate over all time is that share of
    the rate while the tier was busy.
    """
    names = [f"{tier}_{direction}" for tier in TIERS if tier != "nvme" for direction in _DIRECTIONS]
    rates = [(summary[f"{name}_gib_s"], summary[f"{name}_busy_gib_s"]) for name in names]
    shares = [rate / busy_rate for rate, busy_rate in rates if rate and busy_rate]
    return float(min(1.0, max([summary["nvme_busy_share"] or 0.0, *shares])))
