"""Runs that differ in their load, the speed-up or the number of users, as points of curves."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from analysis.comparison.intervals import Statistics, summarise_metric
from analysis.report.data import Gathered, pick_valid
from analysis.report.labels import name_systems
from analysis.report.sides import Subject
from analysis.summary.run_summary import Summary
from replayer.schema import to_plain
from tracegen.schema import ENUMS

LoadAxis = Literal["speedup", "users"]
AXES: Final[tuple[LoadAxis, ...]] = ("speedup", "users")
BEHIND: Final = "fell behind"
"""The doubt on a run whose requests waited longer and longer."""
WAIT: Final = "ttfb_p95_ms"
RATE: Final = "requests_per_s"
Standing = Literal["kept", "missed", "unclear"]


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
        late = sum(any(doubt.kind == BEHIND for doubt in trial.doubts) for trial in self.trials)
        return 2 * late >= len(self.trials)

    def judge(self, metric: str, target: float) -> Standing:
        """Judge whether a time is within its target; "unclear" if its interval holds it."""
        stats = self.summarise(metric)
        if stats.mean is None:
            return "unclear"
        low, high = (stats.mean if end is None else end for end in (stats.low, stats.high))
        if high <= target:
            return "kept"
        return "missed" if low > target else "unclear"


@dataclass(frozen=True)
class LoadCurve:
    """The loads of one configuration on one machine.

    Attributes:
        name: what tells it from the other curves; empty if there is one.
        points: by ascending load.
        is_predicted: whether its runs are predicted.
    """

    name: str
    points: list[LoadPoint]
    is_predicted: bool

    def has(self, metric: str) -> bool:
        """Return whether any trial has a metric."""
        return any(point.summarise(metric).n for point in self.points)

    def find_most(self, metric: str) -> LoadPoint:
        """Return the point with the greatest mean of a metric."""
        return max(self.points, key=lambda point: point.summarise(metric).mean or 0.0)


@dataclass(frozen=True)
class LoadLimit:
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
        left_out: names of the runs that are not valid.
        qos_ms: the target of each class in ms; none if targets depend on the bytes moved.
    """

    axis: LoadAxis
    curves: list[LoadCurve]
    left_out: list[str]
    qos_ms: dict[str, float]

    @cached_property
    def classes(self) -> list[str]:
        """The QoS classes that have requests."""
        metrics = {name: f"{name}_ttfb_p95_ms" for name in ENUMS["qos"]}
        return [name for name, own in metrics.items() if any(curve.has(own) for curve in self.curves)]

    @property
    def targets(self) -> dict[str, float]:
        """The target of each class that has requests, in ms."""
        return {name: self.qos_ms[name] for name in self.classes if name in self.qos_ms}

    def find_limit(self, curve: LoadCurve) -> LoadLimit | None:
        """Find the target of a curve that is missed first; None without targets."""
        limits = []
        for name, target in self.targets.items():
            metric = f"{name}_ttfb_p95_ms"
            if curve.has(metric):
                whose = f"{name} requests" if len(self.targets) > 1 else "requests"
                kept = [point.judge(metric, target) == "kept" for point in curve.points]
                count = kept.index(False) if False in kept else len(kept)
                limits.append(LoadLimit(metric, whose, target, count))
        return min(limits, key=lambda limit: limit.kept, default=None)

    def format_load(self, load: float) -> str:
        """Format a load with its unit."""
        return f"{load:g} users" if self.axis == "users" else f"speed-up {load:g}"


def find_load(data: Gathered) -> LoadCurves | None:
    """Find runs that differ in their load alone; None without two loads of a configuration."""
    for axis in AXES:
        groups: dict[Hashable, list[Subject]] = {}
        for run in data.runs:
            is_timed = run.summary.metrics.get(WAIT) is not None
            if is_timed and _find_value(run.summary, axis) is not None:
                groups.setdefault(_make_key(run.summary, axis), []).append(run)
        runs = [own for own in groups.values() if len(_make_points(own, axis)) > 1]
        if runs:
            curves = [
                LoadCurve(name, _make_points(own, axis), own[0].summary.prediction is not None)
                for name, own in zip(_name_curves(runs), runs, strict=True)
            ]
            invalid = [run.name for own in runs for run in own if not run.summary.is_valid]
            qos_ms = {} if data.targets.qos_ms_per_gib else dict(data.targets.qos_ms)
            return LoadCurves(axis, curves, invalid, qos_ms)
    return None


def is_one_curve(found: LoadCurves | None, data: Gathered) -> bool:
    """Return whether all systems are loads of one configuration: the curve compares them."""
    if found is None or len(found.curves) > 1:
        return False
    trials = sum(len(point.trials) for point in found.curves[0].points)
    return trials + len(found.left_out) == len(data.runs)


def _find_value(summary: Summary, axis: LoadAxis) -> float | None:
    if axis == "users":
        return summary.provenance.users
    conditions = summary.provenance.conditions
    return (conditions.load.speedup or 1.0) if conditions.load.pace == "open" else None


def _make_points(runs: Sequence[Subject], axis: LoadAxis) -> list[LoadPoint]:
    by_load: dict[float, list[Summary]] = {}
    for run in runs:
        value = _find_value(run.summary, axis)
        if run.summary.is_valid and value is not None:
            by_load.setdefault(value, []).append(run.summary)
    return [LoadPoint(load, by_load[load]) for load in sorted(by_load)]


def _make_key(summary: Summary, axis: LoadAxis) -> Hashable:
    """Return what the runs of a curve share: everything but the load, and what follows from it."""
    provenance = summary.provenance
    conditions = to_plain(provenance.conditions)
    del conditions[axis]
    if conditions.get("order"):
        del conditions["order"]["ops_digest"]  # the order of ops follows from the load
    drive = provenance.storage and provenance.storage.device_model
    fixed = json.dumps(conditions, sort_keys=True)
    return (
        summary.prediction is None,
        fixed,
        provenance.machine,
        drive,
        provenance.trace_fingerprint,
    )


def _name_curves(curves: Sequence[Sequence[Subject]]) -> list[str]:
    """Name curves by their labels, or by what tells them apart."""
    if len(curves) == 1:
        return [""]
    each = [pick_valid(runs) for runs in curves]
    labels = [own[0].label for own in each]
    systems = [([run.path for run in own], own[0].summary) for own in each]
    names = [label or "" for label in labels]
    if not all(names) or len({*names}) < len(names):
        names = name_systems(systems, labels)
    predicted = [runs[0].summary.prediction is not None for runs in curves]
    return [
        f"{name} (predicted)" if is_predicted and "predicted" not in name else name
        for name, is_predicted in zip(names, predicted, strict=True)
    ]
