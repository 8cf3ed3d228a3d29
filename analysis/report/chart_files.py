"""Charts as files for slides: each as SVG and as PNG."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import vl_convert
from altair.utils.schemapi import debug_mode

from analysis.comparison.sentences import describe_comparison
from analysis.report.chart_kinds import Plot
from analysis.report.data import Gathered
from analysis.report.figures import SECTIONS, limit_systems
from analysis.report.sides.chart import draw_forest
from analysis.report.svg import WIDTH, render_file
from tracegen.errors import InputError
from tracegen.progress import Progress, ignore_progress

SCALE: Final = 2
"""Pixels of a PNG per pixel of its SVG."""


@dataclass(frozen=True)
class NamedPlot:
    """A plot to save.

    Attributes:
        name: name of its files, without a suffix.
        title: its accessible name.
        plot: what is drawn.
    """

    name: str
    title: str
    plot: Plot


def check_folder(folder: Path, runs: Sequence[Path], *, force: bool) -> None:
    """Check that charts can be saved in a folder, before logs are read.

    Args:
        folder: the folder, which need not exist.
        runs: run directories, in which no file is written.
        force: whether files in it may be replaced; other files in it are kept.

    Raises:
        InputError: it is a file, is in a run, or has files, or its parent does not exist.
    """
    target = folder.resolve()
    run = next((run for run in runs if target.is_relative_to(run.resolve())), None)
    if run is not None:
        problem, remedy = f"in the run {run}, which must not change", "name a folder elsewhere"
    elif os.path.lexists(folder) and not folder.is_dir():
        problem, remedy = "not a folder", "name a new or an empty one"
    elif folder.is_dir() and any(folder.iterdir()) and not force:
        problem = "the folder is not empty"
        remedy = "name another, or pass `force` to replace charts in it"
    elif not target.parent.is_dir():
        problem, remedy = f"there is no folder {folder.parent}", "create it, or name another folder"
    else:
        return
    raise InputError(problem, remedy, subject=folder, setting="charts")


def draw_plots(data: Gathered) -> Iterator[NamedPlot]:
    """Yield the plots of a report of runs."""
    with debug_mode(False):  # Altair's validation takes longer than drawing
        if data.comparison and (forest := draw_forest(data.comparison)):
            yield NamedPlot("sides", describe_comparison(data.comparison), forest)
        for figure in (figure for figures in SECTIONS.values() for figure in figures if data.shown):
            _, own = limit_systems(figure, data)
            if (plot := figure.draw(own, WIDTH)) is not None:
                yield NamedPlot(figure.name, figure.title, plot)


def save_charts(
    plots: Iterable[NamedPlot],
    folder: Path,
    progress: Progress = ignore_progress,
) -> list[Path]:
    """Save each plot as SVG and as PNG of twice its size; return the files.

    Raises:
        InputError: the disk is full, or permission is missing.
    """
    files = []
    try:
        folder.mkdir(exist_ok=True)
        with progress("saving", "chart", None) as advance:
            for one in plots:
                svg = render_file(one.plot.chart, one.plot.rows, one.title)
                files += [folder / f"{one.name}.svg", folder / f"{one.name}.png"]
                files[-2].write_text(svg)
                files[-1].write_bytes(vl_convert.svg_to_png(svg, scale=SCALE))
                advance(1)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError(problem, "name another folder", subject=folder, setting="charts") from None
    return files
