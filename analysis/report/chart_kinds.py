"""Charts of lines in panels, drawn from tables with a row for each mark; axes and looks."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import altair as alt
import polars as pl

from analysis.report.data import Gathered
from analysis.report.svg import INK, MUTED, TEXT_SIZE, get_colour

SHAPES: Final = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-left",
    "stroke",
)
ROWS: Final = alt.NamedData("rows")
"""Reference to a plot's rows: Altair copies all data of a chart at every step."""

DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 3], [3, 1])
PREDICTED_DASHES: Final = ([5, 3], [2, 2], [9, 3, 2, 3], [2, 4], [12, 4])
"""Dashes of predicted runs; where they are shown, measured runs have none."""
HEADER: Final = alt.Header(labelOrient="top", labelAnchor="start", title=None)
Chart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart | alt.HConcatChart


@dataclass(frozen=True)
class Plot:
    """A chart over ROWS, and its rows."""

    chart: Chart
    rows: pl.DataFrame


Draw = Callable[[Gathered, int], Plot | None]
"""Draws a chart at a width in pixels, `svg.WIDTH`; returns None if there is nothing to show."""

_MARGIN: Final = 78
"""Pixels beside a panel for the axis and its title."""
_TICKS: Final = 5
_STROKE: Final = "M-1,0H4"
"""Shape of a line in a legend, long enough to show its dashes."""


@dataclass(frozen=True)
class Look:
    """Appearance of a column's values.

    Attributes:
        words: names of colours by value, in the order of the legend.
        dashed: whether lines differ in their dashes, too.
        predicted: the values that belong to predicted runs; if there are any, only their lines are
            dashed.
    """

    words: dict[str, str]
    dashed: bool = False
    predicted: frozenset[str] = frozenset()

    def colours(self) -> alt.Scale:
        """Return the scale of colours."""
        return alt.Scale(domain=list(self.words), range=[get_colour(name) for name in self.words.values()])

    def dashes(self) -> alt.Scale:
        """Return the scale of dashes."""
        dashes = list(DASHES[: len(self.words)])
        if self.predicted:
            patterns = itertools.cycle(PREDICTED_DASHES)
            dashes = [next(patterns) if word in self.predicted else DASHES[0] for word in self.words]
        return alt.Scale(domain=list(self.words), range=[list(dash) for dash in dashes])

    def shapes(self) -> alt.Scale:
        """Return the scale of the shapes of points."""
        return alt.Scale(domain=list(self.words), range=[*SHAPES[: len(self.words)]])


@dataclass(frozen=True)
class Axis:
    """A quantity on an axis.

    Attributes:
        title: the quantity with its unit.
        log: whether the scale is logarithmic.
        format: format of the numbers.
        domain: ends of the axis; None to fit the data.
        values: ticks; None to choose them.
    """

    title: str
    log: bool = False
    format: str = ",~r"
    domain: list[float] | None = None
    values: list[float] | None = None

    def scale(self, *, zero: bool = True, ticks: int | None = None) -> alt.Scale:
        """Return the scale; a linear one includes zero unless `zero` is false.

        With a wanted number of ticks both ends are ticks.
        """
        domain: dict[str, Any] = {"domain": self.domain} if self.domain else {}
        if self.log:
            return alt.Scale(type="log", **domain)
        return alt.Scale(zero=zero, nice=not self.domain and (ticks or True), **domain)

    def axis(self, ticks: int, values: pl.Series) -> alt.Axis:
        """Return the axis with about this number of ticks; a log scale has them at decades.

        Args:
            ticks: wanted number of ticks.
            values: the values that are shown.
        """
        marks = self.values or (choose_log_ticks(values) if self.log else None)
        chosen: dict[str, Any] = {"values": marks} if marks else {}
        return alt.Axis(
            tickCount=ticks,
            format=self.format,
            grid=True,
            labelOverlap="greedy",
            **chosen,
        )


