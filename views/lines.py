"""Charts of lines in panels: with points, with bands, or as steps; and of points alone."""

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import altair as alt
import polars as pl
from msgspec.structs import replace

from views.answer import Axis, Chart
from views.drawing import (
    LETTER,
    ROWS,
    STROKE,
    Drawing,
    Drawn,
    arrange_panels,
    make_axis,
    make_scale,
    write_value,
)
from views.svg import INK, PAPER, TEXT_SIZE, WIDTH

_MARGIN: Final = 78
"""Pixels beside a panel for the axis and its title."""
_DASHED: Final[Any] = {"aria": False, "color": INK, "strokeWidth": 1.2, "strokeDash": [5, 4]}
_WORDS: Final[Any] = {"aria": False, "color": INK, "fontSize": TEXT_SIZE - 1}


def draw_lines(drawing: Drawing) -> tuple[Drawn, pl.DataFrame]:
    """Draw one panel as wide as the chart, or several in two columns; return the drawn rows."""
    chart, rows, panels = drawing.chart, drawing.rows, drawing.panels
    columns = min(2, len(panels))
    longest = max(map(len, drawing.colours), default=0) if chart.names_at_ends else 0
    width = WIDTH // columns - _MARGIN - round(LETTER * longest)
    height = 170 if columns > 1 else 260
    y = chart.y
    if chart.names_at_ends:  # where names stand follows from the ends of the scale
        y = _close(y, rows)
        rows = _name_ends(rows, y, height)
    rows = _add_rules(chart, _add_notes(drawing, rows), panels)
    if chart.kind == "steps":
        rows = _hold_last_values(rows)
    base = alt.Chart(ROWS).encode(x=_make_x(drawing, rows, width), y=_make_y(y, rows, "y"))
    whole = alt.layer(*_make_layers(drawing, base, rows, (width, height)))
    whole = whole.properties(width=width, height=height)
    is_shared = y.is_log or y.is_share or y.domain is not None
    return arrange_panels(whole, panels, columns, is_shared=is_shared), rows


