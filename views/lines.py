"""Charts of lines in panels: with points, with bands, or as steps; and of points alone."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import altair as alt
import polars as pl

from views.answer import Axis, Chart
from views.drawing import ROWS, STROKE, Drawing, Drawn, arrange_panels, make_axis, make_scale
from views.svg import INK, PAPER, TEXT_SIZE, WIDTH

# Pixels beside a panel for the axis and its title
_MARGIN: Final = 78
_DASHED: Final[Any] = {"aria": False, "color": INK, "strokeWidth": 1.2, "strokeDash": [5, 4]}
_WORDS: Final[Any] = {"aria": False, "color": INK, "fontSize": TEXT_SIZE - 1}


def draw_lines(drawing: Drawing) -> tuple[Drawn, pl.DataFrame]:
    """Draw one panel as wide as the chart, or several in two columns; return the drawn rows."""
    chart, rows, panels = drawing.chart, drawing.rows, drawing.panels
    columns = min(2, len(panels))
    width = WIDTH // columns - _MARGIN
    height = 170 if len(panels) > 2 else 250
    rows = _add_rules(chart, rows, panels)
    if chart.kind == "steps":
        rows = _hold_last_values(rows)
    base = alt.Chart(ROWS).encode(x=_make_x(drawing, rows, width), y=_make_y(chart.y, rows, "y"))
    whole = alt.layer(*_make_layers(drawing, base, rows, (width, height)))
    is_shared = chart.y.is_log or chart.y.is_share or chart.y.domain is not None
    whole = whole.properties(width=width, height=height)
    return arrange_panels(whole, panels, columns, is_shared=is_shared), rows


def _make_x(drawing: Drawing, rows: pl.DataFrame, width: int) -> alt.X:
    x = drawing.chart.x
    sizes = [size for size in drawing.rows["x"] if size]
    if x.is_log and len(sizes) < len(drawing.rows):  # 0 has a place on a log scale, too
        scale = alt.Scale(type="symlog", constant=min(sizes), nice=False, padding=12)
    else:
        scale = make_scale(x, nice=False, padding=12 if drawing.has_points else 0)
        scale["zero"] = alt.Undefined if x.is_log else False
    axis = make_axis(x, max(4, width // 90), rows["x"])
    return alt.X("x:Q", title=x.title, scale=scale, axis=axis)


def _make_y(y: Axis, rows: pl.DataFrame, column: str) -> alt.Y:
    axis = make_axis(y, 5, rows["y"])
    return alt.Y(f"{column}:Q", title=y.title, scale=make_scale(y, nice=5), axis=axis)


def _make_layers(drawing: Drawing, base: alt.Chart, rows: pl.DataFrame, size: tuple[int, int]) -> list[alt.Chart]:
    """Return the layers of a panel of this width and height, from the back to the front."""
    chart, colour = drawing.chart, drawing.encode_colour(_choose_symbol(drawing))
    layers = [*_mark_bounds(base, size[0]), *_mark_moments(base, rows)] if chart.rules else []
    values = base.transform_filter("datum.rule == null")
    if rows["low"].null_count() < len(rows):
        layers.append(_mark_spread(drawing, values, rows).encode(color=colour))
    if chart.kind != "points":
        layers.append(_mark_lines(drawing, values))
    if drawing.has_points:
        layers += _mark_points(drawing, values)
    return layers


def _mark_spread(drawing: Drawing, base: alt.Chart, rows: pl.DataFrame) -> alt.Chart:
    """Mark low to high by a bar at each point, or by a band."""
    known = base.transform_filter("datum.low != null && datum.high != null")
    ends = {"y": _make_y(drawing.chart.y, rows, "low"), "y2": "high:Q"}
    bars = known.mark_rule(aria=False, strokeWidth=2)
    band = known.mark_area(aria=False, clip=True, fillOpacity=0.25, opacity=1)
    spread: alt.Chart = (bars if drawing.has_points else band).encode(**ends)
    return spread


def _choose_symbol(drawing: Drawing) -> str:
    """Return the symbol of the legend: a line, unless shapes of points tell series apart."""
    return "" if drawing.has_points and not drawing.chart.dashed else STROKE


def _mark_lines(drawing: Drawing, base: alt.Chart) -> alt.Chart:
    chart = drawing.chart
    symbol = _choose_symbol(drawing)
    is_clipped = chart.x.domain is not None or chart.y.domain is not None
    shape: Literal["step-after", "linear"] = "step-after" if chart.kind == "steps" else "linear"
    drawn = base.transform_filter("datum.y != null")
    lines: alt.Chart = drawn.mark_line(aria=False, clip=is_clipped, interpolate=shape)
    lines = lines.encode(color=drawing.encode_colour(symbol))
    dashes = drawing.encode_dashes(symbol)
    return lines if dashes is None else lines.encode(strokeDash=dashes)


def _mark_points(drawing: Drawing, base: alt.Chart) -> list[alt.Chart]:
    """Mark points with tooltips; those that decide nothing are hollow."""
    known = base.transform_filter("datum.note != null && datum.y != null")
    noted = known.encode(description="note:N")
    colour = drawing.encode_colour(_choose_symbol(drawing))
    full = noted.transform_filter("!datum.hollow").mark_point(size=60, filled=True, opacity=1)
    hollow = noted.transform_filter("datum.hollow").mark_point(size=70, opacity=1, strokeWidth=2)
    marks = [full.encode(color=colour), hollow.encode(color=colour, fill=alt.value(PAPER))]
    # Dashes tell predicted lines apart already, and a legend of dashed shapes is ugly.
    if drawing.chart.dashed:
        return marks
    return [mark.encode(shape=drawing.encode_shapes()) for mark in marks]


def _hold_last_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Add a row to each line at the end of its last interval."""
    values = rows.filter(pl.col("rule").is_null())
    length = (pl.col("x").last() - pl.col("x").get(-2, null_on_oob=True)).fill_null(1.0)
    kept = pl.all().exclude("panel", "series", "x").last()
    lines = values.group_by("panel", "series", maintain_order=True)
    ends = lines.agg(kept, x=pl.col("x").last() + length)
    ends = ends.with_columns(note=pl.lit(None, pl.String))
    held: pl.DataFrame = pl.concat([rows, ends.select(rows.columns)])
    return held


