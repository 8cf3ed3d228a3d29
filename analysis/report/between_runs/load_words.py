"""Latency against load in words: the highest load at which targets are kept, and the next."""

from dataclasses import dataclass, replace
from typing import Final

from analysis.report.between_runs.load import LoadAxis, LoadCurve, LoadCurves, LoadPoint, find_load
from analysis.report.data import Gathered
from analysis.report.text import format_number

_NAMED: Final = 4
"""Most curves that are put in words; the table has all."""


@dataclass(frozen=True)
class LoadLimit:
    """The target that is missed at the lowest load.

    Attributes:
        requests: whose target it is, as "interactive requests"; "requests" if all have one target.
        metric: their P95.
        target: in ms.
        kept: number of loads, from the lowest up, at which it is kept.
    """

    requests: str
    metric: str
    target: float
    kept: int


def describe_load_curve(data: Gathered) -> str | None:
    """Describe up to which load targets are kept; None unless runs differ in their load."""
    found = find_load(data)
    if found is None:
        return None
    if len(found.curves) > 1:
        return _describe_curves(found, data)
    (curve,) = found.curves
    sentences = [_describe_targets(found, curve, data), _describe_lag(curve, found.axis)]
    return " ".join(filter(None, sentences))


def _describe_curves(found: LoadCurves, data: Gathered) -> str:
    """List up to which load each curve keeps its target, and the rate at which it is saturated."""
    limits = [find_limit(found, curve, data) for curve in found.curves]
    goals = {f"{one.requests}: {format_short(one.target)} ms" for one in limits if one is not None}
    goal = f" ({goals.pop()})" if len(goals) == 1 else ""
    each = zip(found.curves, limits, strict=True)
    parts = [_describe_curve(curve, limit, found.axis) for curve, limit in each]
    rest = len(parts) - _NAMED
    more = f"; the table has {rest} more" if rest > 0 else ""
    listed = "; ".join(parts[:_NAMED])
    return f"The P95 of the storage part of TTFT stays within its target{goal} {listed}{more}."


def _describe_curve(curve: LoadCurve, limit: LoadLimit | None, axis: LoadAxis) -> str:
    if limit is None:
        place = "(not judged)"
    elif limit.kept:
        place = f"up to {_describe_place(curve.points[limit.kept - 1], axis)}"
    else:
        place = "at no load"
    late = any(point.is_behind for point in curve.points)
    rate = f", saturated at {_format_most(curve)} requests/s" if late else ""
    return f"{place} with {curve.name}{rate}"


def _format_most(curve: LoadCurve) -> str:
    """Format the greatest rate that a curve reached, in requests/s."""
    rates = [point.summarise("requests_per_s").mean or 0.0 for point in curve.points]
    return format_short(max(rates))


def format_load(load: float, axis: LoadAxis) -> str:
    """Format a load with its unit."""
    return f"{load:g} users" if axis == "users" else f"speed-up {load:g}"


def choose_targets(found: LoadCurves, data: Gathered) -> dict[str, float]:
    """Return each class' target in ms; none if targets depend on the bytes moved."""
    if data.targets.qos_ms_per_gib:
        return {}
    return {name: data.targets.qos_ms[name] for name in found.classes}


def count_kept(curve: LoadCurve, metric: str, target: float) -> int:
    """Count the loads from the lowest up at which a time is within its target."""
    kept = [point.judge(metric, target) == "kept" for point in curve.points]
    return kept.index(False) if False in kept else len(kept)


def format_short(value: float | None) -> str:
    """Format a number for a sentence, with three significant digits."""
    return format_number(value and float(f"{value:.3g}"))


def find_limit(found: LoadCurves, curve: LoadCurve, data: Gathered) -> LoadLimit | None:
    """Find the target of a curve that is missed first; None without targets."""
    limits = []
    for name, target in choose_targets(found, data).items():
        metric = f"{name}_ttfb_p95_ms"
        if curve.has(metric):
            kept = count_kept(curve, metric, target)
            limits.append(LoadLimit(f"{name} requests", metric, target, kept))
    if len(limits) == 1:
        return replace(limits[0], requests="requests")
    return min(limits, key=lambda limit: limit.kept, default=None)