def _make_x(drawing: Drawing, rows: pl.DataFrame, width: int) -> alt.X:
    x = drawing.chart.x
    if x.order:
        return _make_words(x, width)
    sizes = [size for size in drawing.rows["x"] if size]
    if x.is_log and len(sizes) < len(drawing.rows):  # 0 has a place on a log scale, too
        scale = alt.Scale(type="symlog", constant=min(sizes), nice=False, padding=12)
    else:
        scale = make_scale(x, nice=False, padding=12 if drawing.has_points else 0)
        scale["zero"] = alt.Undefined if x.is_log else False
    axis = make_axis(x, max(4, width // 90), rows["x"])
    return alt.X("x:Q", title=x.title, scale=scale, axis=axis)


def _make_words(x: Axis, width: int) -> alt.X:
    longest = max(map(len, x.order)) * LETTER
    axis = alt.Axis(labelAngle=0 if longest * len(x.order) < width else -40)
    return alt.X("x:N", sort=[*x.order], title=x.title, axis=axis)


def _make_y(y: Axis, rows: pl.DataFrame, column: str) -> alt.Y:
    axis = make_axis(y, 5, rows["y"])
    return alt.Y(f"{column}:Q", title=y.title, scale=make_scale(y, nice=5), axis=axis)


def _make_layers(
    drawing: Drawing,
    base: alt.Chart,
    rows: pl.DataFrame,
    size: tuple[int, int],
) -> list[alt.Chart]:
    """Return the layers of a panel of this width and height, from the back to the front."""
    chart, colour = drawing.chart, drawing.encode_colour(_choose_symbol(drawing))
    layers = _mark_bounds(base, size[0]) if chart.rules else []
    if chart.rules and not chart.x.order:
        layers += _mark_moments(base, rows)
    values = base.transform_filter("datum.rule == null && datum.end == null")
    if rows["low"].null_count() < len(rows):
        layers.append(_mark_spread(drawing, values, rows).encode(color=colour))
    if chart.kind != "points":
        layers.append(_mark_lines(drawing, values))
    if drawing.has_points:
        layers += _mark_points(drawing, values)
    else:
        layers.append(_mark_columns(values, size, rows["x"].n_unique()))
    if chart.names_at_ends:
        named = base.transform_filter("datum.end != null")
        text = named.mark_text(aria=False, align="left", dx=10, fontSize=TEXT_SIZE)
        layers.append(text.encode(text="end:N", color=colour))
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


def _mark_columns(base: alt.Chart, size: tuple[int, int], count: int) -> alt.Chart:
    """Mark each x by an invisible column as high as the panel, for its tooltip."""
    wide = round(max(3.0, size[0] / max(count, 1)), 1)
    noted = base.transform_filter("datum.note != null").encode(description="note:N")
    columns: alt.Chart = noted.mark_rule(strokeWidth=wide, color=INK, opacity=0)
    return columns.encode(y=alt.value(0), y2=alt.value(size[1]))


def _add_notes(drawing: Drawing, rows: pl.DataFrame) -> pl.DataFrame:
    """Add tooltips: one for each point, or for each x of long lines, if the rows have none."""
    if "note" in rows.columns:
        return rows
    note = _note_points if drawing.has_points else _note_columns
    return rows.with_columns(pl.Series("note", note(drawing.chart, rows), pl.String))


def _note_points(chart: Chart, rows: pl.DataFrame) -> list[str]:
    notes = []
    for series, x, y in rows.select("series", "x", "y").rows():
        notes.append(f"{series} {write_value(y, chart.y)}, at {write_value(x, chart.x)}".strip())
    return notes


def _note_columns(chart: Chart, rows: pl.DataFrame) -> list[str | None]:
    """Note the values of all lines of a panel at the first row of each x."""
    words: dict[tuple[str, object], list[str]] = {}
    for panel, series, x, y, low in rows.select("panel", "series", "x", "y", "low").rows():
        span = "" if low is None else f"{write_value(low, chart.y)} to "
        words.setdefault((panel, x), []).append(f"{series} {span}{write_value(y, chart.y)}".strip())
    each = ((x, words.pop((panel, x), None)) for panel, x in rows.select("panel", "x").rows())
    return [f"at {write_value(x, chart.x)}: {', '.join(own)}" if own else None for x, own in each]


def _hold_last_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Add a row to each line at the end of its last interval."""
    values = rows.filter(pl.col("rule").is_null() & pl.col("end").is_null())
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
    types: Any = {
        "panel": pl.String,
        "rule": pl.String,
        "x": rows.schema["x"],
        "y": rows.schema["y"],
    }
    return pl.concat([rows, pl.DataFrame(added, types)], how="diagonal_relaxed") if added else rows


def _mark_bounds(base: alt.Chart, width: int) -> list[alt.Chart]:
    """Mark targets and bounds by horizontal dashed lines, with their names."""
    bounds = base.transform_filter("datum.rule != null && datum.y != null").encode(x=alt.value(0))
    above = bounds.mark_text(align="right", dx=-4, dy=-8, **_WORDS)
    return [
        bounds.mark_rule(**_DASHED).encode(x2=alt.value(width)),
        above.encode(x=alt.value(width), text="rule:N"),
    ]


def _mark_moments(base: alt.Chart, rows: pl.DataFrame) -> list[alt.Chart]:
    """Mark moments by vertical dashed lines, with their names on the side that has more room."""
    moments = base.transform_filter("datum.rule != null && datum.x != null").encode(y=alt.value(0))
    middle = rows.select((pl.col("x").min() + pl.col("x").max()) / 2).item()
    align = alt.expr(f"datum.x < {middle} ? 'left' : 'right'")
    beside = alt.expr(f"datum.x < {middle} ? 5 : -5")
    text = moments.mark_text(align=align, dx=beside, dy=2, baseline="top", **_WORDS)
    return [
        moments.mark_rule(**_DASHED).encode(y2=alt.value("height")),
        text.encode(text="rule:N"),
    ]


def _close(axis: Axis, rows: pl.DataFrame) -> Axis:
    """Return an axis whose ends are known."""
    if axis.domain is not None:
        return axis
    ends = pl.concat([rows[name].cast(pl.Float64) for name in ("y", "low", "high")]).drop_nulls()
    low, high = float(ends.min() or 0.0), float(ends.max() or 1.0)  # type: ignore[arg-type]
    if axis.is_log:
        positive = min((end for end in ends if end > 0), default=1.0)
        domain = (positive / 1.2, high * 1.2)
    else:
        domain = (0.0 if axis.has_zero else low - 0.05 * (high - low), 1.05 * high or 1.0)
    return replace(axis, domain=domain)


def _name_ends(rows: pl.DataFrame, y: Axis, height: int) -> pl.DataFrame:
    """Add a row with the name of each line next to its last point, clear of other names."""
    assert y.domain is not None
    low, high = (math.log(end) if y.is_log else end for end in y.domain)
    scale = height / (high - low)
    added = []
    for (panel,), own in rows.drop_nulls("y").group_by("panel", maintain_order=True):
        ends = own.sort("x").group_by("series", maintain_order=True).last()
        places = [scale * ((math.log(end) if y.is_log else end) - low) for end in ends["y"]]
        right = own["x"].max()
        for series, place in zip(ends["series"], spread_labels(places, TEXT_SIZE + 2), strict=True):
            at = low + place / scale
            value = math.exp(at) if y.is_log else at
            added.append({"panel": panel, "series": series, "end": series, "x": right, "y": value})
    return pl.concat([rows, pl.DataFrame(added)], how="diagonal_relaxed") if added else rows


def spread_labels(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart to at least a gap, keeping their order and the middle of each group."""
    groups: list[list[int]] = []
    for at in sorted(range(len(places)), key=lambda at: (places[at], at)):
        groups.append([at])
        while len(groups) > 1 and _overlap(groups[-2], groups[-1], places, gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = list(places)
    for group in groups:
        for step, at in enumerate(group):
            moved[at] = _begin(group, places, gap) + step * gap
    return moved


def _overlap(lower: list[int], upper: list[int], places: Sequence[float], gap: float) -> bool:
    return _begin(upper, places, gap) < _begin(lower, places, gap) + gap * len(lower)


def _begin(group: Sequence[int], places: Sequence[float], gap: float) -> float:
    middle = sum(places[at] for at in group) / len(group)
    return middle - gap * (len(group) - 1) / 2