def _add_rules(chart: Chart, rows: pl.DataFrame, panels: Sequence[str]) -> pl.DataFrame:
    added = [
        {"panel": panel, "rule": rule.label, "x": rule.x, "y": rule.y}
        for rule in chart.rules
        for panel in panels
        if rule.panel in ("", panel)
    ]
    types: Any = {"panel": pl.String, "rule": pl.String, "x": rows.schema["x"], "y": rows.schema["y"]}
    return pl.concat([rows, pl.DataFrame(added, types)], how="diagonal_relaxed") if added else rows


def _mark_bounds(base: alt.Chart, width: int) -> list[alt.Chart]:
    """Mark targets and bounds by horizontal dashed lines, with their names."""
    bounds = base.transform_filter("datum.rule != null && datum.y != null").encode(x=alt.value(0))
    above = bounds.mark_text(align="right", dx=-4, dy=-8, **_WORDS)
    return [bounds.mark_rule(**_DASHED).encode(x2=alt.value(width)), above.encode(x=alt.value(width), text="rule:N")]


def _mark_moments(base: alt.Chart, rows: pl.DataFrame) -> list[alt.Chart]:
    """Mark moments by vertical dashed lines, with their names on the side that has more room."""
    moments = base.transform_filter("datum.rule != null && datum.x != null").encode(y=alt.value(0))
    middle = rows.select((pl.col("x").min() + pl.col("x").max()) / 2).item()
    align = alt.expr(f"datum.x < {middle} ? 'left' : 'right'")
    beside = alt.expr(f"datum.x < {middle} ? 5 : -5")
    text = moments.mark_text(align=align, dx=beside, dy=2, baseline="top", **_WORDS)
    return [moments.mark_rule(**_DASHED).encode(y2=alt.value("height")), text.encode(text="rule:N")]
