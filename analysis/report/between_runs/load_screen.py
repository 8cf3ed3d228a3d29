"""Large figures and title of a report whose runs differ in their load."""

from typing import Final

from analysis.comparison.intervals import Statistics
from analysis.report.between_runs.load import LoadAxis, LoadCurve, LoadCurves, LoadPoint, find_load
from analysis.report.between_runs.load_words import find_limit, format_load, format_short
from analysis.report.data import Gathered
from analysis.report.first_screen.form import Card

_MOST: Final = 6
"""Most cards."""
_UNITS: Final[dict[LoadAxis, str]] = {"speedup": "× speed-up", "users": "users"}


def make_load_title(data: Gathered) -> str | None:
    """Return the title: the loads from the lowest to the highest; None without loads."""
    found = find_load(data)
    if found is None:
        return None
    loads = [point.load for curve in found.curves for point in curve.points]
    least, most = min(loads), max(loads)
    unit, word = ("", " users") if found.axis == "users" else ("speed-up ", "")
    return f"Latency against load: {unit}{least:g} to {most:g}{word}"


def make_load_cards(data: Gathered) -> list[Card]:
    """Return the cards, with the highest load that keeps its target; empty without loads."""
    found = find_load(data)
    if found is None:
        return []
    if len(found.curves) > 1:
        return [_make_limit_card(found, curve, data, curve.name) for curve in found.curves[:_MOST]]
    (curve,) = found.curves
    first, last = curve.points[0], curve.points[-1]
    return [
        _make_limit_card(found, curve, data, "Highest load within its target"),
        _make_most_card("Requests served at most", "requests_per_s", "requests/s", found),
        _make_time_card("Storage part of TTFT, P95, at the lowest load", first, found.axis),
        _make_time_card("Storage part of TTFT, P95, at the highest load", last, found.axis),
        _make_most_card("Reads from NVMe at most", "nvme_read_gib_s", "GiB/s", found),
        _make_most_card("Throughput at most", "wall_clock_tok_s", "tok/s", found),
    ]


def _make_limit_card(found: LoadCurves, curve: LoadCurve, data: Gathered, label: str) -> Card:
    limit = find_limit(found, curve, data)
    if limit is None:
        return Card(label, None, "", "targets that depend on the bytes moved are not judged here")
    goal = f"P95 of {limit.requests} within {format_short(limit.target)} ms"
    hint = "higher is better"
    if not limit.kept:
        return Card(label, "none", "", goal, hint)
    return Card(label, f"{curve.points[limit.kept - 1].load:g}", _UNITS[found.axis], goal, hint)


def _make_time_card(label: str, point: LoadPoint, axis: LoadAxis) -> Card:
    stats = point.summarise("ttfb_p95_ms")
    value = None if stats.mean is None else format_short(stats.mean)
    hint = f"all requests at {format_load(point.load, axis)}; lower is better"
    return Card(label, value, "ms", _format_trials(point, stats), hint)


def _make_most_card(label: str, metric: str, unit: str, found: LoadCurves) -> Card:
    """Make the card of a metric's greatest mean, with the load that has it."""
    (curve,) = found.curves
    means = {point.load: (point, point.summarise(metric).mean or 0.0) for point in curve.points}
    point, mean = max(means.values(), key=lambda pair: pair[1])
    if not mean:
        return Card(label, None, "", "none")
    hint = f"at {format_load(point.load, found.axis)}; higher is better"
    trials = _format_trials(point, point.summarise(metric))
    return Card(label, format_short(mean), unit, trials, hint)


def _format_trials(point: LoadPoint, stats: Statistics) -> str:
    """Format the interval of a mean, or say that there is none."""
    low, mean, high = (format_short(value) for value in (stats.low, stats.mean, stats.high))
    if stats.low is None:
        return "predicted" if point.is_predicted else "one trial"
    if low == mean == high:
        return f"equal in {stats.n} trials"
    trials = f", {stats.n} trials" if stats.n > 1 else ""
    return f"95% interval {low} to {high}{trials}"
