"""Autoscale: find how many users a system carries, by replays, or predictions, of them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from replayer.experiments import children
from replayer.experiments.prediction import PredictorRow
from replayer.experiments.replay_series import Series
from replayer.experiments.search_settings import READ_LATENCY, SearchMetric, SearchMode, SearchSettings
from replayer.experiments.steps import MeasuredTrial, Result, ResultRow, Step, StepRow, Target
from replayer.experiments.user_search import ALL_USERS, Search, SearchLimits
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from tracegen.errors import ToolError, format_count
from tracegen.schema import Trace

_DIRECTIONS: Final = ("read", "write")


class SearchedTrace(TypedDict):
    """The trace of a search in autoscale.json."""

    path: str
    fingerprint: str


class SearchReport(TypedDict):
    """The content of autoscale.json."""

    mode: SearchMode
    metric: str
    least_samples: int
    target: float | None
    target_is: Literal["at_most", "at_least"] | None
    target_saturation: float | None
    trace: SearchedTrace
    flags: list[str]
    duration_s: float
    prediction: PredictorRow | None
    autoscaling_stats: list[StepRow]
    result: ResultRow
    warnings: list[str]


def autoscale(
    settings: SearchSettings, metric: SearchMetric, series: Series, report: Callable[[Step], object]
) -> SearchReport:
    """Search, and write autoscale.json and report.html to the series' directory.

    Args:
        settings: of the search.
        metric: of the settings.
        series: makes the replays.
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
    search = Search(settings.metric, replays.measure, _find_limits(settings, metric, trace), report)
    if settings.mode == "qos":
        result = search.find_most_users(Target(settings.target, at_most=metric.at_most))
    else:
        result = search.find_peak()
    if settings.predictor is not None:
        result = replace(result, text=f"{settings.predictor.describe()}: {result.text}")
    content = _compose_report(settings, metric, trace, search.steps, result)
    content["warnings"] = replays.warnings(search.steps, result)
    record = series.directory / "autoscale.json"
    record.write_text(json.dumps(content, indent=1) + "\n")
    _report_search(record, series)
    return content


def _report_search(record: Path, series: Series) -> None:
    """Write report.html; warn if that fails, as the search is complete."""
    try:
        children.write_page(str(record), directory=record.parent, display=series.display)
    except children.ChildFailedError as error:
        series.display.warn(f"no report.html: {error}")


def _find_limits(settings: SearchSettings, metric: SearchMetric, trace: Trace) -> SearchLimits:
    """Return the bounds of a search over the users that a trace has."""
    users_of_trace = trace.metadata.counts.get("users") or 1
    most = min(settings.users or users_of_trace, users_of_trace)
    ceiling = ALL_USERS
    if most < users_of_trace:
        ceiling = f"The search was limited to {format_count(most, 'user')}: more may show more"
    return SearchLimits(
        users=most,
        trials=settings.trials,
        precision=settings.precision,
        least=metric.least,
        must_last=settings.mode == "capacity",
        near=settings.near,
        ceiling=ceiling,
    )


def _compose_report(
    settings: SearchSettings, metric: SearchMetric, trace: Trace, steps: Sequence[Step], result: Result
) -> SearchReport:
    """Return the content of autoscale.json, without warnings."""
    is_qos = settings.mode == "qos"
    target_is: Literal["at_most", "at_least"] = "at_most" if metric.at_most else "at_least"
    return {
        "mode": settings.mode,
        "metric": settings.metric,
        "least_samples": metric.least,
        "target": settings.target if is_qos else None,
        "target_is": target_is if is_qos else None,
        "target_saturation": None if is_qos else settings.near,
        "trace": {"path": str(settings.trace), "fingerprint": trace.metadata.fingerprint},
        "flags": list(settings.flags),
        "duration_s": settings.duration_s,
        "prediction": None if settings.predictor is None else settings.predictor.row(),
        "autoscaling_stats": [step.row() for step in steps],
        "result": result.row(),
        "warnings": [],
    }


class _Replays:
    """The replays of a search, and what is doubtful about them.

    Attributes:
        ended: users with whom the trace ended before the time limit.
        doubts: by kind and advice, the text of each replay that has it.
    """

    def __init__(self, settings: SearchSettings, metric: SearchMetric, series: Series) -> None:
        self.ended: set[int] = set()
        self.doubts: dict[tuple[str, str], dict[str, str]] = {}
        self._settings = settings
        self._metric = metric
        self._series = series

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
        run = self._series.replay(name, self._settings.trace, flags, self._settings.predictor)
        has_ended = read_run(run).cut_s is None
        if has_ended:
            self.ended.add(users)
        summary = children.summarise_run(run, self._series.display)
        for doubt in summary["doubts"]:
            self.doubts.setdefault((doubt["kind"], doubt["advice"]), {})[name] = doubt["text"]
        return _read_trial(summary, self._metric, ended=has_ended)

    def warnings(self, steps: Sequence[Step], result: Result) -> list[str]:
        """Return sentences on what makes the search doubtful."""
        replays = sum(len(step.trials) + len(step.short_trials) for step in steps)
        sentences = []
        if self.ended:
            users = _join_numbers(sorted(self.ended))
            verb = "rests" if result.users in self.ended else "does not rest"
            sentences.append(
                f"the trace ended before the time limit with {users} (the answer {verb} on them);"
                " replay several cycles or a longer trace."
            )
        for (kind, advice), texts in self.doubts.items():
            name, text = list(texts.items())[-1]
            share = f"{len(texts)} of {format_count(replays, 'replay')}"
            sentences.append(f"{kind}: {share}, {name} for example: {text}; {advice}.")
        return sentences


def _join_numbers(users: Sequence[int]) -> str:
    """Return 1, 2 and 4 users."""
    *first, last = users
    return f"{', '.join(map(str, first))} and {last} users" if first else format_count(last, "user")


def _read_trial(summary: dict[str, Any], metric: SearchMetric, *, ended: bool) -> MeasuredTrial:
    """Return the measurements in a run's summary.

    Raises:
        ToolError: the run is not valid.
    """
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
