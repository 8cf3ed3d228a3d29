"""An answer as one HTML file, without scripts or network, for screens, phones and print."""

import re
from pathlib import Path
from typing import Final

import jinja2
from markupsafe import Markup, escape

from views.answer import Answer, Better, Cell, Chart, Column, Table
from views.charts import render_chart
from views.svg import COLOURS
from views.tables import find_numeric, list_cells
from views.text import split_figure

_FLAG: Final = re.compile(r"--[a-z][a-z-]*")
_COMMAND: Final = re.compile(r"`([^`]+)`")
_HINTS: Final[dict[Better, str]] = {"higher": "higher is better", "lower": "lower is better", "": ""}
# Columns of a chart's rows that a table of them has
_MARKS: Final = ("panel", "series", "x", "y", "low", "high", "target")


def render_page(answer: Answer) -> str:
    """Return the page of an answer."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "flags": keep_flags_whole,
        "draw": lambda chart: Markup(render_chart(chart)),  # noqa: S704 (XML)
        "cells": lambda table: list_cells(table) or [[]],
        "numeric": find_numeric,
        "split": split_figure,
    }
    page = environment.get_template("page.html.jinja").render(
        answer=answer,
        sections=_list_sections(answer),
        hints=_HINTS,
        tabulate=tabulate_marks,
        style=Markup((here / "page.css").read_text()),  # noqa: S704 (our own file)
        colours=COLOURS,
    )
    return f"{page.strip()}\n"


def keep_flags_whole(text: str) -> Markup:
    """Return a text in which no line breaks within a flag, and commands are code."""
    coded = _COMMAND.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', coded))  # noqa: S704 (escaped)


def _list_sections(answer: Answer) -> list[tuple[str, list[Chart], list[Table]]]:
    """Group charts and tables by section; a table without one has its title as heading."""
    shown = [(table.section or table.title, table) for table in answer.tables if table.rows or table.notes]
    named = [table.title for table in answer.tables if not table.section]
    titles = dict.fromkeys([*answer.sections, *named, *(chart.section for chart in answer.charts), *dict(shown)])
    sections = [
        (
            title,
            [chart for chart in answer.charts if chart.section == title],
            [table for section, table in shown if section == title],
        )
        for title in titles
    ]
    return [section for section in sections if section[1] or section[2]]


def tabulate_marks(chart: Chart) -> Table:
    """Return the rows of a chart as a table, with the quantities of its axes as headings."""
    rows = chart.rows.select(name for name in _MARKS if name in chart.rows.columns)
    rows = rows.select(column for column in rows if column.null_count() < len(column))
    titles = {"x": chart.x.title, "y": chart.y.title}
    units = {"x": "share" if chart.x.is_share else "", "y": "share" if chart.y.is_share else ""}
    columns = [Column(titles.get(name) or name, units.get(name, "")) for name in rows.columns]
    cells: list[tuple[Cell, ...]] = rows.rows()
    return Table(title=chart.title, columns=columns, rows=cells)
