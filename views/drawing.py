"""The parts that all charts share: rows, colours, legends, scales and axes."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import polars as pl

from views.answer import Axis, Chart
from views.numbers import format_number, format_plain
from views.svg import COLOURS, TEXT_SIZE, WIDTH, get_colour

PALETTE: Final = ("blue", "red", "green", "purple", "yellow", "cyan", "brown", "grey")
# Reference to the rows: Altair copies all data of a chart at every step
ROWS: Final = alt.NamedData("rows")
_HEADER: Final = alt.Header(labelOrient="top", labelAnchor="start", title=None)
# Pixels of a letter, on average
LETTER: Final = 0.53 * TEXT_SIZE
# Shape of a line in a legend, long enough to show its dashes
STROKE: Final = "M-1,0H4"
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "stroke")
_DASHES: Final = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3], [10, 3], [3, 1])
_PREDICTED: Final = [7, 4]
_TIMES: Final = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000)
_RATIO: Final = "datum.value == 1 ? '1' : format(max(datum.value, 1 / datum.value), '.3~g') + '×'"

# The columns that rows may lack, and their values then
_COLUMNS: Final[dict[str, pl.Expr]] = {
    "panel": pl.lit(""),
    "series": pl.lit(""),
    "low": pl.lit(None, pl.Float64),
    "high": pl.lit(None, pl.Float64),
    "hollow": pl.lit(False),
    "target": pl.lit(None, pl.Float64),
    "text": pl.lit(None, pl.String),
    "rule": pl.lit(None, pl.String),
}

Drawn = alt.LayerChart | alt.FacetChart


@dataclass(frozen=True)
class Drawing:
    """A chart that is being drawn.

    Attributes:
        chart: its data.
        rows: its rows with all columns.
        colours: names of colours by series, in the order of the legend.
    """

    chart: Chart
    rows: pl.DataFrame
    colours: dict[str, str]

    @property
    def has_points(self) -> bool:
        """Whether rows are marked by points."""
        return self.chart.kind in ("lines", "points")

    @property
    def panels(self) -> list[str]:
        """The names of its panels."""
        names: list[str] = self.rows["panel"].unique(maintain_order=True).to_list()
        return names

    def encode_colour(self, symbol: str = "") -> alt.Color:
        """Encode series as colours, with a symbol in the legend; every layer must use the same."""
        shades = [get_colour(name) for name in self.colours.values()]
        scale = alt.Scale(domain=[*self.colours], range=shades)
        return alt.Color("series:N", scale=scale, legend=self.make_legend(symbol))

    def encode_dashes(self, symbol: str = "") -> alt.StrokeDash | None:
        """Encode predicted series as dashes, or all of long lines; None if none is dashed."""
        own = self.chart.colours.keys() | COLOURS.keys()
        dashes = [*itertools.islice(itertools.cycle(_DASHES), len(self.colours))]
        if self.chart.dashed:
            predicted = self.chart.dashed
            dashes = [_PREDICTED if name in predicted else _DASHES[0] for name in self.colours]
        elif self.has_points or not self.colours.keys().isdisjoint(own):
            return None
        scale = alt.Scale(domain=[*self.colours], range=dashes)
        return alt.StrokeDash("series:N", scale=scale, legend=self.make_legend(symbol))

    def encode_shapes(self) -> alt.Shape:
        """Encode series as shapes of points."""
        shapes = [*itertools.islice(itertools.cycle(_SHAPES), len(self.colours))]
        scale = alt.Scale(domain=[*self.colours], range=shapes)
        return alt.Shape("series:N", scale=scale, legend=self.make_legend())

    def make_legend(self, symbol: str = "") -> alt.Legend | None:
        """Return a legend; None if it would tell nothing."""
        is_named_by_panel = self.rows.n_unique(["panel", "series"]) == len(self.panels)
        if len(self.colours) < 2 or is_named_by_panel:
            return None
        columns = max(1, int(WIDTH // (LETTER * max(map(len, self.colours)) + 80)))
        if symbol == STROKE:
            return alt.Legend(columns=columns, symbolType=symbol, labelOffset=24)
        symbols: Any = {"symbolType": symbol} if symbol else {}
        return alt.Legend(columns=columns, **symbols)


def make_drawing(chart: Chart) -> Drawing:
    """Return a chart with all columns of its rows, and with its colours."""
    lacking = {name: value for name, value in _COLUMNS.items() if name not in chart.rows.columns}
    rows = _add_notes(chart, chart.rows.with_columns(**lacking))
    present = rows["series"].unique(maintain_order=True).to_list()
    palette = itertools.cycle(PALETTE)
    # Absent series keep their place in the palette: a name has one colour in all charts.
    wanted = [*chart.series, *(name for name in present if name not in chart.series)]
    colours = {name: _choose_colour(name, chart.colours, palette) for name in wanted}
    shown = {name: colour for name, colour in colours.items() if name in present}
    return Drawing(chart, rows, shown)


def _choose_colour(name: str, given: Mapping[str, str], palette: Iterator[str]) -> str:
    if name in given:
        return given[name]
    return name if name in COLOURS else next(palette)


def make_scale(axis: Axis, *, nice: int | bool = True, padding: int = 0) -> alt.Scale:
    """Return the scale of an axis; a whole number makes that many steps to round ends."""
    ends: Any = {"domain": [*axis.domain]} if axis.domain else {"padding": padding}
    if axis.is_log or axis.is_ratio:
        return alt.Scale(type="log", nice=not (padding or axis.domain), **ends)
    return alt.Scale(zero=axis.has_zero, nice=nice if not axis.domain else False, **ends)


def make_axis(axis: Axis, count: int, values: pl.Series) -> alt.Axis:
    """Return the ticks of an axis, about this many; a log scale has them at decades."""
    chosen: Any = {"tickCount": count}
    if axis.ticks is not None:
        chosen = {"values": [*axis.ticks]}
    elif axis.is_ratio:
        chosen = {"values": _choose_ratio_ticks(values), "labelExpr": _RATIO}
    elif axis.is_log:
        chosen = {"values": _choose_log_ticks(values)}
    form = "~%" if axis.is_share else ",~r"
    return alt.Axis(format=form, grid=True, labelOverlap="greedy", **chosen)


def _choose_log_ticks(values: pl.Series) -> list[float]:
    """Return ticks at decades, and at 2 and 5 if the values span less than two of them."""
    positive = [value for value in values.drop_nulls() if value > 0]
    if not positive:
        return []
    low, high = (math.floor(math.log10(end)) for end in (min(positive), max(positive)))
    steps = (1, 2, 5) if high - low < 2 else (1,)
    return [step * 10.0**power for power in range(low, high + 2) for step in steps]


def _choose_ratio_ticks(values: pl.Series) -> list[float]:
    """Return 1, and three round numbers of times on each side of it."""
    reach = max((max(value, 1 / value) for value in values.drop_nulls() if value > 0), default=2.0)
    times = [tick for tick in _TIMES if tick <= max(reach, _TIMES[2])][-3:]
    return [*(1 / tick for tick in reversed(times)), 1.0, *times]


def arrange_panels(whole: Drawn, panels: list[str], columns: int, *, is_shared: bool) -> Drawn:
    """Put the panels of a chart into columns, with one vertical scale if it is shared."""
    if panels == [""]:
        return whole
    facets = whole.facet(alt.Facet("panel:N", sort=panels, header=_HEADER), columns=columns)
    arranged: Drawn = facets.resolve_scale(y="shared" if is_shared else "independent")
    return arranged


def _add_notes(chart: Chart, rows: pl.DataFrame) -> pl.DataFrame:
    """Add a tooltip to each row, if they have none."""
    if "note" in rows.columns:
        return rows
    notes = []
    for panel, series, x, y in rows.select("panel", "series", "x", "y").rows():
        if chart.kind in ("bars", "intervals", "dots"):
            notes.append(f"{' '.join(filter(None, (panel, y, series)))}: {_write_value(x, chart.x)}")
        else:
            notes.append(f"{series} {_write_value(y, chart.y)}, at {_write_value(x, chart.x)}".strip())
    return rows.with_columns(pl.Series("note", notes, pl.String))


def _write_value(value: object, axis: Axis) -> str:
    return format_plain(value, "share") if axis.is_share and isinstance(value, float) else format_number(value)
