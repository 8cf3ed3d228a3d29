"""Latency against load: the sentence, the large figures, and the charts."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from analysis.metrics.catalogue import describe
from analysis.report.data import DRAWN
from analysis.report.load import RATE, WAIT, LoadCurve, LoadCurves, LoadPoint
from tracegen.errors import format_count
from views.answer import Axis, Chart, Column, Figure, Rule, Table
from views.numbers import format_number
from views.sentences import say_curve, say_limit

PERCENTILES: Final = {"P50": "ttfb_p50_ms", "P95": WAIT, "P99": "ttfb_p99_ms"}
_WAIT: Final = "storage part of TTFT"
_TITLES: Final = {"speedup": "speed-up of the trace's requests", "users": "users"}
_LOG_FROM: Final = 4
"""Loads that span at least this factor have a log scale."""
_NAMED: Final = 4
"""Most curves that are put in words; the table has all."""
_LEAST_MS: Final = 1e-4
_ALL: Final = "all requests"
"""The panel of the times of all requests."""
_READING: Final = (
    "Find the highest load at which the P95 is below its dashed target. Each point is the mean of"
    " the valid trials at one load, the bar through it its 95% interval. Where a point is hollow,"
    " the system fell behind its schedule: requests queue, and latencies there also depend on how"
    " long the run lasts."
)


def make_load_title(found: LoadCurves) -> str:
    """Return the title: the loads from the lowest to the highest."""
    loads = [point.load for curve in found.curves for point in curve.points]
    return f"Latency against load: {found.format_load(min(loads))} to {max(loads):g}"


def describe_curves(found: LoadCurves) -> str:
    """Say up to which load targets are kept, what follows, and where the system fell behind."""
    limits = [found.find_limit(curve) for curve in found.curves]
    known = [limit for limit in limits if limit is not None]
    if not known:
        points = found.curves[0].points
        ends = [(_format_time(point, WAIT), found.format_load(point.load)) for point in points]
        return say_curve(f"P95 of the {_WAIT}", [ends[0], ends[-1]])
    goal = f"{_format_short(known[0].target)} ms"
    place = [
        f"{_describe_place(found, curve, limit.kept)}{f' ({curve.name})' if curve.name else ''}"
        for curve, limit in zip(found.curves, limits, strict=True)
        if limit is not None
    ]
    what = f"P95 of the {_WAIT} of {known[0].requests}"
    beyond = _list_beyond(found, known[0].metric, known[0].kept) if len(limits) == 1 else []
    return say_limit(what, goal, ", ".join(place[:_NAMED]), beyond)


def _describe_place(found: LoadCurves, curve: LoadCurve, kept: int) -> str:
    if not kept:
        return "at no load"
    last = curve.points[kept - 1]
    rate = _format_short(last.summarise(RATE).mean)
    return f"up to {found.format_load(last.load)} ({rate} requests/s)"


def _list_beyond(found: LoadCurves, metric: str, kept: int) -> Iterator[str]:
    """Yield the time at the first load that misses the target, and where the system fell behind."""
    (curve,) = found.curves
    point = curve.points[min(kept, len(curve.points) - 1)]
    yield f"{_format_time(point, metric)} at {found.format_load(point.load)}"
    late = ", ".join(f"{point.load:g}" for point in curve.points if point.is_behind)
    if late:
        most = _format_short(curve.find_most(RATE).summarise(RATE).mean)
        of = _TITLES[found.axis].partition(" ")[0]
        yield f"it fell behind its schedule at {of} {late}, and served at most {most} requests/s"


def _format_short(value: float | None) -> str:
    """Format a number for a sentence, with three significant digits."""
    return format_number(value and float(f"{value:.3g}"))


def _format_time(point: LoadPoint, metric: str) -> str:
    """Format a mean in ms with its interval, unless the trials agree to all digits shown."""
    stats = point.summarise(metric)
    mean, low, high = map(_format_short, (stats.mean, stats.low, stats.high))
    is_alike = stats.low is None or low == mean == high
    return f"{mean} ms" if is_alike else f"{mean} ms (95% interval {low} to {high})"


def list_load_figures(found: LoadCurves) -> list[Figure]:
    """Return the highest load within the target of each curve; of one curve its ends, too."""
    if len(found.curves) > 1:
        return [_make_limit(found, curve, curve.name) for curve in found.curves[: _NAMED + 2]]
    (curve,) = found.curves
    ends = {"lowest": curve.points[0], "highest": curve.points[-1]}
    waits = [
        _make_figure(found, point, WAIT, f"{_WAIT[:1].upper()}{_WAIT[1:]}, P95, at the {end} load")
        for end, point in ends.items()
    ]
    return [
        _make_limit(found, curve, "Highest load within its target"),
        *waits,
        _make_figure(found, curve.find_most(RATE), RATE, "Requests served at most"),
    ]


def _make_limit(found: LoadCurves, curve: LoadCurve, label: str) -> Figure:
    limit = found.find_limit(curve)
    name, unit = "highest_load", {"speedup": "× speed-up", "users": "users"}[found.axis]
    if limit is None:
        why = "targets that depend on the bytes moved are not judged here"
        return Figure(name=name, label=label, value=None, note=why)
    goal = f"P95 of {limit.requests} within {_format_short(limit.target)} ms"
    load = curve.points[limit.kept - 1].load if limit.kept else None
    word = "" if limit.kept else "none"
    return Figure(name=name, label=label, value=load, text=word, unit=unit, note=goal, better="higher")


def _make_figure(found: LoadCurves, point: LoadPoint, metric: str, label: str) -> Figure:
    stats = point.summarise(metric)
    trials = "predicted" if point.trials[0].prediction else format_count(stats.n, "trial")
    return Figure(
        name=metric,
        label=label,
        value=stats.mean or None,
        low=stats.low,
        high=stats.high,
        unit=describe(metric).unit,
        better=describe(metric).better or "",
        note=f"{trials} at {found.format_load(point.load)}",
    )


def draw_load(found: LoadCurves) -> Chart:
    """Return percentiles of the storage part of TTFT against the load."""
    loads = sorted({point.load for curve in found.curves for point in curve.points})
    x = Axis(
        title=_TITLES[found.axis],
        is_log=loads[-1] >= _LOG_FROM * loads[0],
        has_zero=False,
        ticks=loads,
    )
    drawn = found.curves[:DRAWN]
    predicted = {curve.name for curve in drawn if curve.is_predicted}
    times = pl.concat(_list_times(found, curve) for curve in drawn)
    panels = times["panel"].unique(maintain_order=True)
    if len(found.curves) == 1 and predicted:
        predicted |= set(times["series"])
    return Chart(
        name="load",
        title="Latency against load",
        caption=_READING,
        kind="lines",
        rows=times.sort(pl.col("panel").cast(pl.Enum(panels)), maintain_order=True),
        x=x,
        y=Axis(title="ms (log scale)", is_log=True),
        dashed=frozenset(predicted),
        rules=[*_list_rules(found)],
        section="Load",
        data=[tabulate_load(found)],
    )


def _list_times(found: LoadCurves, curve: LoadCurve) -> pl.DataFrame:
    """Return the times of a curve: percentiles, or its P95 beside those of other curves."""
    is_alone = len(found.curves) == 1
    metrics = PERCENTILES if is_alone else {"P95": WAIT}
    lines = [(_ALL, name if is_alone else curve.name, metric) for name, metric in metrics.items()]
    if len(found.classes) > 1:
        lines += [
            (_name_panel(found, name), name if is_alone else curve.name, f"{name}_ttfb_p95_ms")
            for name in found.classes
        ]
    return pl.concat(
        _list_rows(curve, series, metric).with_columns(panel=pl.lit(panel)) for panel, series, metric in lines
    )


def _name_panel(found: LoadCurves, qos: str) -> str:
    """Return the panel of a class: one for all classes of a curve, or one with all curves."""
    return "P95 by class" if len(found.curves) == 1 else f"P95 of {qos} requests"


def _list_rows(curve: LoadCurve, series: str, metric: str) -> pl.DataFrame:
    each = [(point, point.summarise(metric)) for point in curve.points]
    rows = [
        (series, point.load, max(stats.mean, _LEAST_MS), stats.low, stats.high, point.is_behind)
        for point, stats in each
        if stats.mean is not None
    ]
    types = {"series": pl.String} | dict.fromkeys(("x", "y", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, types | {"hollow": pl.Boolean}, orient="row")


def _list_rules(found: LoadCurves) -> Iterator[Rule]:
    bounds: dict[tuple[str, float], list[str]] = {}
    for name, target in found.targets.items():
        panel = _name_panel(found, name) if len(found.classes) > 1 else _ALL
        bounds.setdefault((panel, target), []).append(name)
    for (panel, target), names in bounds.items():
        label = f"target of {', '.join(names)}: {format_number(target)} ms"
        yield Rule(label=label, y=target, panel=panel)


def tabulate_load(found: LoadCurves) -> Table:
    """Return a table with a row for each load of each configuration."""
    heads = [f"{name}{end}" for name in PERCENTILES for end in (", ms", " from", " to")]
    names = ["configuration", found.axis, "trials", "requests/s", *heads, "fell behind"]
    rows = []
    for curve in found.curves:
        for point in curve.points:
            stats = [point.summarise(metric) for metric in PERCENTILES.values()]
            times = [end for one in stats for end in (one.mean, one.low, one.high)]
            late = "yes" if point.is_behind else "no"
            rate = point.summarise(RATE).mean
            rows.append([curve.name, point.load, len(point.trials), rate, *times, late])
    return Table(
        name="load",
        title="Latency against load: means with 95% intervals",
        columns=[Column(name) for name in names],
        rows=rows,
    )
