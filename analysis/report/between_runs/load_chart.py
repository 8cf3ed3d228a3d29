"""Latency against load: the storage part of TTFT with intervals, and the rate achieved."""

from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import polars as pl

from analysis.comparison.intervals import Statistics
from analysis.report.between_runs.load import LoadAxis, LoadCurve, LoadCurves, LoadPoint, find_load
from analysis.report.between_runs.load_words import choose_targets, format_load
from analysis.report.chart_kinds import HEADER, PREDICTED_DASHES, ROWS, Axis, Look, Plot
from analysis.report.charts import LEAST_MS, SYSTEMS
from analysis.report.data import DRAWN, Gathered
from analysis.report.svg import MUTED, PAPER, TEXT_SIZE
from analysis.report.text import format_number
from tracegen.schema import ENUMS

RATE: Final = "requests/s achieved"
PERCENTILES: Final = {"P50": "ttfb_p50_ms", "P95": "ttfb_p95_ms", "P99": "ttfb_p99_ms"}
_COLOURS: Final = {
    "P50": "blue",
    "P95": "red",
    "P99": "purple",
    **dict(zip(ENUMS["qos"], ("cyan", "green", "yellow"), strict=True)),
}
_TITLES: Final = {"speedup": "speed-up of the trace's requests", "users": "users"}
_LOG_FROM: Final = 4
"""Loads that span at least this factor have a log scale."""
_MARGIN: Final = 76
"""Pixels for the vertical axis."""

_LEGEND: Final[Any] = {"columns": 6, "symbolType": "M-1,0H4", "labelOffset": 24}
"""Lines in the legend are long enough to show their dashes."""

LoadRow = dict[str, object]


def tabulate_load(data: Gathered) -> dict[str, pl.DataFrame]:
    """Return a table with a row for each load of each configuration."""
    found = find_load(data)
    if found is None:
        return {}
    points = [(curve, point) for curve in found.curves for point in curve.points]
    rows = [_make_table_row(found, curve, point) for curve, point in points]
    table = pl.DataFrame(rows, infer_schema_length=None)
    return {"latency against load: means with 95% intervals, ms": table}


def _make_table_row(found: LoadCurves, curve: LoadCurve, point: LoadPoint) -> LoadRow:
    row: LoadRow = {"configuration": curve.name} if len(found.curves) > 1 else {}
    row |= {found.axis: point.load, "trials": len(point.trials)}
    row["requests_per_s"] = point.summarise("requests_per_s").mean
    for name, metric in PERCENTILES.items():
        stats = point.summarise(metric)
        row |= {name: stats.mean, f"{name} from": stats.low, f"{name} to": stats.high}
    return row | {"fell behind": "yes" if point.is_behind else "no"}


def draw_load(data: Gathered, width: int) -> Plot | None:
    """Draw percentiles of the storage part of TTFT against the load, above the rate achieved."""
    found = find_load(data)
    if found is None:
        return None
    rows = pl.DataFrame(list_rows(found, data), infer_schema_length=None)
    panels = rows.filter(pl.col("panel") != RATE)["panel"].unique(maintain_order=True).to_list()
    how = _Drawing(found, _choose_look(found), width - _MARGIN)
    height = 240 if len(panels) < 3 else 160
    times = alt.layer(*how.mark(rows, Axis("ms (log scale)", log=True)))
    latency = times.properties(width=how.width, height=height)
    latency = latency.transform_filter(f"datum.panel != '{RATE}'")
    facets = latency.facet(alt.Facet("panel:N", sort=panels, header=HEADER), columns=1)
    rate = alt.layer(*how.mark(rows, Axis(RATE), is_last=True))
    rate = rate.properties(width=how.width, height=110)
    below = rate.transform_filter(f"datum.panel == '{RATE}'")
    whole = alt.vconcat(facets, below, spacing=18)
    return Plot(whole.resolve_scale(color="independent", strokeDash="independent"), rows)


