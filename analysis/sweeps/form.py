"""A page without runs: first screen, charts, tables; sweeps and searches fill it in."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import jinja2
import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from analysis.report.chart_files import NamedPlot
from analysis.report.first_screen.form import FirstScreen
from analysis.report.page import Table, keep_flags_whole
from analysis.report.svg import COLOURS, render_svg
from analysis.report.text import format_number
from analysis.sweeps.figures import PlainFigure
from tracegen.progress import Progress, ignore_progress

_FOLDER: Final = Path(__file__).parent
OPEN_ROWS: Final = 20
"""Most rows of a table that is shown without unfolding it."""


@dataclass(frozen=True)
class PlainPage:
    """The parts of a page.

    Attributes:
        screen: its first screen.
        figures: its charts, in their order.
        tables: tables below the charts, by heading.
        details: sentences that unfold below the charts, under `details_title`.
        details_title: their heading.
        terms: words of the tables, with their meaning.
        source: what it was made from, as "the plans".
    """

    screen: FirstScreen
    figures: Sequence[PlainFigure]
    tables: dict[str, Table]
    details: Sequence[str] = ()
    details_title: str = ""
    terms: Sequence[tuple[str, str]] = field(default_factory=tuple)
    source: str = ""


@dataclass(frozen=True)
class _DrawnFigure:
    figure: PlainFigure
    chart: Markup
    table: Table


def render_plain_page(page: PlainPage, progress: Progress = ignore_progress) -> str:
    """Return the page; `progress` shows how many of its charts are drawn."""
    report = _FOLDER.parent / "report"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([_FOLDER, report]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": format_number, "flags": keep_flags_whole}
    figures = []
    with debug_mode(False), progress("drawing", "chart", len(page.figures)) as advance:
        for figure in page.figures:
            if (drawn := _draw(figure)) is not None:
                figures.append(drawn)
            advance(1)
    return environment.get_template("plain_page.html.jinja").render(
        page=page,
        figures=figures,
        open_rows=OPEN_ROWS,
        style=Markup((report / "page.css").read_text()),  # noqa: S704 (our own file)
        colours=COLOURS,
    )


def draw_plain_plots(figures: Iterable[PlainFigure]) -> Iterator[NamedPlot]:
    """Yield the plots of figures, to save."""
    with debug_mode(False):  # Altair's validation takes longer than drawing
        for figure in figures:
            if (plot := figure.draw()) is not None:
                yield NamedPlot(figure.name, figure.title, plot)


def _draw(figure: PlainFigure) -> _DrawnFigure | None:
    """Draw a figure; None if it has no data."""
    plot = figure.draw()
    if plot is None:
        return None
    label = f"{figure.title}. The table below has its data."
    svg = render_svg(plot.chart, plot.rows, f"{figure.name}-", label)
    table = convert_table(figure.title, figure.table())
    return _DrawnFigure(figure, Markup(svg), table)  # noqa: S704 (XML)


def convert_table(caption: str, rows: pl.DataFrame) -> Table:
    """Return a table of a page."""
    return Table(caption, rows.columns, [list(row) for row in rows.iter_rows()])
