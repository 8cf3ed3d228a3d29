"""Charts of a sweep; each function draws one, or returns None without data."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import altair as alt
import polars as pl

from analysis.report.chart_kinds import HEADER, ROWS, Plot
from analysis.report.svg import INK, TEXT_SIZE, WIDTH, get_colour
from analysis.sweeps.choices import FUTURE
from analysis.sweeps.sweep import MEMORY, RATES, TIMES, Curve, Point, SweepTable, get_direction
from tracegen.errors import format_count

BOUND: Final = "unlimited memory"
COLOURS: Final = ("blue", "red", "green", "purple", "cyan", "brown", "yellow")
DRAWN_LINES: Final = len(COLOURS)
"""Most lines in a panel, besides the bound; nobody could tell more apart."""
DRAWN_PANELS: Final = 6
_LOG_FROM: Final = 4  # capacities that span more than this factor have a log scale
LETTER: Final = 7.6
"""Width of a letter of a label in pixels, on average."""
AXIS: Final = 84
"""Pixels left of a panel for its axis."""
_SPACING: Final = 28
"""Pixels between panels."""
_PREDICTED: Final = [7, 4]
"""Dashes of what was predicted, or is no policy that an engine could have."""


@dataclass(frozen=True)
class _Layout:
    """Sizes of panels in pixels, and how many stand next to each other."""

    columns: int
    width: int
    height: int


def tabulate_curves(curves: list[Curve]) -> pl.DataFrame:
    """Return the curves as rows of a line chart, with the bound of each panel."""
    labels = _choose_labels(curves)
    kept = _choose_panels(list(dict.fromkeys(curve.beside for curve in curves)))
    rows: list[dict[str, object]] = []
    for panel in kept:
        sizes: set[float] = set()
        own = [curve for curve in curves if curve.beside == panel and curve.label in labels]
        for curve in own:
            points = curve.points if curve.without is None else (curve.without, *curve.points)
            sizes |= {point.gib for point in points}
            rows += [_row(curve, point) for point in points]
        bounds = [curve.bound for curve in own if curve.bound is not None]
        for gib in sorted(sizes) if bounds else ():
            row = {"panel": panel, "series": BOUND, "x": gib, "y": max(bounds), "note": None}
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def count_left_out(curves: list[Curve]) -> str:
    """Return what a chart of these curves leaves out, as `3 lines`; empty if it shows all."""
    lines = len({curve.label for curve in curves}) - DRAWN_LINES
    panels = len({curve.beside for curve in curves}) - DRAWN_PANELS
    parts = [format_count(lines, "line that hits less", "lines that hit less")] if lines > 0 else []
    if panels > 0:
        parts.append(format_count(panels, "size of other tiers", "sizes of other tiers"))
    return ", ".join(parts)


def _choose_labels(curves: list[Curve]) -> list[str]:
    """Return the labels that reach the most, in the order of the cells."""
    labels = list(dict.fromkeys(curve.label for curve in curves))
    reached: dict[str, float] = {}
    for curve in curves:
        top = max(point.rate for point in curve.points)
        reached[curve.label] = max(top, reached.get(curve.label, top))
    sign = get_direction(curves[0].by) if curves else 1
    best = sorted(labels, key=lambda label: -sign * reached[label])[:DRAWN_LINES]
    return [label for label in labels if label in best]


def _choose_panels(panels: list[str]) -> list[str]:
    """Return some panels, evenly chosen from the first to the last."""
    if len(panels) <= DRAWN_PANELS:
        return panels
    last = len(panels) - 1
    return [panels[round(at * last / (DRAWN_PANELS - 1))] for at in range(DRAWN_PANELS)]


def _row(curve: Curve, point: Point) -> dict[str, object]:
    shown = f"{point.rate:.1%}" if curve.by in RATES else f"{point.rate:,.4g}"
    note = f"{curve.name}, {point.gib:g} GiB: {shown}"
    place = {"panel": curve.beside, "series": curve.label}
    return place | {"x": point.gib, "y": point.rate, "note": note}


def draw_curves(sweep: SweepTable, axis: str, by: str) -> Plot | None:
    """Draw rates or predicted values over the capacity of a tier.

    There is a panel for each size of the other tiers.
    """
    curves = sweep.curves(axis, by)
    rows = tabulate_curves(curves) if curves else pl.DataFrame()
    if rows.is_empty() or rows["x"].n_unique() < 2:
        return None
    panels = rows["panel"].unique(maintain_order=True).to_list()
    layout = _lay_out(len(panels), rows["series"])
    top = _find_top(rows["y"], is_share=by in RATES)
    rows = _add_labels(rows, top, layout.height)
    x, y = _make_x(rows["x"], MEMORY[curves[0].tier], layout), _make_y(by, top)
    base = alt.Chart(ROWS).encode(x=x, y=y)
    layers = (_mark_lines(base, rows, is_predicted=by in TIMES), *_mark_points(base, rows))
    chart = alt.layer(*layers).properties(width=layout.width, height=layout.height)
    if len(panels) == 1:
        return Plot(chart, rows)
    facet = alt.Facet("panel:N", sort=panels, header=HEADER)
    return Plot(chart.facet(facet, columns=layout.columns, spacing=_SPACING), rows)


def _lay_out(panels: int, series: pl.Series) -> _Layout:
    """Return sizes of panels whose lines carry their names at their right ends."""
    longest = max(len(name) for name in map(_name_line, series.unique().to_list()))
    margin = min(260, round(longest * LETTER) + 16)
    columns = min(panels, 3 if margin < 110 else 2)
    inner = WIDTH - AXIS - columns * margin - (columns - 1) * _SPACING
    return _Layout(columns, inner // columns, 340 if panels == 1 else 260)


def _name_line(series: str) -> str:
    return "bound" if series == BOUND else series


def _find_top(values: pl.Series, *, is_share: bool) -> float:
    """Return the upper end of the axis: a round number that no value exceeds."""
    most = float(values.max())  # type: ignore[arg-type]
    if not is_share:
        return most * 1.05 or 1.0
    return next((top for top in (0.1, 0.2, 0.5, 1.0) if most <= top), 1.0)


def _add_labels(rows: pl.DataFrame, top: float, height: int) -> pl.DataFrame:
    """Add a row for the name of each line, next to its last point and clear of other names."""
    added = []
    for (panel,), own in rows.group_by("panel", maintain_order=True):
        ends = own.sort("x").group_by("series", maintain_order=True).last()
        right = float(own["x"].max())  # type: ignore[arg-type]
        places = spread_labels([end * height / top for end in ends["y"]], TEXT_SIZE + 2)
        for series, place in zip(ends["series"], places, strict=True):
            row = {"panel": panel, "series": series, "x": right, "y": place * top / height}
            added.append(row | {"note": None, "text": _name_line(series)})
    labels = pl.DataFrame(added, schema_overrides={"note": pl.String})
    nameless = rows.with_columns(text=pl.lit(None, pl.String))
    return pl.concat([nameless, labels.select(nameless.columns)])


def spread_labels(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart to at least a gap, keeping their order and the middle of each group."""
    order = sorted(range(len(places)), key=lambda at: (places[at], at))
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and _overlap(groups[-2], groups[-1], places, gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = list(places)
    for group in groups:
        for step, at in enumerate(group):
            moved[at] = _begin(group, places, gap) + step * gap
    return moved


def _begin(group: list[int], places: Sequence[float], gap: float) -> float:
    middle = sum(places[at] for at in group) / len(group)
    return middle - gap * (len(group) - 1) / 2


def _overlap(lower: list[int], upper: list[int], places: Sequence[float], gap: float) -> bool:
    return _begin(upper, places, gap) < _begin(lower, places, gap) + gap * len(lower)


def _make_x(values: pl.Series, memory: str, layout: _Layout) -> alt.X:
    """Return the axis of capacities, with a tick at each; 0 is on a log scale, too."""
    sizes = sorted(set(values.to_list()))
    positive = [size for size in sizes if size]
    is_log = sizes[-1] > _LOG_FROM * positive[0]
    scale = alt.Scale(zero=False, nice=False)
    if is_log and len(positive) < len(sizes):
        scale = alt.Scale(type="symlog", constant=positive[0], nice=False)
    elif is_log:
        scale = alt.Scale(type="log", nice=False)
    title = f"{memory}, GiB{', log scale' if is_log else ''}"
    ticks = sizes[:: -(-len(sizes) // (layout.width // 60))]
    axis = alt.Axis(values=ticks, format=",.4~g", labelOverlap="greedy", grid=True)
    return alt.X("x:Q", title=title, scale=scale, axis=axis)


def _make_y(by: str, top: float) -> alt.Y:
    scale = alt.Scale(domain=[0, top], nice=False)
    if by in TIMES:
        title = f"{TIMES[by].rpartition(', ')[2]}, predicted"
        return alt.Y("y:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    ticks = [round(top * step / 5, 3) for step in range(6)]
    axis = alt.Axis(values=ticks, format=".0%")
    return alt.Y("y:Q", title=f"{RATES[by]} that hit", scale=scale, axis=axis)


def _mark_lines(base: alt.Chart, rows: pl.DataFrame, *, is_predicted: bool) -> alt.Chart:
    series = rows["series"].unique(maintain_order=True).to_list()
    dashes = [_PREDICTED if is_predicted or FUTURE in name else [1, 0] for name in series]
    widths = [1.2 if name == BOUND else 2.4 for name in series]
    lines: alt.Chart = base.transform_filter("datum.text == null").mark_line(aria=False)
    dash = alt.Scale(domain=series, range=dashes)
    width = alt.Scale(domain=series, range=widths)
    encoded: alt.Chart = lines.encode(
        color=_colour(series),
        strokeDash=alt.StrokeDash("series:N", scale=dash, legend=None),
        strokeWidth=alt.StrokeWidth("series:N", scale=width, legend=None),
    )
    return encoded


def _mark_points(base: alt.Chart, rows: pl.DataFrame) -> Iterator[alt.Chart]:
    """Yield points with tooltips, and the names of the lines."""
    series = rows["series"].unique(maintain_order=True).to_list()
    noted = base.transform_filter("datum.note != null")
    points = noted.mark_point(size=45, filled=True, opacity=1)
    yield points.encode(color=_colour(series), description="note:N")
    named = base.transform_filter("datum.text != null")
    text = named.mark_text(aria=False, align="left", dx=8, fontSize=TEXT_SIZE)
    yield text.encode(text="text:N", color=_colour(series))


def _colour(series: list[str]) -> alt.Color:
    colours = itertools.cycle(COLOURS)
    shades = [INK if name == BOUND else get_colour(next(colours)) for name in series]
    return alt.Color("series:N", scale=alt.Scale(domain=series, range=shades), legend=None)