def list_rows(found: LoadCurves, data: Gathered) -> list[LoadRow]:
    """List the marks: a row for each panel, line and load."""
    targets = choose_targets(found, data)
    rows = []
    for curve in found.curves[:DRAWN]:
        for panel, series, metric, target in _list_lines(found, curve, targets):
            for point in curve.points:
                stats = point.summarise(metric)
                if stats.mean is not None:
                    rows.append(_make_row(panel, series, point, stats, found.axis, target))
    for row in rows:
        same = [name for name, target in targets.items() if target == row["target"]]
        row["of"] = f"target of {', '.join(same)}" if row["series"] in same else "target"
    panels = {name: at for at, name in enumerate(dict.fromkeys(row["panel"] for row in rows))}
    return sorted(rows, key=lambda row: panels[row["panel"]])


def _list_lines(
    found: LoadCurves, curve: LoadCurve, targets: dict[str, float]
) -> list[tuple[str, str, str, float | None]]:
    """List a curve's lines: panel, series, metric, target."""
    is_alone = len(found.curves) == 1
    of_all = next(iter(targets.values())) if len(targets) == 1 else None
    lines = []
    for name, metric in PERCENTILES.items():
        if is_alone:
            lines.append(("storage part of TTFT, all requests", name, metric, of_all))
        elif name != "P50":
            target = of_all if name == "P95" else None
            lines.append((f"{name} of the storage part of TTFT", curve.name, metric, target))
    if len(found.classes) > 1:
        title = "P95 of the storage part of TTFT"
        lines += [
            (
                f"{title} by class" if is_alone else f"{title}, {name} requests",
                name if is_alone else curve.name,
                f"{name}_ttfb_p95_ms",
                targets.get(name),
            )
            for name in found.classes
        ]
    return [*lines, (RATE, RATE if is_alone else curve.name, "requests_per_s", None)]


def _make_row(
    panel: str,
    series: str,
    point: LoadPoint,
    stats: Statistics,
    axis: LoadAxis,
    target: float | None,
) -> LoadRow:
    unit = "requests/s" if panel == RATE else "ms"
    mean, low, high = (max(end or 0.0, LEAST_MS) for end in (stats.mean, stats.low, stats.high))
    ends = ", predicted" if point.is_predicted else ""
    if stats.low is not None:
        ends = f", 95% interval {format_number(low)} to {format_number(high)}"
    late = ", fell behind its schedule" if point.is_behind else ""
    trials = f", {stats.n} trials" if stats.n > 1 else ""
    value = f"{format_number(mean)} {unit}{ends}"
    return {
        "panel": panel,
        "series": series,
        "x": point.load,
        "y": mean,
        "low": None if stats.low is None else low,
        "high": None if stats.high is None else high,
        "target": target,
        "late": point.is_behind,
        "note": f"{series}, {format_load(point.load, axis)}: {value}{trials}{late}",
    }


def _choose_look(found: LoadCurves) -> Look:
    """Return the appearance of the lines: percentiles and classes of one curve, or the curves."""
    if len(found.curves) == 1:
        classes = found.classes if len(found.classes) > 1 else []
        words = {name: _COLOURS[name] for name in (*PERCENTILES, *classes)}
        predicted = frozenset((*words, RATE)) if found.curves[0].predicted else frozenset()
        return Look(words | {RATE: "ink"}, predicted=predicted)
    names = [curve.name for curve in found.curves[:DRAWN]]
    predicted = frozenset(curve.name for curve in found.curves if curve.predicted)
    return Look(dict(zip(names, SYSTEMS, strict=False)), predicted=predicted)


