"""Charts of a sweep: hit rates over capacities with their bound, and the Pareto front."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from analysis.sweeps.sweep import CAPACITIES, MEMORY, Curve, SweepTable, find_front
from replayer.schema import FUTURE
from views.answer import Axis, Chart, Rule

# Most lines in a panel; nobody could tell more apart.
DRAWN_LINES: Final = 7
DRAWN_PANELS: Final = 6
_LOG_FROM: Final = 4  # capacities that span more than this factor have a log scale
BEST: Final = "no other hits as often with fewer writes"


def list_charts(sweep: SweepTable) -> Iterator[Chart]:
    """Yield hits by capacity, and the front."""
    for axis in sweep.axes:
        yield from _chart_curves(sweep, axis)
    yield from _chart_front(find_front(sweep))


def _chart_curves(sweep: SweepTable, axis: str) -> Iterator[Chart]:
    """Yield rates over the capacity of a tier, unless there is a single size."""
    every = sweep.curves(axis)
    curves = _choose_curves(every)
    points = [(curve, point) for curve in curves for point in curve.planned]
    sizes = sorted({point.gib for _, point in points})
    if len(sizes) < 2:
        return
    memory = MEMORY[CAPACITIES[axis]]
    bounds = {curve.beside: curve.bound for curve in curves if curve.bound is not None}
    # From 0, so that heights can be compared; lines at the top keep some room.
    top = 1.05 * max(*(point.rate for _, point in points), *bounds.values(), 1e-9)
    more = f"; {len(every) - len(curves)} more curves are not drawn" if len(every) > len(curves) else ""
    rows = [
        (point.gib, point.rate, curve.label, curve.beside, f"{curve.name}, {point.gib:g} GiB: {point.rate:.1%}")
        for curve, point in points
    ]
    yield Chart(
        name=f"{axis}-tokens",
        title=f"Prompt tokens that hit, against {memory}",
        caption=f"Each point is a plan, each line one of the {sweep.rules}; across: what unlimited memory hits{more}.",
        kind="lines",
        rows=pl.DataFrame(rows, ("x", "y", "series", "panel", "note"), orient="row", infer_schema_length=None),
        x=Axis(title=f"{memory}, GiB", is_log=sizes[-1] > _LOG_FROM * (sizes[0] or sizes[1]), ticks=sizes),
        y=Axis(title="prompt tokens that hit", is_share=True, domain=(0.0, min(top, 1.0))),
        dashed=frozenset(curve.label for curve in curves if FUTURE in curve.label),
        rules=[Rule(label="unlimited memory", y=bound, panel=panel) for panel, bound in bounds.items()],
    )


def _choose_curves(curves: list[Curve]) -> list[Curve]:
    """Return the curves of the labels that reach the most, in panels evenly chosen."""
    panels = list(dict.fromkeys(curve.beside for curve in curves))
    # Evenly chosen, so that small and large sizes of the other tier are seen.
    kept = panels[:: -(-len(panels) // DRAWN_PANELS)]
    best = sorted(curves, key=lambda curve: -max(point.rate for point in curve.points))
    labels = [*dict.fromkeys(curve.label for curve in best)][:DRAWN_LINES]
    return [curve for curve in curves if curve.label in labels and curve.beside in kept]


def _chart_front(front: pl.DataFrame) -> Iterator[Chart]:
    """Yield bytes written to nvme against hits, with the Pareto front as a series of its own."""
    if front.is_empty():
        return
    words, percent = "{}: {}% of prompt tokens, {} GiB written", (100 * pl.col("rate")).round(1)
    yield Chart(
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