def choose_log_ticks(values: pl.Series) -> list[float]:
    """Return ticks at decades, and at 2 and 5 if the values span less than two of them."""
    positive = values.filter(values > 0)
    if positive.is_empty():
        return []
    low, high = (math.floor(math.log10(float(end))) for end in (positive.min(), positive.max()))  # type: ignore[arg-type]
    steps = (1, 2, 5) if high - low < 2 else (1,)
    return [step * 10.0**power for power in range(low, high + 2) for step in steps]


def measure_labels(longest: int) -> int:
    """Return the pixels that labels of at most this number of characters take beside an axis."""
    return min(260, round(0.6 * TEXT_SIZE * longest))


@dataclass(frozen=True)
class Lines:
    """A line chart in panels.

    Its rows have x, y, panel, series and run. They may have `note`, a tooltip; `low`, the other
    edge of a band that ends at y; `room`, a limit; and `mark`, the name of a moment x, in rows without y.

    Attributes:
        x: the horizontal axis.
        y: the vertical axis.
        look: appearance of the series.
        step: whether lines are steps, so that a value holds for its interval.
        points: whether every row with a note is marked by a point.
        shared: whether panels share their y axis.
        order: words on the x axis in their order; empty for numbers.
        height: height of a panel in pixels; one that is alone is higher by half.
        legend: whether several series have a legend; without one, panels name their series.
    """

    x: Axis
    y: Axis
    look: Look
    step: bool = False
    points: bool = False
    shared: bool = False
    order: Sequence[str] = field(default=())
    height: int = 170
    legend: bool = True


def draw_lines(rows: pl.DataFrame, how: Lines, width: int) -> Plot | None:
    """Draw one panel as wide as the chart, or several in two columns.

    Args:
        rows: the rows of `Lines`.
        how: the kind of chart.
        width: in pixels.

    Returns:
        The plot; None without rows.
    """
    if rows.is_empty():
        return None
    panels = rows["panel"].unique(maintain_order=True).to_list()
    columns = min(2, len(panels))
    inner = width // columns - _MARGIN
    height = how.height if columns > 1 else how.height * 3 // 2
    base = alt.Chart(ROWS).encode(x=_make_x_axis(rows, how, inner), y=_make_y_axis(rows, how, "y"))
    chart = alt.layer(*_make_layers(base, rows, how, (inner, height)))
    facets = chart.properties(width=inner, height=height).facet(
        alt.Facet("panel:N", sort=panels, header=HEADER), columns=columns
    )
    return Plot(
        facets.resolve_scale(y="shared" if how.shared else "independent"),
        _hold_last_values(rows) if how.step else rows,
    )


def _make_layers(
    base: alt.Chart,
    rows: pl.DataFrame,
    how: Lines,
    size: tuple[int, int],
) -> list[alt.Chart]:
    """Return the layers of a panel of this width and height, from the back to the front."""
    layers = []
    if "mark" in rows.columns:
        layers += _mark_moments(base, rows)
        base = base.transform_filter("datum.mark == null")
    if "room" in rows.columns:
        limited = base.transform_filter("datum.room != null")
        room = limited.mark_line(aria=False, strokeWidth=1, strokeDash=[3, 3])
        layers.append(room.encode(y="room:Q", color=alt.value(MUTED), detail="run:N"))
    if "low" in rows.columns:
        band = base.mark_area(aria=False, clip=True, opacity=0.25, interpolate=_interpolate(how))
        colour = alt.Color("series:N", scale=how.look.colours(), legend=None)
        layers.append(band.encode(y2="low:Q", color=colour, detail="run:N"))
        base = base.encode(y=_make_y_axis(rows, how, "low"))
    layers.append(_mark_lines(base, how))
    if "note" in rows.columns:
        layers.append(_mark_notes(base, how, size, rows["x"].n_unique()))
    return layers


