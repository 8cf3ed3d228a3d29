"""The report as one HTML file: no script, nothing fetched, read on a phone, in print and in the dark."""

import re
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup, escape
from tqdm import tqdm

from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, GROUPS
from analysis.metrics.headlines import REPORT
from analysis.metrics.metric import PLACES
from analysis.report import svg as drawing
from analysis.report import text as wording
from analysis.report.chart_kinds import Plot
from analysis.report.data import DRAWN, Gathered, Subject
from analysis.report.figures import SECTIONS, Figure
from analysis.summary import glossary
from analysis.summary import text as render
from analysis.summary.distributions import HEADINGS
from analysis.summary.percentiles import bracketed, note
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS, Machine, to_plain

_FLAG = re.compile(r"--[a-z][a-z-]*")


@dataclass(frozen=True)
class Table:
    """A table as the page shows it."""

    caption: str
    head: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True)
class Drawn:
    """A figure with its chart, for a column of a desktop page and for a phone."""

    figure: Figure
    charts: list[Markup]
    tables: list[Table]


def html(data: Gathered) -> str:
    """The page."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"number": wording.number, "flags": _flags}
    names = [run.name for run in data.runs]
    machines = [wording.flat(to_plain(run.infos[0].machine or Machine())) for run in data.runs]
    settings = [wording.flat(to_plain(run.summary.provenance.conditions)) for run in data.runs]
    return environment.get_template("page.html.jinja").render(
        title=_title(names if len(names) < 4 else data.systems),
        style=Markup((here / "page.css").read_text()),  # noqa: S704 (our own)
        colours=drawing.COLOURS,
        data=data,
        names=names,
        words=wording,
        thin=note(REPORT, [summary.metrics for summary in data.summaries]),
        verdicts=render.format_verdicts(data.summaries),
        ranking=Table("Systems against the baseline", wording.RANKING, wording.ranking(data)),
        sections=_sections(data),
        drawn=DRAWN,
        machine=_table("Machine", machines, names),
        settings=_table("Settings", settings, names),
        provenance=_table("Trace, plan and time", list(map(_provenance, data.runs)), names),
        every=_every(data),
        metrics={group.name: group.about for group in GROUPS},
        terms=glossary.terms(),
        places=PLACES,
    )


def _title(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _sections(data: Gathered) -> dict[str, list[Drawn]]:
    """The figures that these runs have something for; one is rendered while the next is put together."""
    figures = [(title, figure) for title, figures in SECTIONS.items() for figure in figures if data.shown]
    found: dict[str, list[tuple[Figure, list[Future[Markup]]]]] = {}
    # Altair's validation of every part takes longer than drawing.
    with debug_mode(False), ThreadPoolExecutor(1) as renderer:
        for title, figure in tqdm(figures, "drawing", unit="chart", delay=1, disable=None, leave=False):
            plots = {width: figure.draw(data, width) for width in (drawing.WIDE, drawing.NARROW)}
            rendered = [renderer.submit(_rendered, figure, width, plot) for width, plot in plots.items() if plot]
            if rendered:
                found.setdefault(title, []).append((figure, rendered))
        return {
            title: [Drawn(figure, [one.result() for one in both], _tables(data, figure)) for figure, both in drawn]
            for title, drawn in found.items()
        }


def _flags(text: str) -> Markup:
    """A text in which no line ends within the name of a flag."""
    return Markup(_FLAG.sub(r'<span class="flag">\g<0></span>', str(escape(text))))  # noqa: S704 (escaped)


def _rendered(figure: Figure, width: int, plot: Plot) -> Markup:
    told = f"{figure.title}. The table below has its data."
    return Markup(drawing.svg(plot.chart, plot.rows, f"{figure.name}-{width}-", told))  # noqa: S704 (XML)


def _tables(data: Gathered, figure: Figure) -> list[Table]:
    return [_shown(caption, table) for caption, table in figure.tables(data).items()]


def _shown(caption: str, table: pl.DataFrame) -> Table:
    return Table(caption, [_heading(name) for name in table.columns], [list(row) for row in table.iter_rows()])


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


def _table(caption: str, columns: list[dict[str, Any]], names: list[str]) -> Table:
    """A row per name, a column per run; the last cell says whether runs differ."""
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        cells = [wording.setting(name, column.get(name)) for column in columns]
        rows.append(
            [name.replace("_", " "), *cells, *(["differs" if len(set(cells)) > 1 else ""] if len(names) > 1 else [])]
        )
    return Table(caption, ["", *names, *([""] if len(names) > 1 else [])], rows)


def _provenance(run: Subject) -> dict[str, Any]:
    info, provenance, metrics = run.infos[0], run.summary.provenance, run.summary.metrics
    recipe = info.trace.recipe or {}
    executed = [one.ops_executed for one in run.infos]
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
    return bracketed(name, summary.metrics, wording.shown(name, summary.values.get(name)))


def _every(data: Gathered) -> Table:
    """Return the table of all metrics that any run has."""
    rows = [
        [name, wording.unit(name), *(_figure(name, summary) for summary in data.summaries)]
        for name in CATALOGUE
        if any(summary.values.get(name) is not None for summary in data.summaries)
    ]
    return Table("Every metric", ["metric", "unit", *(run.name for run in data.runs)], rows)