@dataclass(frozen=True)
class _Drawing:
    """The common parts of the chart's panels.

    Attributes:
        found: the curves.
        look: appearance of the lines.
        width: of a panel in pixels.
    """

    found: LoadCurves
    look: Look
    width: int

    def mark(self, rows: pl.DataFrame, y: Axis, *, is_last: bool = False) -> list[alt.Chart]:
        """Make the layers of a panel: targets, lines, intervals, points; late points are hollow.

        Args:
            rows: those of all panels.
            y: the vertical axis.
            is_last: whether this is the lowest panel, which has the title of the loads.
        """
        own = rows.filter((pl.col("panel") == RATE) == is_last)
        base = alt.Chart(ROWS).encode(x=self._make_x(rows, is_last=is_last), y=_make_y(own, y))
        words = [name for name in self.look.words if name != RATE]
        legend = None if is_last else alt.Legend(values=words, **_LEGEND)
        series = alt.Color("series:N", scale=self.look.colours(), legend=legend)
        dashes = alt.StrokeDash("series:N", scale=_choose_dashes(self.look), legend=legend)
        late = base.transform_filter("datum.late").mark_point(size=70, opacity=1, strokeWidth=2)
        early = base.transform_filter("!datum.late").mark_point(size=70, opacity=1, filled=True)
        spread = base.transform_filter("datum.low != null").mark_rule(aria=False, strokeWidth=2)
        return [
            *_mark_target(base, series, self.width),
            base.mark_line(aria=False, strokeWidth=2.2).encode(
                color=series,
                strokeDash=dashes,
            ),
            spread.encode(y="low:Q", y2="high:Q", color=series),
            early.encode(color=series, description="note:N"),
            late.encode(color=series, fill=alt.value(PAPER), description="note:N"),
        ]

    def _make_x(self, rows: pl.DataFrame, *, is_last: bool) -> alt.X:
        """Return the loads as replayed, with room left and right of the outer ones."""
        loads = sorted(set(rows["x"].to_list()))
        least, most = loads[0], loads[-1]
        is_log = most >= _LOG_FROM * least
        room = (most / least) ** 0.04 if is_log else (most - least) * 0.04
        domain = [least / room, most * room] if is_log else [least - room, most + room]
        scale = Axis("", log=is_log, format="~g", domain=domain, values=loads)
        axis = scale.axis(len(loads), rows["x"])
        axis["labels"] = is_last
        return alt.X(
            "x:Q",
            title=_TITLES[self.found.axis] if is_last else None,
            scale=scale.scale(zero=False),
            axis=axis,
        )


def _choose_dashes(look: Look) -> alt.Scale:
    """Return dashes for predicted lines alone: the legend tells the others apart."""
    patterns = [PREDICTED_DASHES[0] if name in look.predicted else [1, 0] for name in look.words]
    return alt.Scale(domain=list(look.words), range=[list(dashes) for dashes in patterns])


def _make_y(rows: pl.DataFrame, y: Axis) -> alt.Y:
    """Return the vertical axis, as wide in all panels."""
    values = pl.concat([rows["y"], rows["target"].drop_nulls().cast(pl.Float64)])
    axis = y.axis(10 if y.log else 4, values)
    axis["minExtent"] = _MARGIN - 26
    return alt.Y("y:Q", title=y.title, scale=y.scale(), axis=axis)


def _mark_target(base: alt.Chart, series: alt.Color, width: int) -> list[alt.Chart]:
    """Mark each target by a dashed rule and its value."""
    first = base.transform_filter("datum.target != null").transform_aggregate(
        target="min(target)", groupby=["panel", "of", "series"]
    )
    text = first.transform_calculate(text="datum.of + ' ' + format(datum.target, ',~r') + ' ms'")
    rule = first.mark_rule(aria=False, strokeWidth=1.5, strokeDash=[6, 4])
    once = text.transform_aggregate(groupby=["panel", "text", "target"])
    words = once.mark_text(aria=False, align="right", dx=-4, dy=-8, fontSize=TEXT_SIZE, color=MUTED)
    return [
        rule.encode(y="target:Q", x=alt.value(0), x2=alt.value(width), color=series),
        words.encode(y="target:Q", x=alt.value(width), text="text:N"),
    ]
