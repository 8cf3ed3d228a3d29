"""Runs that differ in their load, the speed-up or the number of users, as points of curves."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from analysis.comparison.conditions import format_condition
from analysis.comparison.intervals import Statistics, summarise_metric
from analysis.report.data import Gathered, Subject
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS, to_plain
from tracegen.schema import ENUMS

LoadAxis = Literal["speedup", "users"]
AXES: Final[tuple[LoadAxis, ...]] = ("speedup", "users")
BEHIND: Final = "fell behind"
"""The doubt on a run whose requests waited longer and longer."""
_Curves = Sequence[Sequence[Subject]]
"""The runs of each curve."""
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
    def is_predicted(self) -> bool:
        """Whether it was predicted, so that there are no trials."""
        return any(trial.prediction is not None for trial in self.trials)

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
        predicted: whether its runs are predicted.
    """

    name: str
    points: list[LoadPoint]
    predicted: bool

    def has(self, metric: str) -> bool:
        """Return whether any trial has a metric."""
        return any(point.summarise(metric).n for point in self.points)


@dataclass(frozen=True)
class LoadCurves:
    """Curves over one kind of load.

    Attributes:
        axis: the condition that is the load.
        curves: in the order of their first runs.
        left_out: names of the runs that are not valid.
    """

    axis: LoadAxis
    curves: list[LoadCurve]
    left_out: list[str]

    @property
    def classes(self) -> list[str]:
        """The QoS classes that have requests."""
        metrics = {name: f"{name}_ttfb_p95_ms" for name in ENUMS["qos"]}
        curves = self.curves
        return [name for name, own in metrics.items() if any(curve.has(own) for curve in curves)]


def find_load(data: Gathered) -> LoadCurves | None:
    """Find runs that differ in their load alone; None without two loads of a configuration."""
    for axis in AXES:
        groups: dict[str, list[Subject]] = {}
        for run in data.runs:
            is_timed = run.summary.metrics.get("ttfb_p95_ms") is not None
            if is_timed and _find_value(run.summary, axis) is not None:
                groups.setdefault(_make_key(run.summary, axis), []).append(run)
        runs = [own for own in groups.values() if len(_make_points(own, axis)) > 1]
        if runs:
            names = name_curves(runs, axis, _list_sides(data))
            curves = [
                LoadCurve(name, _make_points(own, axis), own[0].summary.prediction is not None)
                for name, own in zip(names, runs, strict=True)
            ]
            invalid = [run.name for own in runs for run in own if not run.summary.is_valid]
            return LoadCurves(axis, curves, invalid)
    return None


def _list_sides(data: Gathered) -> dict[str, str]:
    """List the side of each valid run by its path; none if a report compares no sides."""
    sides = {} if data.comparison is None else data.comparison.trials
    return {trial.summary.run: name for name, trials in sides.items() for trial in trials}


def is_one_curve(data: Gathered) -> bool:
    """Return whether all systems are loads of one configuration: the curve compares them."""
    found = find_load(data)
    if found is None or len(found.curves) > 1:
        return False
    points = [trial.run for point in found.curves[0].points for trial in point.trials]
    return len(points) + len(found.left_out) == len(data.runs)


def _find_value(summary: Summary, axis: LoadAxis) -> float | None:
    if axis == "users":
        return summary.provenance.users
    conditions = summary.provenance.conditions
    return (conditions.speedup or 1.0) if conditions.pace == "open" else None


def _make_points(runs: Sequence[Subject], axis: LoadAxis) -> list[LoadPoint]:
    by_load: dict[float, list[Summary]] = {}
    for run in runs:
        value = _find_value(run.summary, axis)
        if run.summary.is_valid and value is not None:
            by_load.setdefault(value, []).append(run.summary)
    return [LoadPoint(load, by_load[load]) for load in sorted(by_load)]


