"""Charts drawn from their data, as parts of a page and as files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from tracegen.errors import InputError
from views.answer import Chart
from views.drawing import LETTER, ROWS, Drawing, Drawn, arrange_panels, make_axis, make_drawing, make_scale
from views.lines import draw_lines
from views.svg import INK, MUTED, PAPER, TEXT_SIZE, WIDTH, render_files, render_svg


def render_chart(chart: Chart, prefix: str = "") -> str:
    """Return a chart as an SVG element of a page; `prefix` keeps its ids apart from others'."""
    label = f"{chart.title}. The table below has its data."
    return render_svg(specify(chart), f"{prefix}{chart.name}-", label)


def save_charts(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Save each chart as SVG and as PNG; return the files.

    Raises:
        InputError: the disk is full, or permission is missing.
    """
    files = []
    try:
        folder.mkdir(exist_ok=True)
        for chart in charts:
            svg, png = render_files(specify(chart), chart.title)
            files += [folder / f"{chart.name}.svg", folder / f"{chart.name}.png"]
            files[-2].write_text(svg)
            files[-1].write_bytes(png)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError(problem, "name another folder", subject=folder, setting="charts") from None
    return files


def specify(chart: Chart) -> dict[str, object]:
    """Return a chart as Vega-Lite specifies charts."""
    by_name = {"bars": _draw_bars, "intervals": _draw_names, "dots": _draw_names}
    draw = by_name.get(chart.kind, draw_lines)
    with debug_mode(False):  # Altair's validation takes longer than drawing
        drawn, rows = draw(make_drawing(chart))
        values = rows.with_columns(pl.selectors.float().round_sig_figs(5)).to_dicts()
        spec: dict[str, object] = drawn.to_dict(validate=False)
    return spec | {"datasets": {"rows": values}}


def _make_names(drawing: Drawing) -> tuple[alt.Y, float]:
    """Return the axis of names and the pixels that they take."""
    names = [*drawing.chart.y.order] or drawing.rows["y"].unique(maintain_order=True).to_list()
    axis = alt.Axis(domain=False, ticks=False, labelColor=INK)
    return alt.Y("y:N", sort=names, title=None, axis=axis), min(380, LETTER * max(map(len, names)))


def _draw_bars(drawing: Drawing) -> tuple[Drawn, pl.DataFrame]:
    """Draw stacked bars, one for each name."""
    x = drawing.chart.x
    y, room = _make_names(drawing)
    width = round(WIDTH - room - 30)
    order = {name: rank for rank, name in enumerate(drawing.colours)}
    rank = pl.col("series").replace_strict(order, return_dtype=pl.Int64)
    rows = drawing.rows.with_columns(rank=rank)
    sums = rows.group_by("panel", "y").agg(pl.col("x").sum())["x"]
    axis = make_axis(x, width // 90, sums)
    bars = alt.Chart(ROWS).mark_bar(height={"band": 0.8}, stroke=PAPER, strokeWidth=1)
    bars = bars.encode(
        x=alt.X("x:Q", stack="zero", title=x.title, scale=make_scale(x), axis=axis),
        y=y,
        color=drawing.encode_colour(),
        order="rank:Q",
        description="note:N",
    )
    whole = alt.layer(bars).properties(width=width, height=alt.Step(30))
    return arrange_panels(whole, drawing.panels, 1, is_shared=False), rows


def _draw_names(drawing: Drawing) -> tuple[Drawn, pl.DataFrame]:
    """Draw values by name with their intervals, a tick at the target, and words at the right."""
    rows = drawing.rows
    y, room = _make_names(drawing)
    words = max((len(text) for text in rows["text"].drop_nulls()), default=0)
    width = round(WIDTH - room - LETTER * words - 40)
    base = alt.Chart(ROWS).encode(y=y, description="note:N")
    style: Any = {"color": INK, "strokeWidth": 1.5, "aria": False}
    line = alt.Chart(ROWS).mark_rule(**style)
    rules = [line.encode(x=alt.datum(rule.x)) for rule in drawing.chart.rules]
    named = base.transform_filter("datum.text != null")
    texts = named.mark_text(align="left", dx=12, fontSize=TEXT_SIZE, color=MUTED, aria=False)
    beside = texts.encode(x=alt.value(width), text="text:N")
    whole = alt.layer(*rules, *_mark_values(drawing, base, width), beside)
    whole = whole.properties(width=width, height=alt.Step(32))
    return arrange_panels(whole, drawing.panels, 1, is_shared=False), rows


def _mark_values(drawing: Drawing, base: alt.Chart, width: int) -> list[alt.Chart]:
    x, columns = drawing.chart.x, ("x", "low", "high", "target")
    ends = pl.concat([drawing.rows[name].cast(pl.Float64) for name in columns])
    axis, scale = make_axis(x, max(4, width // 110), ends), make_scale(x, padding=12)
    place = {name: alt.X(f"{name}:Q", title=x.title, scale=scale, axis=axis) for name in columns}
    known = {name: base.transform_filter(f"datum.{name} != null") for name in columns}
    colour = drawing.encode_colour("circle")
    spread = known["low"].mark_rule(strokeWidth=8, strokeOpacity=0.35, clip=True, aria=False)
    points = known["x"].mark_point(filled=True, size=110, opacity=1, clip=True)
    targets = known["target"].mark_tick(thickness=2.5, size=22, color=INK, aria=False)
    return [
        spread.encode(x=place["low"], x2="high:Q", color=colour),
        points.encode(x=place["x"], color=colour),
        targets.encode(x=place["target"]),
    ]
