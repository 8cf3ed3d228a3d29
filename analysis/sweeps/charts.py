"""Charts of a sweep; each function draws one at a width in pixels, or returns None without data."""

from typing import Final

import altair as alt
import polars as pl

from analysis.report.chart_kinds import ROWS, Axis, Lines, Look, Plot, draw_lines
from analysis.report.charts import SYSTEMS
from analysis.report.svg import INK, get_colour
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import RATES, Curve, SweepTable

BOUND: Final = "unlimited memory"
DRAWN_LINES: Final = len(SYSTEMS) - 1
"""Most lines in a panel, besides the bound; nobody could tell more apart."""
DRAWN_PANELS: Final = 6
_LOG_FROM: Final = 4  # capacities that span more than this factor have a log scale
_NAMED: Final = 6
"""Most points of the front that carry a name; the table has all."""
_SHARE: Final = {"format": "%", "domain": [0.0, 1.0], "values": [0, 0.25, 0.5, 0.75, 1]}


def tabulate_curves(curves: list[Curve]) -> pl.DataFrame:
    """Return the curves as rows of a line chart, with the bound of each panel."""
    labels = list(dict.fromkeys(curve.label for curve in curves))[:DRAWN_LINES]
    panels = list(dict.fromkeys(curve.beside for curve in curves))
    kept = _choose_panels(panels)
    rows = []
    for panel in kept:
        own = [curve for curve in curves if curve.beside == panel and curve.label in labels]
        for curve in own:
            rows += [
                _row(panel, curve.label, point.gib, point.rate, f"{curve.name}, {point.gib:g} GiB")
                for point in curve.points
            ]
        bounds = [curve.bound for curve in own if curve.bound is not None]
        capacities = sorted({point.gib for curve in own for point in curve.points})
        if bounds:
            rows += [_row(panel, BOUND, gib, max(bounds), None) for gib in capacities]
    return pl.DataFrame(rows)


def _choose_panels(panels: list[str]) -> list[str]:
    """Return some panels, evenly chosen from the first to the last."""
    if len(panels) <= DRAWN_PANELS:
        return panels
    last = len(panels) - 1
    return [panels[round(at * last / (DRAWN_PANELS - 1))] for at in range(DRAWN_PANELS)]


def _row(panel: str, series: str, gib: float, rate: float, name: str | None) -> dict[str, object]:
    note = None if name is None else f"{name}: {rate:.1%}"
    return {"panel": panel, "series": series, "run": series, "x": gib, "y": rate, "note": note}


def draw_curves(sweep: SweepTable, axis: str, by: str, width: int) -> Plot | None:
    """Draw hit rates over the capacity of a tier, a panel for each size of the others."""
    curves = sweep.curves(axis, by)
    rows = tabulate_curves(curves)
    if rows.is_empty() or rows["x"].n_unique() < 2:
        return None
    labels = rows["series"].unique(maintain_order=True).to_list()
    words = dict(zip((label for label in labels if label != BOUND), SYSTEMS, strict=False))
    least, most = float(rows["x"].min()), float(rows["x"].max())  # type: ignore[arg-type]
    is_log = most > _LOG_FROM * least
    tier = curves[0].tier
    scale = ", log scale" if is_log else ""
    x = Axis(f"{tier}, GiB{scale}", log=is_log, domain=[least, most] if is_log else None)
    y = Axis(f"share of {RATES[by]} that hit", **_SHARE)  # type: ignore[arg-type]
    look = Look(words | {BOUND: "ink"}, dashed=True)
    return draw_lines(rows, Lines(x, y, look, points=True, shared=True), width)


def draw_front(sweep: SweepTable, width: int) -> Plot | None:
    """Draw bytes written to nvme against hits, and the Pareto front."""
    table = find_front(sweep)
    if table.is_empty():
        return None
    rows = _name_points(table)
    x = Axis("GiB written to nvme over the trace")
    y = Axis("share of reads that hit", **_SHARE)  # type: ignore[arg-type]
    inner = width - 54
    base = alt.Chart(ROWS).encode(
        x=alt.X("x:Q", title=x.title, scale=x.scale(), axis=x.axis(max(3, inner // 70), rows["x"])),
        y=alt.Y("y:Q", title=y.title, scale=y.scale(), axis=y.axis(4, rows["y"])),
    )
    layers = (_mark_front(base), _mark_points(base), _mark_names(base))
    return Plot(alt.layer(*layers).properties(width=inner, height=220), rows)


def _name_points(table: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the chart: the front comes last, on top of the others."""
    front = table.filter("front")
    named = front["cell"][:: -(-len(front) // _NAMED)].to_list()
    words = "{}: {}% of reads, {} GiB written"
    percent, gib = (100 * pl.col("rate")).round(1), pl.col("gib").round(1)
    best, others = pl.lit("on the front"), pl.lit("others do better")
    return table.sort("front", maintain_order=True).with_columns(
        x=pl.col("gib"),
        y=pl.col("rate"),
        series=pl.when("front").then(best).otherwise(others),
        note=pl.format(words, "name", percent, gib),
        text=pl.when(pl.col("cell").is_in(named)).then(pl.format("cell {}", "cell")),
    )


def _mark_front(base: alt.Chart) -> alt.Chart:
    front = base.transform_filter("datum.front")
    line: alt.Chart = front.mark_line(
        aria=False,
        interpolate="step-after",
        color=get_colour("blue"),
    )
    return line


def _mark_points(base: alt.Chart) -> alt.Chart:
    look = Look({"on the front": "blue", "others do better": "grey"})
    legend = alt.Legend(columns=2, symbolType="circle")
    colour = alt.Color("series:N", scale=look.colours(), legend=legend)
    points: alt.Chart = base.mark_point(size=30, filled=True, opacity=1)
    encoded: alt.Chart = points.encode(color=colour, description="note:N")
    return encoded


def _mark_names(base: alt.Chart) -> alt.Chart:
    named = base.transform_filter("datum.text != null")
    text = named.mark_text(aria=False, align="left", dx=5, dy=9, fontSize=10, color=INK)
    encoded: alt.Chart = text.encode(text="text:N")
    return encoded
