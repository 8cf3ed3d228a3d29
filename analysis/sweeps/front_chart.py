"""The chart of bytes written against hits, with the Pareto front."""

import math
from collections.abc import Iterator
from typing import Final, Literal

import altair as alt
import polars as pl

from analysis.report.chart_kinds import ROWS, Plot
from analysis.report.svg import MUTED, TEXT_SIZE, WIDTH, get_colour
from analysis.sweeps.charts import AXIS, LETTER
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import SweepTable

_SIDES: Final = {"below": (8, 14), "left": (-6, -12), "above": (8, -12)}
"""Where a point's name may be: its distance in pixels right of and below the point."""
_BEST: Final = "no other hits as often with fewer writes"


def draw_front(sweep: SweepTable) -> Plot | None:
    """Draw bytes written to nvme against hits, and the Pareto front."""
    table = find_front(sweep)
    if table.is_empty():
        return None
    width, height = WIDTH - AXIS - 30, 380
    rows = _name_points(table, width, height)
    most = float(rows["x"].max())  # type: ignore[arg-type]
    share = alt.Axis(format=".0%", tickCount=6)
    low, high = _find_range(rows["y"])
    base = alt.Chart(ROWS).encode(
        x=alt.X(
            "x:Q",
            title="GiB written to the drive over the trace",
            scale=alt.Scale(domain=[0, most * 1.02]),
            axis=alt.Axis(tickCount=8),
        ),
        y=alt.Y(
            "y:Q",
            title="prompt tokens that hit",
            scale=alt.Scale(domain=[low, high]),
            axis=share,
        ),
    )
    layers = (_mark_front(base), _mark_cells(base), *_mark_names(base))
    return Plot(alt.layer(*layers).properties(width=width, height=height), rows)


def _find_range(rates: pl.Series) -> tuple[float, float]:
    """Return the ends of an axis of shares that shows all rates, in steps of a tenth."""
    low = math.floor(10 * float(rates.min()) - 0.5) / 10  # type: ignore[arg-type]
    high = math.ceil(10 * float(rates.max()) + 0.2) / 10  # type: ignore[arg-type]
    return max(0.0, low), min(1.0, high)


def _name_points(table: pl.DataFrame, width: int, height: int) -> pl.DataFrame:
    """Return the rows of the chart, with names on the front where they have room."""
    most = float(table["gib"].max()) * 1.02  # type: ignore[arg-type]
    low, high = _find_range(table["rate"])
    taken: list[tuple[float, float, float, float]] = []
    sides: dict[int, str] = {}
    for row in table.filter("front").reverse().iter_rows(named=True):
        x, y = width * row["gib"] / most, height * (row["rate"] - low) / (high - low)
        length = LETTER * len(row["name"]) + 12
        corners = {"below": (x, y - 26), "left": (x - length, y + 4), "above": (x, y + 4)}
        for side, (left, bottom) in corners.items():
            box = (left, bottom, left + length, bottom + TEXT_SIZE + 5)
            is_inside = box[0] >= 0 and box[2] <= width + 20
            if is_inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                sides[row["cell"]] = side
                break
    words = "{}: {}% of prompt tokens, {} GiB written"
    percent, gib = (100 * pl.col("rate")).round(1), pl.col("gib").round(1)
    place = pl.col("cell").replace_strict(sides, default=None, return_dtype=pl.String)
    return table.sort("front", maintain_order=True).with_columns(
        x=pl.col("gib"),
        y=pl.col("rate"),
        series=pl.when("front").then(pl.lit(_BEST)).otherwise(pl.lit("others")),
        note=pl.format(words, "name", percent, gib),
        side=place,
    )


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _mark_front(base: alt.Chart) -> alt.Chart:
    front = base.transform_filter("datum.front")
    colour = get_colour("blue")
    line: alt.Chart = front.mark_line(aria=False, interpolate="step-after", color=colour)
    return line


def _mark_cells(base: alt.Chart) -> alt.Chart:
    scale = alt.Scale(domain=[_BEST, "others"], range=[get_colour("blue"), get_colour("grey")])
    legend = alt.Legend(symbolType="circle", labelFontSize=TEXT_SIZE, labelLimit=400)
    points: alt.Chart = base.mark_point(size=70, filled=True, opacity=1)
    colour = alt.Color("series:N", scale=scale, legend=legend)
    encoded: alt.Chart = points.encode(color=colour, description="note:N")
    return encoded


def _mark_names(base: alt.Chart) -> Iterator[alt.Chart]:
    """Yield the names, each on the side of its point that has room."""
    for side, (dx, dy) in _SIDES.items():
        named = base.transform_filter(f"datum.side == '{side}'")
        align: Literal["left", "right"] = "left" if dx > 0 else "right"
        text = named.mark_text(aria=False, align=align, dx=dx, dy=dy, fontSize=TEXT_SIZE)
        yield text.encode(text="name:N", color=alt.value(MUTED))
