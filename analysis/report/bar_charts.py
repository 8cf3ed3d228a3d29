"""Charts of horizontal bars, drawn from tables with a row for each part of a bar."""

from dataclasses import dataclass

import altair as alt
import polars as pl

from analysis.report.chart_kinds import HEADER, ROWS, Axis, Chart, Look, Plot, measure_labels
from analysis.report.svg import PAPER


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
    inner = width - measure_labels(longest) - 30
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
                axis=how.x.axis(max(4, inner // 90), rows["value"]),
            ),
            y=alt.Y("y:N", sort=ys, title=None, axis=alt.Axis(domain=False, ticks=False)),
            color=alt.Color(
                "part:N",
                scale=how.look.colours(),
                legend=alt.Legend(columns=width // 160),
            ),
            order="rank:Q",
            description="note:N",
        )
        .properties(width=inner, height=alt.Step(30))
    )
    return Plot(stack_panels(chart, panels), ranked)


def stack_panels(chart: Chart, panels: list[str]) -> Chart:
    """Put a chart's panels below one another; a chart with a single panel stays as it is."""
    if len(panels) == 1:
        return chart
    facet = alt.Facet("panel:N", sort=panels, header=HEADER)
    facets: Chart = chart.facet(facet, columns=1).resolve_scale(y="independent")
    return facets