def _list_conditions(summary: Summary, axis: LoadAxis) -> dict[str, str]:
    """List the conditions except the load as JSON by name; the machine is among them."""
    provenance = summary.provenance
    named = to_plain(provenance.conditions)
    del named[axis]
    order = named.get("order")
    if order is not None:  # the order follows from the load
        named["order"] = {name: value for name, value in order.items() if name != "ops_digest"}
    named |= {f"usable_bytes.{tier}": size for tier, size in named.pop("usable_bytes").items()}
    machine = provenance.machine
    drive = provenance.storage and provenance.storage.device_model
    named |= {"profile": machine.profile, "host": machine.host, "cpu": machine.cpu}
    named |= {"cores": machine.cores, "device": machine.device, "drive": drive}
    named["trace"] = provenance.trace_fingerprint
    return {name: json.dumps(value, sort_keys=True) for name, value in named.items()}


def _make_key(summary: Summary, axis: LoadAxis) -> str:
    is_predicted = summary.prediction is not None
    return json.dumps([is_predicted, _list_conditions(summary, axis)], sort_keys=True)


_NAMED_BY: Final = (
    "profile",
    "drive",
    "device",
    *(f"usable_bytes.{tier}" for tier in TIERS),
    "arrangement",
)
"""The conditions that name a curve, the first ones first; others follow."""


def name_curves(curves: _Curves, axis: LoadAxis, sides: Mapping[str, str]) -> list[str]:
    """Name curves by what tells them apart.

    Args:
        curves: the runs of each.
        axis: the condition that is the load.
        sides: names of the sides that a report compares, by the paths of their runs.
    """
    if len(curves) == 1:
        return [""]
    valid = [[run for run in runs if run.summary.is_valid] for runs in curves]
    names = (
        _find_common([[sides.get(run.summary.run, "") for run in runs] for runs in valid])
        or _find_common([[run.system for run in runs] for runs in curves])
        or _name_by_conditions(curves, axis)
    )
    is_clear = [runs[0].summary.prediction is None for runs in curves]
    return [
        name if clear or "predicted" in name else f"{name} (predicted)"
        for name, clear in zip(names, is_clear, strict=True)
    ]


def _find_common(names: Sequence[Sequence[str]]) -> list[str]:
    """Return the name that the runs of each curve share; empty if curves have no own names."""
    common = [own[0] for own in names if len(set(own)) == 1 and own[0]]
    return common if len(set(common)) == len(names) else []


def _name_by_conditions(curves: _Curves, axis: LoadAxis) -> list[str]:
    """Name curves by the conditions that differ, as few as tell them apart."""
    conditions = [_list_conditions(runs[0].summary, axis) for runs in curves]
    known = conditions[0]
    differing = [name for name in known if len({own.get(name) for own in conditions}) > 1]
    names = [""] * len(curves)
    for condition in sorted(differing, key=_rank):
        parts = _shorten_profiles([_format_part(condition, own) for own in conditions], condition)
        longer = [", ".join(filter(None, pair)) for pair in zip(names, parts, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
        if len(set(names)) == len(names):
            break
    return names


def _shorten_profiles(parts: list[str], condition: str) -> list[str]:
    """Leave out the fingerprints of profiles if their names tell them apart."""
    names = [part.removeprefix("profile ").partition(" ")[0] for part in parts]
    is_distinct = len(set(names)) == len(set(parts))
    return names if condition == "profile" and is_distinct else parts


def _rank(condition: str) -> int:
    return _NAMED_BY.index(condition) if condition in _NAMED_BY else len(_NAMED_BY)


def _format_part(condition: str, conditions: dict[str, str]) -> str:
    """Format a condition for a name, such as 4 GiB cpu; empty if the run has not recorded it."""
    text = conditions.get(condition, "null")
    is_size = condition.startswith("usable_bytes.")
    if text == "null" and not is_size:
        return ""
    value = format_condition(condition, text, headroom=conditions.get("headroom"))
    if is_size:
        return f"{value} {condition.partition('.')[2]}"
    short = re.sub(r"^/dev/", "", value)
    is_clear = condition in ("drive", "device", "host", "cpu", "profile", "arrangement", "model")
    return short if is_clear else f"{condition.replace('_', ' ')} {short[:12]}"
