"""Formats of a report, and its file."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import asdict

from analysis.comparison.compare import Comparison
from analysis.comparison.rows import convert_comparison, list_remarks, tabulate_comparison
from analysis.metrics.headlines import REPORT
from analysis.report.between_runs.load import is_one_curve
from analysis.report.data import Gathered
from analysis.report.first_screen.form import Card, DoubtLine
from analysis.report.first_screen.screen import make_first_screen
from analysis.report.headline_table import tabulate_headlines
from analysis.report.text import format_setting, unit
from analysis.runs.plan_order import describe_order, describe_rules
from analysis.summary.answer import compare_work, describe_drive
from analysis.summary.percentiles import note
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError, escape_controls, format_count
from tracegen.progress import Progress, ignore_progress

_FORMULA: Final = r"^[=+\-@\t\r]"
_CONTROL: Final = r"[^\P{Cc}\n\t]"


def as_text(column: pl.Expr, *, terminal: bool = False) -> pl.Expr:
    """Put an apostrophe before cells that a spreadsheet would take for a formula.

    Numbers that are written as text stay as they are.

    Args:
        column: strings.
        terminal: replace control characters by question marks, as a terminal would obey them.
    """
    formula = column.str.contains(_FORMULA) & column.cast(pl.Float64, strict=False).is_null()
    text = pl.when(formula).then(column.str.replace("^", "'")).otherwise(column)
    return text.str.replace_all(_CONTROL, "?") if terminal else text


def make_tidy_table(data: Gathered) -> pl.DataFrame:
    """Return a row for each run and metric that is a number: run, metric, value, unit."""
    rows = [
        (run.name, name, None if value is None else float(value), unit(name))
        for run in data.runs
        for name, value in run.summary.to_json().items()
        if value is None or isinstance(value, int | float)
    ]
    schema = {"run": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def as_html(data: Gathered, progress: Progress = ignore_progress) -> bytes:
    """Return the page; `progress` shows how many of its figures are drawn."""
    from analysis.report.page import render_page  # noqa: PLC0415 (other formats need no renderer)

    return escape_controls(render_page(data, progress)).encode()  # errors in logs may hold any byte


def as_csv(data: Gathered) -> bytes:
    """Return the tidy table as CSV; no run's name is a formula."""
    return make_tidy_table(data).with_columns(as_text(pl.col("run"))).write_csv().encode()


def as_json(data: Gathered) -> bytes:
    """Return the answer, the cards, and the summaries with their tables as JSON."""
    runs = [
        run.summary.to_json() | {"tables": {name: table.to_dicts() for name, table in run.tables.items()}}
        for run in data.runs
    ]
    screen = make_first_screen(data)
    content: dict[str, object] = {
        "title": screen.title,
        "tested": screen.tested,
        "answer": screen.answer,
        "cards": [vars(card) for card in screen.cards],
        "runs": runs,
    }
    if data.comparison:
        content["comparison"] = convert_comparison(data.comparison)
    return (json.dumps(content, indent=1) + "\n").encode()


def as_markdown(data: Gathered) -> bytes:
    """Return verdict, doubts, the comparison, headline figures and machine as Markdown, for an issue."""
    screen = make_first_screen(data)
    lines = [f"## {escape_text(screen.title)}", "", *map(escape_text, screen.tested), ""]
    lines += [f"**{screen.state}** {escape_text(screen.answer)}", ""]
    lines += [_write_card(card) for card in screen.cards]
    lines += ["", *write_comparison(data.comparison)] if data.comparison and not is_one_curve(data) else []
    lines += ["", *map(_write_doubt, screen.doubts)] if screen.doubts else []
    lines += ["", "Each over its own window:"] if data.comparison else []
    lines += ["", *_write_headlines(data)]
    lines += ["", *told] if (told := note(REPORT, [one.metrics for one in data.summaries])) else []
    lines += ["", f"- {escape_text(compare_work(data.summaries))}"] if data.runs[1:] else [""]
    lines += [f"- {escape_text(f'{run.name}: {_describe_run(run.summary)}')}" for run in data.runs]
    return ("\n".join(lines) + "\n").encode()


def write_comparison(comparison: Comparison) -> list[str]:
    """Return ratios and remarks; the sentence is the answer of the report."""
    lines: list[str] = []
    if groups := tabulate_comparison(comparison):
        name = comparison.compared[0].name if len(comparison.compared) == 1 else "system"
        head = ["", comparison.baseline, name, "ratio", "95% interval", ""]
        lines += [f"| {' | '.join(map(escape_text, head))} |", "|---|---:|---:|---:|---:|---|"]
    for group in groups:
        for row in group.rows:
            label = ": ".join(filter(None, (group.title, row.head)))
            cells = [label, row.old, row.new, row.times, row.interval, row.words]
            lines.append(f"| {' | '.join(map(escape_text, cells))} |")
    return [
        *lines,
        "",
        *(f"- {escape_text(remark)}" for remark in (*list_remarks(comparison), *comparison.warnings)),
        "",
    ]


