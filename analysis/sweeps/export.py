"""The report of a sweep in each format."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from analysis.report.export import escape_text
from analysis.report.first_screen.form import FirstScreen
from analysis.report.text import format_number
from analysis.sweeps.answer import make_screen
from analysis.sweeps.shapes import find_front
from analysis.sweeps.sweep import SweepTable, open_sweep
from analysis.sweeps.tables import list_findings, tabulate_cells
from tracegen.progress import Progress, ignore_progress

if TYPE_CHECKING:
    from analysis.sweeps.figures import PlainFigure


@dataclass(frozen=True)
class FileReport:
    """The report of a kind of files.

    Attributes:
        what: the kind, as "a sweep".
        open: reads a file.
        list_figures: returns the charts of what was read.
        formats: functions by format, from what was read and a title, which may be empty; that of
            html takes a progress, too.
    """

    what: str
    open: Callable[[Path], Any]
    list_figures: Callable[[Any], Iterable["PlainFigure"]]
    formats: dict[str, Callable[..., bytes]]


def make_html(
    sweep: SweepTable,
    title: str = "",
    progress: Progress = ignore_progress,
) -> bytes:
    """Return the page; `progress` shows how many of its charts are drawn."""
    from analysis.sweeps.page import render_sweep  # noqa: PLC0415 (other formats need no renderer)

    return render_sweep(sweep, title, progress).encode()


def make_markdown(sweep: SweepTable, title: str = "") -> bytes:
    """Return the first screen, what each curve looks like, and the cells."""
    cells = tabulate_cells(sweep)
    lines = list_markdown(make_screen(sweep, title))
    lines += [f"- {escape_text(finding)}" for finding in list_findings(sweep)]
    lines += ["", *tabulate_markdown(cells.columns, cells.rows())]
    return ("\n".join(lines) + "\n").encode()


def list_markdown(screen: FirstScreen) -> list[str]:
    """Return a first screen as lines of Markdown."""
    lines = [f"**{escape_text(screen.title)}**", ""]
    lines += [f"{escape_text(line)}  " for line in screen.tested]
    lines += ["", f"**{screen.state}** {escape_text(screen.answer)}", ""]
    for card in screen.cards:
        words = [card.value or "not measured", card.unit, f"({card.range})" if card.range else ""]
        lines.append(f"- {escape_text(card.label)}: {escape_text(' '.join(filter(None, words)))}")
    lines += ["", *(f"- Doubt: {escape_text(one.headline)}" for one in screen.doubts), ""]
    return lines


def tabulate_markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a table as lines of Markdown."""
    cells = [[escape_text(format_number(cell)) for cell in row] for row in rows]
    rule = f"|{'---|' * len(head)}"
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in cells)]


def make_csv(sweep: SweepTable, _title: str = "") -> bytes:
    """Return all columns of the cells."""
    return sweep.cells.write_csv().encode()


def make_json(sweep: SweepTable, title: str = "") -> bytes:
    """Return the first screen, the table's record about itself, findings, front and cells."""
    front = find_front(sweep)
    content = {
        **asdict(make_screen(sweep, title)),
        "simulation": to_builtins(sweep.info),
        "findings": list_findings(sweep),
        "front": front.filter("front").to_dicts() if len(front) else [],
        "cells": sweep.cells.to_dicts(),
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def list_sweep_figures(sweep: SweepTable) -> Iterable["PlainFigure"]:
    """Return the charts of a sweep."""
    from analysis.sweeps.figures import list_figures  # noqa: PLC0415 (a renderer)

    return list_figures(sweep)


SWEEP: Final = FileReport(
    "a sweep",
    open_sweep,
    list_sweep_figures,
    {"html": make_html, "md": make_markdown, "csv": make_csv, "json": make_json},
)
