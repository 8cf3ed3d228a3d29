"""The report of a sweep in each format."""

import json
from collections.abc import Callable
from typing import Final

from msgspec import to_builtins

from analysis.progress import Progress, ignore_progress
from analysis.report.export import escape_text
from analysis.report.text import format_number
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import SweepTable
from analysis.sweeps.tables import describe_best, list_findings, tabulate_cells
from tracegen.errors import InputError


def make_html(sweep: SweepTable, progress: Progress = ignore_progress) -> bytes:
    """Return the page; `progress` shows how many of its figures are drawn."""
    from analysis.sweeps.page import render_sweep  # noqa: PLC0415 (other formats need no renderer)

    return render_sweep(sweep, progress).encode()


def make_markdown(sweep: SweepTable) -> bytes:
    """Return findings and cells."""
    cells = tabulate_cells(sweep)
    lines = [f"Planned, not measured: {escape_text(describe_best(sweep))}", ""]
    lines += [f"- {escape_text(finding)}" for finding in list_findings(sweep)]
    lines += ["", f"| {' | '.join(cells.columns)} |", f"|{'---|' * len(cells.columns)}"]
    for row in cells.iter_rows():
        lines.append(f"| {' | '.join(escape_text(format_number(cell)) for cell in row)} |")
    return ("\n".join(lines) + "\n").encode()


def make_csv(sweep: SweepTable) -> bytes:
    """Return all columns of the cells."""
    return sweep.cells.write_csv().encode()


def make_json(sweep: SweepTable) -> bytes:
    """Return what the table records about itself, findings, the Pareto front, and the cells."""
    front = find_front(sweep)
    content = {
        "simulation": to_builtins(sweep.info),
        "best": describe_best(sweep),
        "findings": list_findings(sweep),
        "front": front.filter("front").to_dicts() if len(front) else [],
        "cells": sweep.cells.to_dicts(),
    }
    return (json.dumps(content, indent=2) + "\n").encode()


FORMATS: Final[dict[str, Callable[[SweepTable], bytes]]] = {
    "html": make_html,
    "md": make_markdown,
    "csv": make_csv,
    "json": make_json,
}


def check_format(form: str) -> None:
    """Refuse a format in which only runs are reported.

    Raises:
        InputError: the format is not one of FORMATS.
    """
    if form not in FORMATS:
        remedy = f"pass {', '.join(FORMATS)}"
        raise InputError("reports runs, not sweeps", remedy, subject=form, setting="form")
