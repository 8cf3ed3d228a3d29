"""The report of a sweep in each format."""

import json
from collections.abc import Callable
from typing import Final

from msgspec import to_builtins

from analysis.progress import Progress, ignore_progress
from analysis.report.text import format_number
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import Sweep
from analysis.sweeps.tables import describe_best, list_findings, tabulate_cells
from tracegen.errors import InputError


def as_html(sweep: Sweep, progress: Progress = ignore_progress) -> bytes:
    """Return the page; `progress` shows how many of its figures are drawn."""
    from analysis.sweeps.page import render_sweep  # noqa: PLC0415 (other formats need no renderer)

    return render_sweep(sweep, progress).encode()


def as_markdown(sweep: Sweep) -> bytes:
    """Return findings and cells."""
    cells = tabulate_cells(sweep)
    lines = [f"Planned, not measured: {describe_best(sweep)}", ""]
    lines += [f"- {finding}" for finding in list_findings(sweep)]
    lines += ["", f"| {' | '.join(cells.columns)} |", f"|{'---|' * len(cells.columns)}"]
    lines += [f"| {' | '.join(map(format_number, row))} |" for row in cells.iter_rows()]
    return ("\n".join(lines) + "\n").encode()


def as_csv(sweep: Sweep) -> bytes:
    """Return all columns of the cells."""
    return sweep.cells.write_csv().encode()


def as_json(sweep: Sweep) -> bytes:
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


FORMATS: Final[dict[str, Callable[[Sweep], bytes]]] = {
    "html": as_html,
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def check_format(form: str) -> None:
    """Refuse a format in which only runs are reported.

    Raises:
        InputError: the format is not one of FORMATS.
    """
    if form not in FORMATS:
        remedy = f"pass {', '.join(FORMATS)}"
        raise InputError("reports runs, not sweeps", remedy, subject=form, setting="form")
