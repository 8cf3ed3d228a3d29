"""The report as one HTML file, without scripts or network, for screens, phones, print and dark mode."""

import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jinja2
import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup, escape

from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, GROUPS
from analysis.metrics.headlines import REPORT
from analysis.metrics.metric import PLACES
from analysis.report.between_runs.load import is_one_curve
from analysis.report.chart_kinds import Plot
from analysis.report.data import DRAWN, Gathered, Subject
from analysis.report.figures import LEADING, SECTIONS, Figure, limit_systems
from analysis.report.first_screen.cards import pick_valid
from analysis.report.first_screen.screen import make_first_screen
from analysis.report.headline_table import tabulate_every_trial, tabulate_headlines
from analysis.report.sides.section import read_style, render_sides
from analysis.report.svg import COLOURS, WIDTH, render_svg
from analysis.report.text import flatten, format_number, format_setting, list_claims, shown, unit
from analysis.summary import glossary
from analysis.summary.distributions import HEADINGS
from analysis.summary.numbers import choose_decimals
from analysis.summary.percentiles import bracketed, note
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS, Machine, to_plain
from tracegen.progress import Progress, ignore_progress

_FLAG = re.compile(r"--[a-z][a-z-]*")
_COMMAND = re.compile(r"`([^`]+)`")

_EXACT: Final = ("t_s", "share")
"""Columns that name rows, so that no digit may be missing."""
_MOST_DECIMALS: Final = 6


@dataclass(frozen=True)
class Table:
    """A table of the page.

    Attributes:
        caption: its caption.
        head: headings of the columns.
        rows: cells by row; the first cell is the heading of its row.
    """

    caption: str
    head: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Drawn:
    """A figure with its chart and tables.

    Attributes:
        figure: the figure.
        chart: its SVG.
        tables: its data.
    """

    figure: Figure
    chart: Markup
    tables: list[Table]


def render_page(data: Gathered, progress: Progress = ignore_progress) -> str:
    """Return the page; `progress` shows how many of its figures are drawn."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": format_number, "flags": keep_flags_whole}
    screen = make_first_screen(data)
    names = [run.name for run in data.runs]
    return environment.get_template("page.html.jinja").render(
        title=screen.title,
        screen=screen,
        style=Markup((here / "page.css").read_text() + read_style()),  # noqa: S704 (our own files)
        colours=COLOURS,
        data=data,
        names=names,
        claims=list_claims(data),
        thin=note(REPORT, [summary.metrics for summary in data.summaries]),
        sides=render_sides(data.comparison) if data.comparison and not is_one_curve(data) else "",
        headlines=tabulate_headlines(data),
        every_trial=_fold_trials(data),
        sections=_draw_sections(data, progress),
        leading=LEADING,
        drawn=DRAWN,
        settings=_list_settings(data),
        every=_tabulate_metrics(data),
        metrics={group.name: group.about for group in GROUPS},
        terms=glossary.terms(),
        places=PLACES,
    )


def _fold_trials(data: Gathered) -> Table:
    head, *rows = tabulate_every_trial(data) or [[]]
    return Table("Headline figures of every trial", head, rows)


def _draw_sections(data: Gathered, progress: Progress) -> dict[str, list[Drawn]]:
    """Draw the figures for which the runs have data; one is rendered while the next is made."""
    figures = [
        (title, *limit_systems(figure, data)) for title, figures in SECTIONS.items() for figure in figures if data.shown
    ]
    sections: dict[str, list[tuple[Figure, Gathered, Future[Markup]]]] = {}
    # Altair's validation takes longer than drawing, so it is off.
    with debug_mode(False), ThreadPoolExecutor(1) as renderer:
        with progress("drawing", "chart", len(figures)) as advance:
            for title, figure, own in figures:
                if plot := figure.draw(own, WIDTH):
                    rendered = renderer.submit(_render, figure, plot)
                    sections.setdefault(title, []).append((figure, own, rendered))
                advance(1)
        return {
            title: [Drawn(figure, chart.result(), _list_tables(own, figure)) for figure, own, chart in drawn]
            for title, drawn in sections.items()
        }


def keep_flags_whole(text: str) -> Markup:
    """Return a text in which no line breaks within a flag, and commands are code."""
    coded = _COMMAND.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', coded))  # noqa: S704 (escaped)


def _render(figure: Figure, plot: Plot) -> Markup:
    label = f"{figure.title}. The table below has its data."
    return Markup(render_svg(plot.chart, plot.rows, f"{figure.name}-", label))  # noqa: S704 (XML)


def _list_tables(data: Gathered, figure: Figure) -> list[Table]:
    return [_convert_table(caption, table) for caption, table in figure.tables(data).items()]


def _convert_table(caption: str, table: pl.DataFrame) -> Table:
    return Table(caption, [_heading(name) for name in table.columns], format_columns(table))


def _heading(name: str) -> str:
    """Return the heading of a table's column; `cpu read gib_s` and `p95_ms_cpu read` are columns of a tier."""
    for column, heading in HEADINGS.items():
        if name == column:
            return heading
        if name.endswith(f" {column}"):
            return f"{name.removesuffix(column)}{heading}"
        if name.startswith(f"{column}_"):
            return f"{name.removeprefix(f'{column}_')} {heading}"
    return name.replace("_", " ")


