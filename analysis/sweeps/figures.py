"""The charts of a sweep with their headings, readings and tables."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import polars as pl

from analysis.report.chart_kinds import Plot
from analysis.sweeps import charts
from analysis.sweeps.front_chart import draw_front
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import CAPACITIES, MEMORY, RATES, TIMES, SweepTable


@dataclass(frozen=True)
class PlainFigure:
    """A chart of a page without runs.

    Attributes:
        name: its id in the page, and the name of its file.
        title: its heading.
        reading: how to read it.
        draw: draws the chart; returns None without data.
        table: its data.
        is_folded: whether it is behind a line that unfolds.
    """

    name: str
    title: str
    reading: str
    draw: Callable[[], Plot | None]
    table: Callable[[], pl.DataFrame]
    is_folded: bool = False


def list_figures(sweep: SweepTable) -> Iterator[PlainFigure]:
    """Yield the figures of a sweep: hits by capacity, times, the front; then other hit rates."""
    for axis in sweep.axes:
        yield _make_curves(sweep, axis, "tokens")
    for axis in sweep.axes:
        for by in TIMES:
            if by in sweep.cells.columns:
                yield _make_curves(sweep, axis, by)
    yield PlainFigure(
        "front",
        "Bytes written against hits",
        "Each point is a plan. Choose among those on the line: no other hits as often with fewer"
        " bytes written to the drive.",
        partial(draw_front, sweep),
        lambda: find_front(sweep).filter("front").drop("front"),
    )
    for axis in sweep.axes:
        for by in ("ops", "requests"):
            yield _make_curves(sweep, axis, by, is_folded=True)


def _make_curves(
    sweep: SweepTable,
    axis: str,
    by: str,
    *,
    is_folded: bool = False,
) -> PlainFigure:
    memory = MEMORY[CAPACITIES[axis]]
    title = f"Hits against {memory}, as a share of {RATES.get(by)}"
    reading = f"Each point is a plan; a line is one of the {sweep.rules}."
    if by in TIMES:
        title = f"{TIMES[by][:1].upper()}{TIMES[by][1:]}, against {memory}: predicted"
        reading += " Dashed: predicted from a profile, not measured."
    else:
        reading += " The bound is what unlimited memory hits."
    left_out = charts.count_left_out(sweep.curves(axis, by))
    if left_out:
        reading += f" Not drawn: {left_out}. The table has all."
    return PlainFigure(
        f"{axis}-{by}",
        title,
        reading,
        partial(charts.draw_curves, sweep, axis, by),
        partial(_tabulate_points, sweep, axis, by),
        is_folded,
    )


def _tabulate_points(sweep: SweepTable, axis: str, by: str) -> pl.DataFrame:
    value = f"{RATES[by]} that hit" if by in RATES else TIMES[by]
    rows = [
        {
            "plan": curve.name,
            f"{MEMORY[curve.tier]}, GiB": point.gib,
            value: point.rate,
            "bound": curve.bound,
        }
        for curve in sweep.curves(axis, by)
        for point in ((curve.without, *curve.points) if curve.without else curve.points)
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
