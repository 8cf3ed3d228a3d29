"""`analysis report`: a page of charts, or other formats."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from analysis.commands.directories import find_runs
from analysis.commands.target_options import target_options
from analysis.commands.terminal import echo, say, show_progress
from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import gather
from analysis.report.labels import check_text, parse_label
from analysis.sweeps.answer import answer_sweep
from analysis.sweeps.search import answer_search
from analysis.sweeps.sweep import open_sweep
from tracegen.errors import InputError
from views.formats import FORMATS

if TYPE_CHECKING:
    from analysis.report.chart_files import NamedPlot

_OF_FILES = ("runs", "output", "form", "charts", "title", "force")
"""Parameters that say something about a file, too."""


@click.command(epilog="Example: analysis report run1 run2 -o report.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write this file, in the format of its suffix.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(export.FORMATS)),
    help="Write this format.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Compare all systems with that of this run. Default: the first.",
)
@click.option("--title", default="", metavar="TEXT", help="Head the page with this title.")
@click.option(
    "--label",
    multiple=True,
    metavar="NAME=DIR",
    help="Call the runs in a directory, or those that a pattern names, by this name; may be repeated.",
)
@click.option(
    "--charts",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Save each chart as SVG and PNG in this folder.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@target_options
def report(
    runs: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    baseline: Path | None,
    title: str,
    label: tuple[str, ...],
    charts: Path | None,
    force: bool,
    targets: Targets,
) -> None:
    """Write a page of charts, or other formats.

    The page is one file that needs neither network nor scripts.

    A file that `replayer simulate` wrote gets a page of its own: how much memory pays, hit rates
    over capacities, and bytes written against hits. So does an autoscale.json: how many users.

    Runs of one configuration on one machine are trials; other runs are shown next to each other,
    named by their directories or by what differs. --label old=runs/old --label new=runs/new names
    them.
    md, csv and json are printed on the terminal without -o. With --charts alone no report is made.
    """
    check_text(title, "title")
    if any(path.is_file() for path in runs):  # runs are directories
        _report_file(runs, output, form, charts, title, force=force)
        return
    paths = find_runs(runs)
    named = [parse_label(text) for text in label] or _name_folders(runs, paths)
    form = _choose_format(form, output, charts, paths, force=force)
    data = gather(paths, targets, baseline, progress=show_progress, title=title, labels=named)
    if charts is not None:
        from analysis.report.chart_files import draw_plots  # noqa: PLC0415 (a renderer)

        _save_charts(draw_plots(data), charts)
    if form is not None:
        html = form == "html"
        content = export.as_html(data, show_progress) if html else export.FORMATS[form](data)
        _deliver(content, output)


def _choose_format(
    form: str | None,
    output: Path | None,
    charts: Path | None,
    runs: Sequence[Path],
    *,
    force: bool,
) -> str | None:
    """Check where report and charts go; return the format, None if charts alone are wanted."""
    if charts is not None:
        from analysis.report.chart_files import check_folder  # noqa: PLC0415 (a renderer)

        check_folder(charts, runs, force=force)
        if output is None and form is None:
            return None
    return export.choose_format(form, output, runs, force=force)


def _save_charts(plots: Iterable["NamedPlot"], folder: Path) -> None:
    from analysis.report.chart_files import save_charts  # noqa: PLC0415 (a renderer)

    for path in save_charts(plots, folder, show_progress):
        say(str(path))


def _name_folders(arguments: tuple[Path, ...], runs: list[Path]) -> list[tuple[str, str]]:
    """Return a label for each argument if all are folders of runs, as of two drives."""
    names = {argument.absolute().name for argument in arguments}
    is_each_a_folder = not {*arguments} & {*runs}
    if len(arguments) < 2 or len(names) < len(arguments) or not is_each_a_folder:
        return []
    return [(argument.absolute().name, str(argument)) for argument in arguments]


def _report_file(
    files: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    charts: Path | None,
    title: str,
    *,
    force: bool,
) -> None:
    """Write the report of a file: a table of plans, or the record of a search."""
    is_search = files[0].suffix == ".json"
    what = "a search" if is_search else "a sweep"
    if len(files) > 1:
        raise InputError(f"{what} is reported alone", "name only this file", subject=files[0])
    context = click.get_current_context()
    for param in context.command.params:
        is_given = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_given and param.name not in _OF_FILES:
            raise InputError(f"says nothing about {what}", "leave it out", setting=param.name)
    form = _choose_format(form, output, charts, files, force=force)
    answer = answer_search(files[0], title) if is_search else answer_sweep(open_sweep(files[0]), title)
    if charts is not None:
        from views.charts import save_charts  # noqa: PLC0415 (loading the renderer takes half a second)

        for path in save_charts(answer.charts, charts):
            say(str(path))
    if form is not None:
        _deliver(FORMATS[form](answer).encode(), output)


def _deliver(content: bytes, output: Path | None) -> None:
    """Write the report to its file, or print it."""
    if output is None:
        echo(content.decode(), nl=False)
    else:
        export.write(output, content)
        say(f"{output}: {len(content):,} bytes")