def _describe_targets(found: LoadCurves, curve: LoadCurve, data: Gathered) -> str:
    """Describe the target that is missed at the lowest load."""
    limit = find_limit(found, curve, data)
    if limit is None:
        return _describe_growth(curve, found.axis)
    count, target, metric = limit.kept, limit.target, limit.metric
    of = "" if limit.requests == "requests" else f" of {limit.requests}"
    time = f"P95 of the storage part of TTFT{of}"
    goal = f"its target of {format_short(target)} ms"
    if not count:
        return f"The {time} {_describe_first_miss(curve.points[0], metric, target, found.axis)}"
    last = curve.points[count - 1]
    kept = f"The {time} stays within {goal} up to {_describe_place(last, found.axis)}"
    if count == len(curve.points):
        own = format_short(last.summarise(metric).mean)
        return f"{kept}, the highest load: {own} ms there."
    return f"{kept}; {_describe_next(curve.points[count], metric, target, found.axis)}"


def _describe_growth(curve: LoadCurve, axis: LoadAxis) -> str:
    """Describe the first and the last point of a curve, if there is no target to judge it by."""
    ends = (curve.points[0], curve.points[-1])
    first, last = (point.summarise("ttfb_p95_ms").mean for point in ends)
    return (
        f"The P95 of the storage part of TTFT grows from {format_short(first)} ms"
        f" at {format_load(curve.points[0].load, axis)}"
        f" to {format_short(last)} ms at {format_load(curve.points[-1].load, axis)}."
    )


def _describe_first_miss(point: LoadPoint, metric: str, target: float, axis: LoadAxis) -> str:
    place = f"at {format_load(point.load, axis)}, the lowest load"
    goal = f"its target of {format_short(target)} ms"
    if point.judge(metric, target) == "unclear":
        return f"may miss {goal} already {place}: {_format_time(point, metric)}."
    return f"misses {goal} already {place}: {_format_miss(point, metric, target)}."


def _describe_next(point: LoadPoint, metric: str, target: float, axis: LoadAxis) -> str:
    """Describe the first load at which the target is not kept."""
    place = format_load(point.load, axis)
    if point.judge(metric, target) == "unclear":
        return f"at {place} it is not clear: {_format_time(point, metric)}."
    return f"at {place} it is {_format_miss(point, metric, target)}."


def _describe_place(point: LoadPoint, axis: LoadAxis) -> str:
    rate = point.summarise("requests_per_s").mean
    place = format_load(point.load, axis)
    return place if rate is None else f"{place} ({format_short(rate)} requests/s)"


def _format_time(point: LoadPoint, metric: str) -> str:
    """Format a mean in ms with its interval, unless the trials agree to all digits shown."""
    stats = point.summarise(metric)
    mean, low, high = (format_short(value) for value in (stats.mean, stats.low, stats.high))
    if stats.low is None or low == mean == high:
        return f"{mean} ms (predicted)" if point.is_predicted else f"{mean} ms"
    return f"{mean} ms (95% interval {low} to {high})"


def _format_miss(point: LoadPoint, metric: str, target: float) -> str:
    factor = (point.summarise(metric).mean or 0.0) / target
    times = f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}"
    return f"{_format_time(point, metric)}, {times} × the target"


def _describe_lag(curve: LoadCurve, axis: LoadAxis) -> str:
    """Describe the loads at which the system fell behind; empty if it never did."""
    late = [point.is_behind for point in curve.points]
    if not any(late):
        return ""
    first = late.index(True)
    if all(late):
        place = "At every load"
    elif all(late[first:]) and first < len(late) - 1:
        place = f"From {format_load(curve.points[first].load, axis)} on"
    else:
        loads = [format_load(point.load, axis) for point in curve.points if point.is_behind]
        place = f"At {' and '.join(loads)}"
    return (
        f"{place} the system fell behind its schedule: it served at most {_format_most(curve)}"
        " requests/s, and latencies there also depend on how long the run lasts."
    )
