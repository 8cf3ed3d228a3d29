"""Kinds of charts: lines in panels and stacked bars, from rows that say where each mark belongs."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import altair as alt
import polars as pl

from analysis.report.data import Gathered
from analysis.report.svg import MUTED, PAPER, WIDE, colour

SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "stroke")
ROWS: Final = alt.NamedData("rows")
"""Stands for a plot's rows in its chart: Altair copies whatever a chart holds at every step."""

DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 3], [3, 1])


HEADER: Final = alt.Header(labelOrient="top", labelAnchor="start", title=None)


Chart = alt.Chart | alt.LayerChart | alt.FacetChart


@dataclass(frozen=True)
class Plot:
    """A chart over ROWS, and the rows."""

    chart: Chart
    rows: pl.DataFrame


Draw = Callable[[Gathered, int], Plot | None]


@dataclass(frozen=True)
class Look:
    """How the values of a column look: their order, colour and dashes."""

    words: dict[str, str]
    dashed: bool = False

    def colours(self) -> alt.Scale:
        """The scale of colours."""
        return alt.Scale(domain=list(self.words), range=[colour(name) for name in self.words.values()])

    def dashes(self) -> alt.Scale:
        """The scale of dashes."""
        return alt.Scale(domain=list(self.words), range=[list(dash) for dash in DASHES[: len(self.words)]])

    def shapes(self) -> alt.Scale:
        """The scale of the points' shapes."""
        return alt.Scale(domain=list(self.words), range=[*SHAPES[: len(self.words)]])


@dataclass(frozen=True)
class Axis:
    """A quantity: its title with the unit, and its scale."""

    title: str
    log: bool = False
    format: str = ",~r"
    domain: list[float] | None = None
    values: list[float] | None = None

    def scale(self, *, zero: bool = True) -> alt.Scale:
        """Logarithmic without zero; else from zero, unless told otherwise."""
        given: dict[str, Any] = {"domain": self.domain} if self.domain else {}
        return alt.Scale(type="log", **given) if self.log else alt.Scale(zero=zero, nice=not self.domain, **given)

    def axis(self, ticks: int, values: pl.Series) -> alt.Axis:
        """The axis; on log scales a tick per decade, as every 2 and 5 would be a thicket of rules."""
        marks = self.values or (decades(values) if self.log else None)
        given: dict[str, Any] = {"values": marks} if marks else {}
        return alt.Axis(tickCount=ticks, format=self.format, grid=True, labelOverlap="greedy", **given)


def decades(values: pl.Series) -> list[float]:
    """Ticks of a log scale."""
    positive = values.filter(values > 0)
    if positive.is_empty():
        return []
    low, high = (math.floor(math.log10(float(end))) for end in (positive.min(), positive.max()))  # type: ignore[arg-type]
    steps = (1, 2, 5) if high - low < 2 else (1,)
    return [step * 10.0**power for power in range(low, high + 2) for step in steps]


@dataclass(frozen=True)
class Lines:
    """A line chart in panels. Its rows have x, y, panel, series and run; `note` where a pointer is told something.

    Attributes:
        x, y: the axes.
        look: of the series.
        step: lines are steps: a value holds for its interval.
        points: mark every row.
        shared: panels have one y axis.
        ordinal: x has words, in the order of `order`.
    """

    x: Axis
    y: Axis
    look: Look
    step: bool = False
    points: bool = False
    shared: bool = False
    order: Sequence[str] = field(default=())
    height: int = 130