def _make_x_axis(rows: pl.DataFrame, how: Lines, width: int) -> alt.X:
    if how.order:
        longest = max(map(len, how.order)) * TEXT_SIZE * 0.6
        angle = 0 if longest * len(how.order) < width else -40
        axis = alt.Axis(labelAngle=angle)
        return alt.X("x:N", sort=list(how.order), title=how.x.title, axis=axis)
    numbers = how.x.axis(max(4, width // 90), rows["x"])
    return alt.X("x:Q", title=how.x.title, scale=how.x.scale(zero=False), axis=numbers)


def _make_y_axis(rows: pl.DataFrame, how: Lines, column: str) -> alt.Y:
    axis = how.y.axis(_TICKS, rows["y"].drop_nulls())
    scale = how.y.scale(ticks=_TICKS)
    return alt.Y(f"{column}:Q", title=how.y.title, scale=scale, axis=axis)


def _interpolate(how: Lines) -> Literal["step-after", "linear"]:
    return "step-after" if how.step else "linear"


def _make_legend(how: Lines) -> alt.Legend | None:
    """Return a legend with a line or a point for each series; None if it would tell nothing."""
    if not how.legend or len(how.look.words) < 2:
        return None
    longest = max(map(len, how.look.words))
    columns = max(1, 1000 // (measure_labels(longest) + 70))
    if how.points:
        return alt.Legend(columns=columns)
    return alt.Legend(columns=columns, symbolType=_STROKE, labelOffset=24)


def _mark_lines(base: alt.Chart, how: Lines) -> alt.Chart:
    legend = _make_legend(how)
    clip = how.x.domain is not None or how.y.domain is not None
    marked: alt.Chart = base.mark_line(aria=False, clip=clip, interpolate=_interpolate(how)).encode(
        color=alt.Color("series:N", scale=how.look.colours(), legend=legend),
        detail="run:N",
    )
    # Shapes of points tell lines apart, too, and a legend of points with dashed edges is ugly.
    if how.look.predicted or (how.look.dashed and not how.points):
        dashes = how.look.dashes()
        marked = marked.encode(strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend))
    return marked


def _mark_moments(base: alt.Chart, rows: pl.DataFrame) -> list[alt.Chart]:
    """Mark moments by vertical lines, with their names on the side that has more room."""
    moments = base.transform_filter("datum.mark != null").encode(y=alt.value(0))
    rule = moments.mark_rule(aria=False, color=INK, strokeWidth=1, strokeDash=[2, 3])
    middle = rows.select((pl.col("x").min() + pl.col("x").max()) / 2).item()
    text = moments.mark_text(
        aria=False,
        align=alt.expr(f"datum.x < {middle} ? 'left' : 'right'"),
        dx=alt.expr(f"datum.x < {middle} ? 5 : -5"),
        dy=2,
        baseline="top",
        color=INK,
        fontSize=TEXT_SIZE - 1,
    )
    return [rule.encode(y2=alt.value("height")), text.encode(text="mark:N")]


def _hold_last_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Add a row to each line at the end of its last interval."""
    values = rows.filter(pl.col("mark").is_null()) if "mark" in rows.columns else rows
    length = (pl.col("x").last() - pl.col("x").get(-2, null_on_oob=True)).fill_null(1.0)
    kept = pl.all().exclude("panel", "series", "run", "x").last()
    ends = values.group_by("panel", "series", "run", maintain_order=True).agg(kept, x=pl.col("x").last() + length)
    ends = ends.with_columns(note=pl.lit(None, pl.String)) if "note" in rows.columns else ends
    held: pl.DataFrame = pl.concat([rows, ends.select(rows.columns)])
    return held


def _mark_notes(base: alt.Chart, how: Lines, size: tuple[int, int], count: int) -> alt.Chart:
    """Mark what shows a tooltip: points, or invisible columns as high as the panel."""
    width, height = size
    noted = base.transform_filter("datum.note != null").encode(description="note:N")
    marks: alt.Chart
    if how.points:
        point = noted.mark_point(size=50, filled=True, opacity=1)
        marks = point.encode(
            color=alt.Color("series:N", scale=how.look.colours(), legend=None),
            shape=alt.Shape("series:N", scale=how.look.shapes(), legend=None),
        )
    else:
        wide = round(max(3.0, width / max(count, 1)), 1)
        column = noted.mark_rule(strokeWidth=wide, color=INK, opacity=0)
        marks = column.encode(y=alt.value(0), y2=alt.value(height))
    return marks