def _write_card(card: Card) -> str:
    value = f"**{escape_text(f'{card.value} {card.unit}'.strip())}**" if card.value else "not measured"
    remarks = escape_text("; ".join(filter(None, (card.range, card.hint))))
    return f"- {escape_text(card.label)}: {value} ({remarks})"


def _write_doubt(doubt: DoubtLine) -> str:
    head = "**Invalidates**" if doubt.invalidates else "Doubt"
    runs = f" ({escape_text(doubt.runs)})" if doubt.runs else ""
    text = f"{head}: {doubt.headline}{runs}: {escape_text(doubt.text)}."
    return f"- {text} *{escape_text(doubt.advice)}.*"


def _write_headlines(data: Gathered) -> list[str]:
    """Return the table of headline figures, intervals behind their values."""
    table = tabulate_headlines(data)
    heads = (f"{system}, {trials}" if trials else system for system, trials in table.systems)
    lines = [f"| | unit | {' | '.join(map(escape_text, heads))} |"]
    lines.append(f"|---|---|{'---:|' * len(table.systems)}")
    for row in table.rows:
        cells = (f"{cell.value} [{cell.interval}]" if cell.interval else cell.value for cell in row.cells)
        lines.append(f"| {row.label} | {row.unit} | {' | '.join(cells)} |")
    return lines


def _describe_run(summary: Summary) -> str:
    provenance = summary.provenance
    conditions, names = provenance.conditions, provenance.machine
    usable = asdict(conditions.usable_bytes)
    sizes = (f"{tier} {format_setting('usable_bytes', size)}" for tier, size in usable.items() if size != 0)
    parts = [names.host, names.cpu, names.cores, describe_drive(provenance.storage) or None]
    machine = ", ".join(str(part) for part in parts if part is not None)
    if summary.prediction is not None:
        machine = f"PREDICTED with {summary.describe_profile()}"
    trace, plan = str(provenance.trace_fingerprint)[:12], str(provenance.plan_fingerprint)[:12]
    return (
        f"{machine}; {conditions.model}; {', '.join(sizes)}; {format_count(conditions.workers, 'worker')}, pace"
        f" {conditions.pace}, {describe_order(conditions)}, arrangement {describe_rules(conditions)};"
        f" trace {trace}, plan {plan}"
    )


def escape_text(text: str) -> str:
    """Escape the characters of a text that Markdown interprets."""
    return "".join(f"\\{char}" if char in "\\|`*_<>[]#" else char for char in " ".join(escape_controls(text).split()))


FORMATS: Final[dict[str, Callable[[Gathered], bytes]]] = {
    "html": as_html,
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
TEXT: Final = ("md", "csv", "json")
"""Formats that may go to a terminal."""


def choose_format(form: str | None, output: Path | None, runs: Sequence[Path], *, force: bool) -> str:
    """Choose the format, and check that it can be written, before logs are read.

    Args:
        form: one of FORMATS; None to take the suffix of the file.
        output: the file; None for the terminal.
        runs: run directories, in which no file is written.
        force: whether an existing file may be replaced.

    Raises:
        InputError: no format is named, it needs a file, or the file cannot be written.
    """
    chosen = form or (output.suffix.lower().removeprefix(".") if output else "")
    if chosen not in FORMATS:
        problem = "its suffix names no format" if output else "no file and no format is named"
        remedy = f"name a file like `output=report.html`, or pass `form={'|'.join(FORMATS)}`"
        raise InputError(problem, remedy, subject=output, setting="output" if output else None)
    if output is not None:
        _check_output(output, runs, force=force)
    elif chosen not in TEXT:
        raise InputError(
            "not a format for the terminal",
            f"name a file like `output=report.{chosen}`",
            subject=chosen,
            setting="form",
        )
    return chosen


def _check_output(output: Path, runs: Sequence[Path], *, force: bool) -> None:
    """Check that a file can be written.

    Raises:
        InputError: it is a folder or a device, is in a run, exists, or has no folder.
    """
    target = output.resolve()
    run = next((run for run in runs if target.is_relative_to(run.resolve())), None)
    if output.is_dir():
        problem, remedy = "a folder", "name a file in it"
    elif run is not None:
        problem, remedy = f"in the run {run}, which must not change", "name a file elsewhere"
    elif os.path.lexists(output) and not output.is_file():
        problem = "not a regular file"
        remedy = "name another, or leave out `output` to write to the terminal"
    elif output.exists() and not force:
        problem, remedy = "the file exists", "name another, or pass `force`"
    elif not output.parent.is_dir():
        problem = f"there is no folder {output.parent}"
        remedy = "create it, or name another file"
    else:
        return
    raise InputError(problem, remedy, subject=output, setting="output")


def write(output: Path, content: bytes) -> None:
    """Write a file completely or not at all.

    Raises:
        InputError: the disk is full, or permission is missing.
    """
    target = output.resolve()  # a link stays a link
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError(problem, "name another file", subject=output, setting="output") from None
    finally:
        partial.unlink(missing_ok=True)
