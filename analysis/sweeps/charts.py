"""Charts of a sweep: hit rates over capacities with their bound, and the Pareto front."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from analysis.sweeps.shapes import FUTURE, find_front
from analysis.sweeps.sweep import (
    CAPACITIES,
    MEMORY,
    RATES,
    TIMES,
    Curve,
    Point,
    SweepTable,
    get_direction,
)
from views.answer import Axis, Chart, Rule

DRAWN_LINES: Final = 7
"""Most lines in a panel; nobody could tell more apart."""
DRAWN_PANELS: Final = 6
_LOG_FROM: Final = 4  # capacities that span more than this factor have a log scale
BEST: Final = "no other hits as often with fewer writes"


def list_charts(sweep: SweepTable) -> Iterator[Chart]:
    """Yield the charts: hits by capacity, predicted times, the front; then other hit rates."""
    predicted = [by for by in TIMES if by in sweep.cells.columns]
    every = [(axis, by) for by in ("tokens", *predicted, "ops", "requests") for axis in sweep.axes]
    charts = [chart for axis, by in every if (chart := _chart_curves(sweep, axis, by)) is not None]
    front = find_front(sweep)
    yield from (chart for chart in charts if not chart.is_folded)
    if len(front):
        yield _chart_front(front)
    yield from (chart for chart in charts if chart.is_folded)


def _chart_curves(sweep: SweepTable, axis: str, by: str) -> Chart | None:
    """Return rates or predicted values over the capacity of a tier; None for a single size."""
    every = sweep.curves(axis, by)
    curves = _choose_curves(every)
    rows = [_make_row(curve, point) for curve in curves for point in curve.planned]
    sizes = sorted({point.gib for curve in curves for point in curve.planned})
    if len(sizes) < 2:
        return None
    memory, is_share = MEMORY[CAPACITIES[axis]], by in RATES
    what = f"{RATES[by]} that hit" if is_share else f"{TIMES[by]}, predicted"
    bounds = {curve.beside: curve.bound for curve in curves if curve.bound is not None}
    rates = (point.rate for curve in curves for point in curve.planned)
    top = 1.05 * max(*rates, *bounds.values(), 1e-9)
    return Chart(
        name=f"{axis}-{by}",
        title=f"{what}, against {memory}",
        caption=_describe_curves(sweep, by, len(every) - len(curves)),
        kind="lines",
        rows=pl.DataFrame(rows, infer_schema_length=None),
        x=Axis(
            title=f"{memory}, GiB",
            is_log=sizes[-1] > _LOG_FROM * (sizes[0] or sizes[1]),
            ticks=sizes,
        ),
        y=Axis(title=what, is_share=is_share, domain=(0.0, min(top, 1.0) if is_share else top)),
        dashed=frozenset(curve.label for curve in curves if FUTURE in curve.label or not is_share),
        rules=[Rule(label="unlimited memory", y=bound, panel=panel) for panel, bound in bounds.items()],
        is_folded=by in ("ops", "requests"),
    )


def _describe_curves(sweep: SweepTable, by: str, left_out: int) -> str:
    line = "across: what unlimited memory hits" if by in RATES else "dashed: predicted from a profile"
    more = f"; {left_out} more curves are in the table" if left_out else ""
    return f"Each point is a plan, each line one of the {sweep.rules}; {line}{more}."


def _make_row(curve: Curve, point: Point) -> dict[str, object]:
    shown = f"{point.rate:.1%}" if curve.by in RATES else f"{point.rate:,.4g}"
    note = f"{curve.name}, {point.gib:g} GiB: {shown}"
    return {
        "x": point.gib,
        "y": point.rate,
        "series": curve.label,
        "panel": curve.beside,
        "note": note,
    }


def _choose_curves(curves: list[Curve]) -> list[Curve]:
    """Return the curves of the labels that reach the most, in panels evenly chosen."""
    panels = list(dict.fromkeys(curve.beside for curve in curves))
    kept = panels[:: -(-len(panels) // DRAWN_PANELS)]
    best = sorted(
        curves,
        key=lambda curve: -max(get_direction(curve.by) * point.rate for point in curve.points),
    )
    labels = [*dict.fromkeys(curve.label for curve in best)][:DRAWN_LINES]
    return [curve for curve in curves if curve.label in labels and curve.beside in kept]


def _chart_front(front: pl.DataFrame) -> Chart:
    """Return bytes written to nvme against hits, with the Pareto front as a series of its own."""
    words, percent = "{}: {}% of prompt tokens, {} GiB written", (100 * pl.col("rate")).round(1)
    return Chart(
        name="front",
        title="Bytes written against hits",
        caption="Each point is a plan. Choose among those that no other beats in both.",
        kind="points",
        rows=front.select(
            pl.col("gib").alias("x"),
            pl.col("rate").alias("y"),
            pl.when("front").then(pl.lit(BEST)).otherwise(pl.lit("others")).alias("series"),
            pl.format(words, "name", percent, pl.col("gib").round(1)).alias("note"),
        ),
        x=Axis(title="GiB written to the drive over the trace"),
        y=Axis(title="prompt tokens that hit", is_share=True, has_zero=False),
        series=[BEST, "others"],
    )
