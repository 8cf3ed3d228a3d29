"""The report of a sweep as one HTML file, as the report of runs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import jinja2
import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from analysis.progress import Progress, ignore_progress
from analysis.report import svg as drawing
from analysis.report import text as wording
from analysis.report.chart_files import NamedPlot
from analysis.report.chart_kinds import Plot
from analysis.report.page import Table
from analysis.sweeps import charts
from analysis.sweeps.shapes import CLIFF_POINTS, KNEE_RISE, find_front
from analysis.sweeps.sweep import CAPACITIES, RATES, SweepTable
from analysis.sweeps.tables import describe_best, list_findings, tabulate_cells
from replayer.schema import SIMULATION_COLUMNS

LISTED: Final = 12
"""Most curves described in words at the top of the page."""
_FOLDER: Final = Path(__file__).parent
_READING: Final = (
    "Each point is a cell. A cliff is where halving the capacity loses the most, from"
    f" {CLIFF_POINTS:g} percentage points on. A knee is the point furthest above the straight line"
    f" between the ends of a curve, from {KNEE_RISE:.0%} of its height on; the capacity counts as"
    " its logarithm (Kneedle). The bound is the rate with unlimited memory. In the trace's order,"
    " and without chunks, no cell is above it."
    " Capacities that are 0 or unlimited are in the table only."
)


@dataclass(frozen=True)
class SweepFigure:
    """A chart of a sweep.

    Attributes:
        name: its id in the page.
        title: its heading.
        reading: how to read it.
        draw: draws the chart at a width in pixels; returns None without data.
        table: its data.
    """

    name: str
    title: str
    reading: str
    draw: Callable[[int], Plot | None]
    table: Callable[[], pl.DataFrame]


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with its chart and its tables."""

    figure: SweepFigure
    chart: Markup
    tables: list[Table]


def list_figures(sweep: SweepTable) -> Iterator[SweepFigure]:
    """Yield the figures of a sweep: curves by axis and definition, then the Pareto front."""
    for axis in sweep.axes:
        for by, counted in RATES.items():
            yield SweepFigure(
                f"{axis}-{by}",
                f"Hit rate by {counted} over {CAPACITIES[axis]}",
                _READING,
                partial(charts.draw_curves, sweep, axis, by),
                partial(_tabulate_points, sweep, axis, by),
            )
    yield SweepFigure(
        "front",
        "Bytes written against hits",
        "Each point is a cell. A cell is on the front if no other hits as often with fewer bytes"
        " written to nvme: choose among these. The numbers are those of the cells in the table.",
        partial(charts.draw_front, sweep),
        lambda: find_front(sweep).filter("front").drop("front"),
    )


def draw_sweep_plots(sweep: SweepTable) -> Iterator[NamedPlot]:
    """Yield the plots of a sweep."""
    with debug_mode(False):  # Altair's validation takes longer than drawing
        for figure in list_figures(sweep):
            if (plot := figure.draw(drawing.WIDTH)) is not None:
                yield NamedPlot(figure.name, figure.title, plot)


def _tabulate_points(sweep: SweepTable, axis: str, by: str) -> pl.DataFrame:
    rows = [
        {
            "curve": curve.name,
            f"{curve.tier} GiB": point.gib,
            "rate": point.rate,
            "bound": curve.bound,
            "cell": point.cell,
        }
        for curve in sweep.curves(axis, by)
        for point in curve.points
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _draw(figure: SweepFigure) -> DrawnFigure | None:
    """Draw a figure; None if it has no data."""
    if (plot := figure.draw(drawing.WIDTH)) is None:
        return None
    label = f"{figure.title}. The table below has its data."
    svg = drawing.render_svg(plot.chart, plot.rows, f"{figure.name}-", label)
    return DrawnFigure(figure, Markup(svg), [_make_table(figure.title, figure.table())])  # noqa: S704 (XML)


def _make_table(caption: str, rows: pl.DataFrame) -> Table:
    return Table(caption, rows.columns, [list(row) for row in rows.iter_rows()])


def render_sweep(sweep: SweepTable, progress: Progress = ignore_progress) -> str:
    """Return the page; `progress` shows how many of its figures are drawn."""
    report = _FOLDER.parent / "report"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_FOLDER, report]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": wording.format_number}
    wanted = list(list_figures(sweep))
    figures = []
    with debug_mode(False), progress("drawing", "chart", len(wanted)) as advance:
        for figure in wanted:
            if (drawn := _draw(figure)) is not None:
                figures.append(drawn)
            advance(1)
    findings = list_findings(sweep)
    cells = tabulate_cells(sweep)
    return environment.get_template(
        "sweep.html.jinja"
    ).render(
        title=sweep.path.name,
        style=Markup((report / "page.css").read_text()),  # noqa: S704 (our own file)
        colours=drawing.COLOURS,
        about=_describe(sweep),
        best=describe_best(sweep),
        findings=findings[:LISTED],
        left_out=len(findings[LISTED:]),
        figures=figures,
        cells=_make_table(f"{len(cells):,} cells", cells),
        settings=_tabulate_settings(sweep),
        columns=[(column.name, column.text) for column in SIMULATION_COLUMNS],
    )


def _describe(sweep: SweepTable) -> str:
    info = sweep.info
    models = ", ".join(map(str, sweep.cells["model"].unique(maintain_order=True)))
    span = f"{info.span_s:,.0f} s from the first request to the last"
    return f"{info.trace}: {info.ops:,} ops, {span}; {models}; {len(sweep.cells):,} cells"


def _tabulate_settings(sweep: SweepTable) -> Table:
    info = sweep.info
    values: dict[str, object] = {
        "trace": info.trace,
        "trace fingerprint": info.trace_fingerprint,
        "made by": info.release,
        "order": sweep.cells["order"][0],
        **{name.replace("_", " "): value for name, value in info.settings.items()},
    }
    return Table(
        "Settings of all cells",
        ["", "value"],
        [[name, str(value)] for name, value in values.items()],
    )
