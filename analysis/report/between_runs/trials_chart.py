"""Trials of systems: how far each is from the mean of its system, per headline metric."""

from dataclasses import dataclass
from typing import Final

import altair as alt
import polars as pl

from analysis.report.chart_kinds import HEADER, ROWS, Axis, Look, Plot
from analysis.report.charts import SYSTEMS, add_notes
from analysis.report.comparison_charts import compare_trials
from analysis.report.data import DRAWN, Gathered
from analysis.report.svg import INK, MUTED, TEXT_SIZE
from analysis.report.text import format_number
from analysis.summary.numbers import format_alike

_LABEL: Final = 380
"""Most pixels for the names of rows."""
_VALUES: Final = 150
"""Pixels for the means at the right."""
_ROW: Final = 36
"""Height of a row in pixels."""
_LEAST_REACH: Final = 0.01
"""The axis reaches at least this far from the mean, so that equal trials do not look unequal."""


def list_deviations(data: Gathered) -> pl.DataFrame:
    """List each valid trial of the systems with several, as a share of its system's mean.

    A row also has the ends of the mean's interval as shares, and `order` among the trials of its
    system.
    """
    rows = compare_trials(data)
    if rows.is_empty():
        return rows
    many = pl.col("valid") & (pl.col("trials") > 1) & (pl.col("mean") != 0)
    rows = rows.filter(many & pl.col("system").is_in(data.systems[:DRAWN]))
    shares = {f"{end}_share": pl.col(end) / pl.col("mean") - 1 for end in ("value", "low", "high")}
    return rows.with_columns(**shares, order=pl.int_range(pl.len()).over("panel", "system"))


def tabulate_spread(data: Gathered) -> dict[str, pl.DataFrame]:
    """Return a table with a row for each metric and system: mean, interval, deviation, ends."""
    rows = list_deviations(data)
    if rows.is_empty():
        return {}
    of_trials = pl.col("value")
    table = rows.group_by("metric", "system", maintain_order=True).agg(
        pl.col("trials", "mean", "low", "high").first(),
        (of_trials.std() / of_trials.mean()).alias("cv"),
        of_trials.min().alias("least"),
        of_trials.max().alias("greatest"),
    )
    return {"spread of trials: the mean, its 95% interval, deviation ÷ mean (cv)": table}


def draw_trials(data: Gathered, width: int) -> Plot | None:
    """Draw a mark for each trial and the interval of the mean, relative to the mean.

    One system has a row for each metric. Several have a panel for each metric.
    """
    rows = list_deviations(data)
    if rows.is_empty():
        return None
    systems = rows["system"].unique(maintain_order=True).to_list()
    panels = rows["panel"].unique(maintain_order=True).to_list()
    is_alone = len(systems) == 1
    names = panels if is_alone else systems
    columns = 1 if is_alone else 2
    beside = min(_LABEL, 8 * max(map(len, names))) + 10
    inner = (width - beside) // columns - _VALUES - 10 * (columns - 1)
    reach = 1.1 * max(_LEAST_REACH, *map(abs, rows["value_share"].to_list()))
    look = Look(dict(zip(systems, SYSTEMS, strict=False)))
    chart = _Strips(look, "panel" if is_alone else "system", names, reach, inner).draw()
    rows = _describe_rows(rows)
    if is_alone:
        return Plot(chart, rows)
    return Plot(chart.facet(alt.Facet("panel:N", sort=panels, header=HEADER), columns=2), rows)


def _describe_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the mean with half its interval to the first mark of a row, and a tooltip to each."""
    noted = add_notes(
        rows,
        lambda one: f"{one['run']}: {format_number(one['value'])}, {one['value_share']:+.1%}",
    )
    words: list[str | None] = []
    for (metric,), own in rows.group_by("metric", maintain_order=True):
        means = format_alike(str(metric), own["mean"])
        halves = (own["high_share"] - own["low_share"]) / 2
        each = zip(own["order"], means, halves, strict=True)
        words += [None if order else f"{mean} ±{half:.1%}" for order, mean, half in each]
    return noted.with_columns(pl.Series("words", words, pl.String))


@dataclass(frozen=True)
class _Strips:
    """A panel with a strip of trials in each row.

    Attributes:
        look: appearance of the systems.
        row: the column that names the rows.
        names: names of the rows.
        reach: the share up to which the axis reaches on both sides.
        width: of a panel in pixels.
    """

    look: Look
    row: str
    names: list[str]
    reach: float
    width: int

    def draw(self) -> alt.LayerChart | alt.FacetChart:
        """Draw the rows: intervals, the mean, trials in their order from top to bottom, means."""
        x = Axis("distance from the mean", format="+~%", domain=[-self.reach, self.reach])
        axis = x.axis(5, pl.Series([self.reach]))
        axis["labelExpr"] = "datum.value == 0 ? 'mean' : datum.label"
        left = alt.Axis(labelLimit=_LABEL, domain=False, ticks=False)
        y = alt.Y(f"{self.row}:N", sort=self.names, title=None, axis=left)
        base = alt.Chart(ROWS).encode(y=y)
        once = base.transform_filter("datum.words != null")
        colour = alt.Color("system:N", scale=self.look.colours(), legend=None)
        height = _ROW * len(self.names)
        start = alt.X("low_share:Q", title=x.title, scale=x.scale(), axis=axis)
        interval = once.mark_rule(strokeWidth=0.7 * _ROW, opacity=0.28, aria=False, clip=True)
        trials = base.mark_point(size=60, opacity=1, filled=True, stroke=INK, strokeWidth=0.7)
        means = once.mark_text(align="left", dx=8, fontSize=TEXT_SIZE, color=MUTED, aria=False)
        middle = once.mark_rule(strokeWidth=1.5, color=INK, aria=False)
        return alt.layer(
            interval.encode(x=start, x2="high_share:Q", color=colour),
            middle.encode(x=alt.datum(0), y=alt.value(0), y2=alt.value(height)),
            trials.encode(
                x="value_share:Q",
                yOffset=alt.YOffset("order:O"),
                color=colour,
                description="note:N",
            ),
            means.encode(x=alt.value(self.width), text="words:N"),
        ).properties(width=self.width, height=height)
