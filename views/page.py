"""An answer as one HTML file, without scripts or network, for screens, phones and print."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup, escape

from views.answer import Answer, Better, Cell, Chart, Column, Figure, Table
from views.charts import render_chart
from views.svg import COLOURS
from views.tables import find_numeric, list_cells
from views.text import split_figure

_FLAG: Final = re.compile(r"--[a-z][a-z-]*")
_COMMAND: Final = re.compile(r"`([^`]+)`")
_HINTS: Final[dict[Better, str]] = {
    "higher": "higher is better",
    "lower": "lower is better",
    "": "",
}
_MARKS: Final = ("panel", "series", "x", "y", "low", "high", "target")
"""Columns of a chart's rows that a table of them has."""


@dataclass(frozen=True)
class _Card:
    """A figure as a card shows it; an empty value was not measured."""

    label: str
    value: str
    unit: str
    remarks: str
    hint: str


@dataclass(frozen=True)
class _Shown:
    """A table with its cells as strings, and which columns are aligned to the right."""

    table: Table
    head: list[str]
    rows: list[list[str]]
    right: list[bool]


@dataclass(frozen=True)
class _Drawn:
    """A chart with its drawing and its data."""

    chart: Chart
    svg: Markup
    tables: list[_Shown]


@dataclass(frozen=True)
class _Section:
    """A part of the page under one heading."""

    title: str
    charts: list[_Drawn]
    tables: list[_Shown]


def render_page(answer: Answer) -> str:
    """Return the page of an answer."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["flags"] = keep_flags_whole
    return (
        environment.get_template("page.html.jinja")
        .render(
            answer=answer,
            cards=[_make_card(figure) for figure in answer.figures],
            sections=_list_sections(answer),
            style=Markup((here / "page.css").read_text()),  # noqa: S704 (our own file)
            colours=COLOURS,
        )
        .strip()
        + "\n"
    )


def keep_flags_whole(text: str) -> Markup:
    """Return a text in which no line breaks within a flag, and commands are code."""
    coded = _COMMAND.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', coded))  # noqa: S704 (escaped)


def _make_card(figure: Figure) -> _Card:
    value, unit, remarks = split_figure(figure)
    hint = _HINTS[figure.better] if value else ""
    return _Card(figure.label, value, unit, remarks, hint)


def _list_sections(answer: Answer) -> list[_Section]:
    """Group charts and tables by section; a table without one has its title as heading."""
    titles = [*answer.sections, *(table.title for table in answer.tables if not table.section)]
    charts: dict[str, list[_Drawn]] = {}
    for chart in answer.charts:
        if not chart.rows.is_empty():  # a search that ended at once has no steps to draw
            charts.setdefault(chart.section, []).append(_draw(chart))
    tables: dict[str, list[_Shown]] = {}
    for table in answer.tables:
        if table.rows or table.notes:
            tables.setdefault(table.section or table.title, []).append(_show(table))
    parts = charts | tables
    return [
        _Section(title, charts.get(title, []), tables.get(title, []))
        for title in dict.fromkeys((*titles, *parts))
        if title in parts
    ]


def _draw(chart: Chart) -> _Drawn:
    svg = Markup(render_chart(chart))  # noqa: S704 (XML)
    return _Drawn(chart, svg, [_show(table) for table in chart.data or [tabulate_marks(chart)]])


def _show(table: Table) -> _Shown:
    head, *rows = list_cells(table) or [[]]
    return _Shown(table, head, rows, find_numeric(table))


def tabulate_marks(chart: Chart) -> Table:
    """Return the rows of a chart as a table, with the quantities of its axes as headings."""
    rows = chart.rows.select(name for name in _MARKS if name in chart.rows.columns)
    rows = rows.select(column for column in rows if column.null_count() < len(column))
    titles = {"x": chart.x.title, "y": chart.y.title}
    units = {"x": "share" if chart.x.is_share else "", "y": "share" if chart.y.is_share else ""}
    columns = [Column(titles.get(name) or name, units.get(name, "")) for name in rows.columns]
    cells: list[tuple[Cell, ...]] = rows.rows()
    return Table(title=chart.title, columns=columns, rows=cells)