def _list_settings(data: Gathered) -> list[tuple[Table, Table]]:
    """Return tables of origins by run, and of machines and settings by system."""
    firsts = {system: pick_valid(data.trials(system))[0] for system in data.systems}
    if len(data.runs) == 1:
        firsts = {data.runs[0].name: data.runs[0]}
    origins = {run.name: _describe_provenance(run) for run in data.runs}
    machines = {system: _describe_machine(run) for system, run in firsts.items()}
    settings = {system: flatten(to_plain(run.summary.provenance.conditions)) for system, run in firsts.items()}
    return [
        _split_rows("Trace, plan and time", origins),
        _split_rows("Machine", machines),
        _split_rows("Settings", settings),
    ]


def _split_rows(caption: str, columns: Mapping[str, Mapping[str, object]]) -> tuple[Table, Table]:
    """Return a table of what differs, a column each, and one of what is equal in all columns."""
    differing, equal = [], []
    for name in dict.fromkeys(name for column in columns.values() for name in column):
        cells = [format_setting(name, column.get(name)) for column in columns.values()]
        words = name.replace("_", " ")
        if len(set(cells)) > 1:
            differing.append([words, *cells])
        else:
            equal.append([words, cells[0]])
    if len(columns) == 1:
        return Table(caption, ["", *columns], []), Table(caption, ["", *columns], equal)
    return (
        Table(f"{caption}: what differs", ["", *columns], differing),
        Table(f"{caption}: what is equal", ["", "all"], equal),
    )


def _describe_machine(run: Subject) -> dict[str, object]:
    """Describe the machine of a run's first rank; of a predicted run its profile."""
    if run.summary.prediction is not None:
        return {"profile": run.summary.describe_profile()}
    return flatten(to_plain(run.infos[0].machine or Machine()))


def _describe_provenance(run: Subject) -> dict[str, Any]:
    info, provenance, metrics = run.infos[0], run.summary.provenance, run.summary.metrics
    recipe = info.trace.recipe or {}
    executed = [rank.ops_executed for rank in run.infos]
    moved = [metrics[f"{tier}_{side}_bytes"] or 0 for tier in TIERS for side in ("read", "write")]
    return {
        "run": run.summary.run,
        "status": provenance.status,
        "started": info.started,
        "ranks with a log": len(run.infos),
        "ops executed": None if None in executed else sum(filter(None, executed)),
        "trace": info.trace.path,
        "trace fingerprint": provenance.trace_fingerprint,
        "plan fingerprint": provenance.plan_fingerprint,
        "seed": recipe.get("seed", info.trace.seed),
        "generator": info.trace.generator,
        "sources": [f"{source.name} ({source.licence})" for source in info.trace.sources or ()],
        "log, GiB moved": sum(moved) / GIB,
    }


def _figure(name: str, summary: Summary) -> str:
    if name in summary.more_than:
        return f"> {shown(name, summary.more_than[name])}"
    return bracketed(name, summary.metrics, shown(name, summary.values.get(name)))


def _tabulate_metrics(data: Gathered) -> Table:
    """Return the table of all metrics that any run has."""
    rows = [
        [name, unit(name), *(_figure(name, summary) for summary in data.summaries)]
        for name in CATALOGUE
        if any(summary.values.get(name) is not None for summary in data.summaries)
    ]
    return Table("Every metric", ["metric", "unit", *(run.name for run in data.runs)], rows)


def format_columns(table: pl.DataFrame) -> list[list[str]]:
    """Return the cells of a table by row; numbers of unlike metrics keep decimals of their own."""
    is_mixed = "metric" in table.columns
    columns = [
        list(map(format_number, column)) if is_mixed else _format_column(column) for column in table.iter_columns()
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _format_column(column: pl.Series) -> list[str]:
    if not column.dtype.is_float():
        return list(map(format_number, column))
    values = column.to_list()
    exact = _count_decimals(values) if column.name in _EXACT else choose_decimals(values)
    return ["–" if value is None else f"{value:,.{exact}f}" for value in values]


def _count_decimals(values: list[float | None]) -> int:
    """Return the decimals with which all values are exact."""
    known = [value for value in values if value is not None]
    fitting = (count for count in range(_MOST_DECIMALS) if all(round(value, count) == value for value in known))
    return next(fitting, _MOST_DECIMALS)
