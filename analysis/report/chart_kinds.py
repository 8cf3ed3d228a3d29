"""Kinds of charts: lines in panels and stacked bars, drawn from tables with a row for each mark."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import altair as alt
import polars as pl

from analysis.report.data import Gathered
from analysis.report.svg import MUTED, PAPER, WIDE, get_colour

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
Chart = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart


@dataclass(frozen=True)
class Plot:
    """A chart over ROWS, and its rows."""

    chart: Chart
    rows: pl.DataFrame


Draw = Callable[[Gathered, int], Plot | None]
"""Draws a chart at a width in pixels; returns None if the runs have nothing to show."""


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

    def scale(self, *, zero: bool = True) -> alt.Scale:
        """Return the scale; a linear one includes zero unless `zero` is false."""
        domain: dict[str, Any] = {"domain": self.domain} if self.domain else {}
        if self.log:
            return alt.Scale(type="log", **domain)
        return alt.Scale(zero=zero, nice=not self.domain, **domain)

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


@dataclass(frozen=True)
class Lines:
    """A line chart in panels. Its rows have x, y, panel, series and run, and may have a tooltip, `note`.

    Attributes:
        x: the horizontal axis.
        y: the vertical axis.
        look: appearance of the series.
        step: whether lines are steps, so that a value holds for its interval.
        points: whether every row with a note is marked by a point.
        shared: whether panels share their y axis.
        order: words on the x axis in their order; empty for numbers.
        height: height of a panel in pixels.
    """

    x: Axis
    y: Axis
    look: Look
    step: bool = False
    points: bool = False
    shared: bool = False
    order: Sequence[str] = field(default=())
    height: int = 130


def draw_lines(rows: pl.DataFrame, how: Lines, width: int) -> Plot | None:
    """Draw panels below one another, or in two columns if there are many and the chart is wide.

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
    columns = 2 if width >= WIDE and len(panels) > 3 else 1
    inner = width // columns - 54
    y = alt.Y("y:Q", title=how.y.title, scale=how.y.scale(), axis=how.y.axis(4, rows["y"]))
    base = alt.Chart(ROWS).encode(x=_make_x_axis(rows, how, inner), y=y)
    layers = [_mark_lines(base, how, width)]
    if "room" in rows.columns:
        room = base.transform_filter("datum.room != null").mark_line(aria=False, strokeWidth=1, strokeDash=[3, 3])
        layers.insert(0, room.encode(y="room:Q", color=alt.value(MUTED), detail="run:N"))
    if "note" in rows.columns:
        layers.append(_mark_notes(base, how, inner, rows["x"].n_unique()))
    chart = alt.layer(*layers).properties(width=inner, height=how.height)
    facets = chart.facet(alt.Facet("panel:N", sort=panels, header=HEADER), columns=columns)
    return Plot(
        facets.resolve_scale(y="shared" if how.shared else "independent"),
        _hold_last_values(rows) if how.step else rows,
    )


def _make_x_axis(rows: pl.DataFrame, how: Lines, width: int) -> alt.X:
    if how.order:
        return alt.X("x:N", sort=list(how.order), title=how.x.title, axis=alt.Axis(labelAngle=-40))
    axis = how.x.axis(max(3, width // 70), rows["x"])
    return alt.X("x:Q", title=how.x.title, scale=how.x.scale(zero=False), axis=axis)


def _mark_lines(base: alt.Chart, how: Lines, width: int) -> alt.Chart:
    # A legend with one entry is useless, and one in a single row would be cut off on a phone.
    legend = alt.Legend(columns=max(1, width // 100), symbolType="stroke") if len(how.look.words) > 1 else None
    line: alt.Chart = base.mark_line(aria=False, clip=True, interpolate="step-after" if how.step else "linear").encode(
        color=alt.Color("series:N", scale=how.look.colours(), legend=legend), detail="run:N"
    )
    if how.look.dashed:
        line = line.encode(strokeDash=alt.StrokeDash("series:N", scale=how.look.dashes(), legend=legend))
    return line


def _hold_last_values(rows: pl.DataFrame) -> pl.DataFrame:
    """Add a row to each line at the end of its last interval."""
    length = (pl.col("x").last() - pl.col("x").get(-2, null_on_oob=True)).fill_null(1.0)
    kept = pl.all().exclude("panel", "series", "run", "x").last()
    ends = rows.group_by("panel", "series", "run", maintain_order=True).agg(kept, x=pl.col("x").last() + length)
    ends = ends.with_columns(note=pl.lit(None, pl.String)) if "note" in rows.columns else ends
    held: pl.DataFrame = pl.concat([rows, ends.select(rows.columns)])
    return held


def _mark_notes(base: alt.Chart, how: Lines, width: int, count: int) -> alt.Chart:
    """Mark what shows a tooltip: points, or invisible columns as high as the panel."""
    noted = base.transform_filter("datum.note != null").encode(description="note:N")
    marks: alt.Chart
    if how.points:
        point = noted.mark_point(size=24, filled=True, opacity=1)
        marks = point.encode(
            color=alt.Color("series:N", scale=how.look.colours(), legend=None),
            shape=alt.Shape("series:N", scale=how.look.shapes(), legend=None),
        )
    else:
        column = noted.mark_rule(strokeWidth=max(3.0, width / max(count, 1)), opacity=0)
        marks = column.encode(y=alt.value(0), y2=alt.value(how.height))
    return marks


@dataclass(frozen=True)
class Bars:
    """Horizontal stacked bars. Rows have panel, y, part and value, and a tooltip, `note`.

    Attributes:
        x: the horizontal axis.
        look: appearance of the parts.
        shares: whether all bars are stretched to 100%.
    """

    x: Axis
    look: Look
    shares: bool = False


def draw_bars(rows: pl.DataFrame, how: Bars, width: int) -> Plot | None:
    """Draw the bars, with panels below one another.

    Args:
        rows: the rows of `Bars`.
        how: the kind of chart.
        width: in pixels.

    Returns:
        The plot; None without rows.
    """
    if rows.is_empty():
        return None
    panels, ys = (rows[name].unique(maintain_order=True).to_list() for name in ("panel", "y"))
    longest = max(len(str(name)) for name in ys)
    inner = width - min(130, 7 * longest) - 30
    order = {name: rank for rank, name in enumerate(how.look.words)}
    ranked = rows.with_columns(rank=pl.col("part").replace_strict(order, return_dtype=pl.Int64))
    chart = (
        alt.Chart(ROWS)
        .mark_bar(height={"band": 0.8}, stroke=PAPER, strokeWidth=1)
        .encode(
            x=alt.X(
                "value:Q",
                stack="normalize" if how.shares else "zero",
                title=how.x.title,
                axis=how.x.axis(max(3, inner // 70), rows["value"]),
            ),
            y=alt.Y("y:N", sort=ys, title=None, axis=alt.Axis(labelLimit=130, domain=False, ticks=False)),
            color=alt.Color("part:N", scale=how.look.colours(), legend=alt.Legend(columns=max(1, width // 110))),
            order="rank:Q",
            description="note:N",
        )
        .properties(width=inner, height=alt.Step(20))
    )
    return Plot(stack_panels(chart, panels), ranked)


def stack_panels(chart: Chart, panels: list[str]) -> Chart:
    """Put a chart's panels below one another; a chart with a single panel stays as it is."""
    if len(panels) == 1:
        return chart
    facet = alt.Facet("panel:N", sort=panels, header=HEADER)
    facets: Chart = chart.facet(facet, columns=1).resolve_scale(y="independent")
    return facets
