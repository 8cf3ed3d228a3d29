"""`analysis report`: a page of charts, or other formats."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from analysis.commands.directories import PATH, find_runs, runs_argument
from analysis.commands.target_options import target_options
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.commands import Word, command
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError

if TYPE_CHECKING:
    from analysis.log.targets import Targets
    from views.answer import Answer

# Parameters that say something about a file, too
_OF_FILES = ("runs", "output", "form", "charts", "title", "force", "as_json")


@command(epilog="Example: analysis report run1 run2 -o report.html")
@runs_argument
@answer_options(
    click.option(
        "--format",
        "form",
        type=Word(["txt", "md", "csv", "json"]),
        help="Print this format.  [default: txt, or nothing with --output or --charts]",
    ),
    click.option(
        "--baseline", type=PATH, metavar="RUN", help="Compare all systems with that of this run. Default: the first."
    ),
    click.option("--title", default="", metavar="TEXT", help="Head the page with this title."),
    click.option(
        "--label",
        multiple=True,
        metavar="NAME=DIR",
        help="Call the runs in a directory, or those that a pattern names, by this name; may be repeated.",
    ),
    heading="Report",
    example="-o report.html --baseline slow-1",
    has_charts=True,
)
@target_options
def report(
    runs: tuple[Path, ...],
    output: AnswerOutput,
    form: str | None,
    baseline: Path | None,
    title: str,
    label: tuple[str, ...],
    targets: "Targets",
) -> None:
    """Make a page of charts, or other formats.

    The page is one file that needs neither network nor scripts.

    A file that `replayer simulate` wrote gets a page of its own: how much memory pays, hit rates
    over capacities, and bytes written against hits. So does an autoscale.json: how many users.

    Runs of one configuration on one machine are trials; other runs are shown next to each other,
    named by their directories or by what differs. --label old=runs/old --label new=runs/new names
    them.
    """
    from analysis.report.answer import make_report
    from analysis.report.systems import gather, join_lines, parse_label

    title = join_lines(title)
    if any(path.is_file() for path in runs):  # runs are directories
        answer = _report_file(runs, title, output.file)
    else:
        paths = find_runs(runs)
        named = [parse_label(text) for text in label] or _name_folders(runs, paths)
        answer = make_report(gather(paths, targets, baseline, progress=show_progress, labels=named), title)
    # All tables of a report are long: who wants a file need not scroll past them.
    output.show(answer, form or ("" if output.file or output.charts else "txt"))


def _name_folders(arguments: tuple[Path, ...], runs: list[Path]) -> list[tuple[str, str]]:
    """Return a label for each argument if all are folders of runs, as of two drives."""
    names = {argument.absolute().name for argument in arguments}
    is_each_a_folder = not {*arguments} & {*runs}
    # One folder needs no name, and two of the same name would be one system.
    if len(arguments) < 2 or len(names) < len(arguments) or not is_each_a_folder:
        return []
    return [(argument.absolute().name, str(argument)) for argument in arguments]


def _report_file(files: tuple[Path, ...], title: str, output: Path | None) -> "Answer":
    """Report a table of plans, or the record of a search: alone, as its flags would say nothing about others."""
    from analysis.sweeps.answer import answer_sweep
    from analysis.sweeps.search import answer_search
    from analysis.sweeps.sweep import open_sweep

    is_search = files[0].suffix == ".json"
    what = "a search" if is_search else "a sweep"
    if len(files) > 1:
        raise InputError(f"{what} is reported alone", "name only this file", subject=files[0])
    # A search took hours, and --force is meant for an older page.
    if output is not None and output.resolve() == files[0].resolve():
        raise InputError("it is what is reported", "name another file", subject=output, setting="output")
    context = click.get_current_context()
    for param in context.command.params:
        is_given = context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
        if is_given and param.name not in _OF_FILES:
            raise InputError(f"says nothing about {what}", "leave it out", setting=param.name)
    return answer_search(files[0], title) if is_search else answer_sweep(open_sweep(files[0]), title)