def lines(rows: pl.DataFrame, how: Lines, width: int) -> Plot | None:
    """The chart, one panel above the other; many panels in two columns where it is wide."""
    if rows.is_empty():
        return None
    panels = rows["panel"].unique(maintain_order=True).to_list()
    columns = 2 if width >= WIDE and len(panels) > 3 else 1
    inner = width // columns - 54
    y = alt.Y("y:Q", title=how.y.title, scale=how.y.scale(), axis=how.y.axis(4, rows["y"]))
    base = alt.Chart(ROWS).encode(x=_along(rows, how, inner), y=y)
    layers = [_line(base, how, width)]
    if "room" in rows.columns:
        room = base.transform_filter("datum.room != null").mark_line(aria=False, strokeWidth=1, strokeDash=[3, 3])
        layers.insert(0, room.encode(y="room:Q", color=alt.value(MUTED), detail="run:N"))
    if "note" in rows.columns:
        layers.append(_noted(base, how, inner, rows["x"].n_unique()))
    chart = alt.layer(*layers).properties(width=inner, height=how.height)
    facets = chart.facet(alt.Facet("panel:N", sort=panels, header=HEADER), columns=columns)
    return Plot(facets.resolve_scale(y="shared" if how.shared else "independent"), _held(rows) if how.step else rows)


def _along(rows: pl.DataFrame, how: Lines, width: int) -> alt.X:
    if how.order:
        return alt.X("x:N", sort=list(how.order), title=how.x.title, axis=alt.Axis(labelAngle=-40))
    axis = how.x.axis(max(3, width // 70), rows["x"])
    return alt.X("x:Q", title=how.x.title, scale=how.x.scale(zero=False), axis=axis)


def _line(base: alt.Chart, how: Lines, width: int) -> alt.Chart:
    # A legend of one entry says nothing; one in a row too long for a phone would be cut off.
    legend = alt.Legend(columns=max(1, width // 100), symbolType="stroke") if len(how.look.words) > 1 else None
    line: alt.Chart = base.mark_line(aria=False, clip=True, interpolate="step-after" if how.step else "linear").encode(
        color=alt.Color("series:N", scale=how.look.colours(), legend=legend), detail="run:N"
    )
    if how.look.dashed:
        line = line.encode(strokeDash=alt.StrokeDash("series:N", scale=how.look.dashes(), legend=legend))
    return line


def _held(rows: pl.DataFrame) -> pl.DataFrame:
    """Each line's last value held for its interval, too."""
    length = (pl.col("x").last() - pl.col("x").get(-2, null_on_oob=True)).fill_null(1.0)
    kept = pl.all().exclude("panel", "series", "run", "x").last()
    ends = rows.group_by("panel", "series", "run", maintain_order=True).agg(kept, x=pl.col("x").last() + length)
    untold = ends.with_columns(note=pl.lit(None, pl.String)) if "note" in rows.columns else ends
    held: pl.DataFrame = pl.concat([rows, untold.select(rows.columns)])
    return held


def _noted(base: alt.Chart, how: Lines, width: int, count: int) -> alt.Chart:
    """What a resting pointer finds: the points, or columns as high as the panel where time runs."""
    told = base.transform_filter("datum.note != null").encode(description="note:N")
    found: alt.Chart
    if how.points:
        point = told.mark_point(size=24, filled=True, opacity=1)
        found = point.encode(
            color=alt.Color("series:N", scale=how.look.colours(), legend=None),
            shape=alt.Shape("series:N", scale=how.look.shapes(), legend=None),
        )
    else:
        column = told.mark_rule(strokeWidth=max(3.0, width / max(count, 1)), opacity=0)
        found = column.encode(y=alt.value(0), y2=alt.value(how.height))
    return found


@dataclass(frozen=True)
class Bars:
    """Stacked bars, lying. Rows have panel, y, part and value; `note` is what a pointer is told.

    Attributes:
        x: the axis.
        look: of the parts.
        shares: bars are 100% long.
    """

    x: Axis
    look: Look
    shares: bool = False


def bars(rows: pl.DataFrame, how: Bars, width: int) -> Plot | None:
    """The chart, a panel above the other where there are several."""
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
    return Plot(below(chart, panels), ranked)


def below(chart: Chart, panels: list[str]) -> Chart:
    """One panel below the other, where there are several."""
    if len(panels) == 1:
        return chart
    facet = alt.Facet("panel:N", sort=panels, header=HEADER)
    facets: Chart = chart.facet(facet, columns=1).resolve_scale(y="independent")
    return facets
