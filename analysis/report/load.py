"""Latency against load: runs that differ in their speed-up or their users, as points of curves."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import polars as pl
from msgspec.structs import replace

from analysis.comparison.intervals import Statistics, summarise_metric
from analysis.report.systems import DRAWN, Gathered, Subject, group_runs, mark_predicted, name_groups, pick_valid
from analysis.report.tables import make_figure
from analysis.summary.run_summary import Summary
from replayer.schema import to_plain
from tracegen.schema import ENUMS
from views.answer import Axis, Chart, Figure, Rule
from views.numbers import format_number, format_value
from views.sentences import say_limit
from views.text import list_figure

LoadAxis = Literal["speedup", "users"]
BEHIND: Final = "fell behind"
"""The doubt on a run whose requests waited longer and longer."""
WAIT: Final = "ttfb_p95_ms"
RATE: Final = "requests_per_s"
PERCENTILES: Final = {"P50": "ttfb_p50_ms", "P95": WAIT, "P99": "ttfb_p99_ms"}
_WAIT: Final = "storage part of TTFT"
_TITLES: Final[dict[LoadAxis, str]] = {"speedup": "speed-up of the trace's requests", "users": "users"}
_UNJUDGED: Final = f"No class of requests has a P95 of the {_WAIT} at any load"
# Loads that span at least this factor have a log scale.
_LOG_FROM: Final = 4
# Most curves that are put in words; the chart has all.
_NAMED: Final = 4
_LEAST_MS: Final = 1e-4  # a logarithmic scale has no 0
_READING: Final = (
    "Find the highest load at which the P95 is below its dashed target. Each point is the mean of"
    " the valid trials at one load, the bar through it its 95% interval. Where a point is hollow,"
    " the system fell behind its schedule: requests queue, and latencies there also depend on how"
    " long the run lasts."
)


@dataclass(frozen=True)
class LoadPoint:
    """The trials of one load.

    Attributes:
        load: the speed-up, or the number of users.
        trials: summaries of the valid trials.
    """

    load: float
    trials: list[Summary]

    def summarise(self, metric: str) -> Statistics:
        """Return the statistics of a metric over the trials."""
        return summarise_metric(metric, self.trials)

    @property
    def is_behind(self) -> bool:
        """Whether the system fell behind its schedule in at least half of the trials."""
        # One late trial of many may be an accident of the machine.
        late = sum(any(doubt.kind == BEHIND for doubt in trial.doubts) for trial in self.trials)
        return 2 * late >= len(self.trials)


class LoadCurve(NamedTuple):
    """The loads of one configuration on one machine.

    Attributes:
        name: what tells it from the other curves; empty if there is one.
        points: by ascending load.
    """

    name: str
    points: list[LoadPoint]

    @property
    def is_predicted(self) -> bool:
        """Whether its runs are predicted."""
        return self.points[0].trials[0].prediction is not None

    @property
    def fastest(self) -> LoadPoint:
        """The point at which the most requests are served."""
        return max(self.points, key=lambda point: point.summarise(RATE).mean or 0.0)


class LoadLimit(NamedTuple):
    """The target of a curve that is missed at the lowest load.

    Attributes:
        metric: the P95 that it bounds.
        requests: whose P95 it is, as "interactive requests".
        target: in ms.
        kept: number of loads, from the lowest up, at which it is kept.
    """

    metric: str
    requests: str
    target: float
    kept: int


@dataclass(frozen=True)
class LoadCurves:
    """Curves over one kind of load.

    Attributes:
        axis: the condition that is the load.
        curves: in the order of their first runs.
        runs: the number of their runs, with those that are not valid.
        targets: the target in ms of each class that has requests.
    """

    axis: LoadAxis
    curves: list[LoadCurve]
    runs: int
    targets: dict[str, float]

    def find_limit(self, curve: LoadCurve) -> LoadLimit | None:
        """Find the target of a curve that is missed first; None if no class has a P95 at any load."""
        limits = []
        for name, target in self.targets.items():
            metric = f"{name}_{WAIT}"
            stats = [point.summarise(metric) for point in curve.points]
            if any(one.n for one in stats):
                whose = f"{name} requests" if len(self.targets) > 1 else "requests"
                kept = [one.mean is not None and (one.high or one.mean) <= target for one in stats]
                # A load above one that misses does not count: waiting there may only have been lucky.
                limits.append(LoadLimit(metric, whose, target, [*kept, False].index(False)))
        return min(limits, key=lambda limit: limit.kept, default=None)

    def name_load(self, load: float) -> str:
        """Name a load by its unit."""
        return format_value(load, "users") if self.axis == "users" else f"speed-up {format_number(load)}"


def find_load(data: Gathered) -> LoadCurves | None:
    """Find runs that differ in their load alone; None without two loads of a configuration."""
    for axis in _TITLES:
        timed = [
            run
            for run in data.runs
            if run.summary.metrics.get(WAIT) is not None and _find_value(run.summary, axis) is not None
        ]
        groups = group_runs(timed, [_make_key(run, axis) for run in timed]).values()
        found = [(own, points) for own in groups if len(points := _make_points(own, axis)) > 1]
        if found:
            names = _name_curves([own for own, _ in found])
            curves = [LoadCurve(name, points) for name, (_, points) in zip(names, found, strict=True)]
            trials = [trial for curve in curves for point in curve.points for trial in point.trials]
            asked = (name for name in ENUMS["qos"] if summarise_metric(f"{name}_{WAIT}", trials).n)
            bounds = {name: data.targets.qos_ms[name] for name in asked}
            return LoadCurves(axis, curves, sum(len(own) for own, _ in found), bounds)
    return None


def is_one_curve(found: LoadCurves | None, data: Gathered) -> bool:
    """Return whether all systems are loads of one configuration: the curve compares them."""
    return found is not None and len(found.curves) == 1 and found.runs == len(data.runs)


def _find_value(summary: Summary, axis: LoadAxis) -> float | None:
    if axis == "users":
        return summary.users
    conditions = summary.conditions
    return (conditions.speedup or 1.0) if conditions.pace == "open" else None


def _make_points(runs: Sequence[Subject], axis: LoadAxis) -> list[LoadPoint]:
    by_load: dict[float, list[Summary]] = {}
    for run in runs:
        value = _find_value(run.summary, axis)
        if run.summary.is_valid and value is not None:
            by_load.setdefault(value, []).append(run.summary)
    return [LoadPoint(load, by_load[load]) for load in sorted(by_load)]


def _make_key(run: Subject, axis: LoadAxis) -> str:
    """Return what the runs of a curve share: everything but the load, and what follows from it."""
    summary = run.summary
    conditions = to_plain(summary.conditions)
    del conditions[axis]
    if conditions.get("order"):
        del conditions["order"]["ops_digest"]  # the order of ops follows from the load
    fixed = json.dumps(conditions, sort_keys=True)
    # A prediction and a measurement of one work are two curves.
    is_measured = summary.prediction is None
    return str((is_measured, fixed, summary.machine, run.drive, summary.trace_fingerprint))


def _name_curves(curves: Sequence[Sequence[Subject]]) -> list[str]:
    """Name curves by their labels, or by what tells them apart."""
    if len(curves) == 1:
        return [""]
    names = name_groups([pick_valid(runs) for runs in curves])
    return [mark_predicted(name, runs[0]) for name, runs in zip(names, curves, strict=True)]


def make_load_title(found: LoadCurves) -> str:
    """Return the title: the loads from the lowest to the highest."""
    loads = [point.load for curve in found.curves for point in curve.points]
    return f"Latency against load: {found.name_load(min(loads))} to {max(loads):g}"


def describe_curves(found: LoadCurves) -> str:
    """Say up to which load targets are kept, what follows, and where the system fell behind."""
    first = found.curves[0]
    limits = [(curve, limit) for curve in found.curves if (limit := found.find_limit(curve))]
    if not limits:
        return f"{_UNJUDGED}."
    places = []
    for curve, limit in limits[:_NAMED]:
        place = "at no load"
        if limit.kept:
            last = curve.points[limit.kept - 1]
            place = f"up to {found.name_load(last.load)} ({_say_mean(last, RATE)})"
        places.append(f"{place} ({curve.name})" if curve.name else place)
    limit = limits[0][1]
    beyond = _list_beyond(found, first, limit) if len(found.curves) == 1 else ()
    what = f"P95 of the {_WAIT} of {limit.requests}"
    return say_limit(what, f"{format_number(limit.target)} ms", ", ".join(places), beyond)


def _list_beyond(found: LoadCurves, curve: LoadCurve, limit: LoadLimit) -> Iterator[str]:
    """Yield the time at the first load that misses the target, and where the system fell behind."""
    point = curve.points[min(limit.kept, len(curve.points) - 1)]
    yield f"{_say_mean(point, limit.metric)} at {found.name_load(point.load)}"
    late = ", ".join(f"{point.load:g}" for point in curve.points if point.is_behind)
    if late:
        what = _TITLES[found.axis].partition(" ")[0]
        yield f"it fell behind its schedule at {what} {late}, and served at most {_say_mean(curve.fastest, RATE)}"


def _say_mean(point: LoadPoint, metric: str) -> str:
    _, value, interval = list_figure(replace(make_figure(metric, metric, point.trials), note=""))
    return f"{value} ({interval})" if interval else value


def list_load_figures(found: LoadCurves) -> list[Figure]:
    """Return the highest load within the target of each curve; of one curve the most requests served, too."""
    if len(found.curves) > 1:
        return [_make_limit(found, curve, curve.name) for curve in found.curves[: _NAMED + 2]]
    (curve,) = found.curves
    most = curve.fastest
    return [
        _make_limit(found, curve, "Highest load within its target"),
        make_figure(RATE, "Requests served at most", most.trials, f"at {found.name_load(most.load)}"),
    ]


def _make_limit(found: LoadCurves, curve: LoadCurve, label: str) -> Figure:
    limit = found.find_limit(curve)
    if limit is None:
        return Figure(name="highest_load", label=label, value=None, note=_UNJUDGED)
    return Figure(
        name="highest_load",
        label=label,
        value=curve.points[limit.kept - 1].load if limit.kept else None,
        text="" if limit.kept else "none",
        unit="users" if found.axis == "users" else "× speed-up",
        note=f"P95 of {limit.requests} within {format_number(limit.target)} ms",
        better="higher",
    )


def draw_load(found: LoadCurves) -> Chart:
    """Return percentiles of the storage part of TTFT against the load; of several curves the P95."""
    loads = sorted({point.load for curve in found.curves for point in curve.points})
    drawn = found.curves[:DRAWN]
    is_alone = len(drawn) == 1
    # A single curve has a line for each percentile, each of several its P95.
    lines = [(curve, curve.name, WAIT) for curve in drawn]
    if is_alone:
        lines = [(drawn[0], name, metric) for name, metric in PERCENTILES.items()]
    rows = [
        (name, point.load, max(stats.mean, _LEAST_MS), stats.low, stats.high, point.is_behind)
        for curve, name, metric in lines
        for point in curve.points
        if (stats := point.summarise(metric)).mean is not None
    ]
    types = {"series": pl.String} | dict.fromkeys(("x", "y", "low", "high"), pl.Float64) | {"hollow": pl.Boolean}
    # Classes with one target share a line.
    targets: dict[float, list[str]] = {}
    for name, target in found.targets.items():
        targets.setdefault(target, []).append(name)
    return Chart(
        name="load",
        title="Latency against load",
        caption=_READING,
        kind="lines",
        rows=pl.DataFrame(rows, types, orient="row"),
        x=Axis(title=_TITLES[found.axis], is_log=loads[-1] >= _LOG_FROM * loads[0], has_zero=False, ticks=loads),
        y=Axis(title="ms (log scale)" if is_alone else "P95, ms (log scale)", is_log=True),
        dashed=frozenset(name for curve, name, _ in lines if curve.is_predicted),
        rules=[
            Rule(label=f"target of {', '.join(names)}: {format_number(target)} ms", y=target)
            for target, names in targets.items()
        ],
        section="Load",
    )
