"""`analysis report`: a page of charts, or other formats."""

from pathlib import Path

import click
from click.core import ParameterSource

from analysis.commands.directories import find_runs
from analysis.commands.target_options import target_options
from analysis.commands.terminal import deliver, say, show_progress
from analysis.log.log import Targets
from analysis.report.answer import make_report
from analysis.report.data import gather
from analysis.report.systems import check_text, parse_label
from analysis.sweeps.answer import answer_sweep
from analysis.sweeps.search import answer_search
from analysis.sweeps.sweep import open_sweep
from tracegen.console.commands import Word, command, option_group
from tracegen.errors import InputError
from views.formats import check_folder, choose_format

_OF_FILES = ("runs", "output", "form", "charts", "title", "force")
"""Parameters that say something about a file, too."""
_FORMS = ("html", "txt", "md", "csv", "json")


@command(epilog="Example: analysis report run1 run2 -o report.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option_group(
    "Report",
    "-o report.html --baseline slow-1",
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        help="Write this file, in the format of its suffix.",
    ),
    click.option(
        "--format",
        "form",
        type=Word(_FORMS),
        help="Write this format.",
    ),
    click.option(
        "--baseline",
        type=click.Path(path_type=Path),
        metavar="RUN",
        help="Compare all systems with that of this run. Default: the first.",
    ),
    click.option("--title", default="", metavar="TEXT", help="Head the page with this title."),
    click.option(
        "--label",
        multiple=True,
        metavar="NAME=DIR",
        help="Call the runs in a directory, or those that a pattern names, by this name; may be repeated.",
    ),
    click.option(
        "--charts",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Save each chart as SVG and PNG in this folder.",
    ),
    click.option("--force", is_flag=True, help="Replace files that exist."),
)
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
    txt, md, csv and json are printed on the terminal without -o. With --charts alone no report is made.
    """
    check_text(title, "title")
    is_file = any(path.is_file() for path in runs)  # runs are directories
    if is_file:
        _check_file(runs)
    paths = list(runs) if is_file else find_runs(runs)
    named = [parse_label(text) for text in label] or _name_folders(runs, paths)
    # Where the results go is checked before logs are read, which may take minutes.
    if charts is not None:
        check_folder(charts, paths, force=force)
    if charts is None or output is not None or form is not None:
        form = choose_format(form, output, paths, force=force)
        _check_form(form, output)
    if is_file:
        is_search = paths[0].suffix == ".json"
        answer = answer_search(paths[0], title) if is_search else answer_sweep(open_sweep(paths[0]), title)
    else:
        data = gather(paths, targets, baseline, progress=show_progress, title=title, labels=named)
        answer = make_report(data)
    if charts is not None:
        from views.charts import save_charts  # noqa: PLC0415 (loading the renderer takes half a second)

        for path in save_charts(answer.charts, charts):
            say(str(path))
    if form is not None:
        deliver(answer, form, output)


def _check_form(form: str, output: Path | None) -> None:
    """Check that a form is one of a report's, and that a page has a file."""
    if form not in _FORMS:
        problem = "its suffix names no format" if output else "no file and no format is named"
        remedy = f"name a file like `output=report.html`, or pass `form={'|'.join(_FORMS)}`"
        raise InputError(problem, remedy, subject=output)
    if output is None and form == "html":
        remedy = "name a file like `output=report.html`"
        raise InputError("not a format for the terminal", remedy, subject=form, setting="form")


def _name_folders(arguments: tuple[Path, ...], runs: list[Path]) -> list[tuple[str, str]]:
    """Return a label for each argument if all are folders of runs, as of two drives."""
    names = {argument.absolute().name for argument in arguments}
    is_each_a_folder = not {*arguments} & {*runs}
    if len(arguments) < 2 or len(names) < len(arguments) or not is_each_a_folder:
        return []
    return [(argument.absolute().name, str(argument)) for argument in arguments]


def _check_file(files: tuple[Path, ...]) -> None:
    """Check that a table of plans, or the record of a search, is reported alone."""
    what = "a search" if files[0].suffix == ".json" else "a sweep"
    if len(files) > 1:
        raise InputError(f"{what} is reported alone", "name only this file", subject=files[0])
    context = click.get_current_context()
    for param in context.command.params:
        is_given = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_given and param.name not in _OF_FILES:
            raise InputError(f"says nothing about {what}", "leave it out", setting=param.name)
