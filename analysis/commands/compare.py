"""`analysis compare`: statistics of trials, and ratios of systems."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from analysis.commands.directories import find_runs, runs_argument
from tracegen.console.answers import AnswerOutput, answer_options, show_text
from tracegen.console.commands import Command
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError
from tracegen.progress import Advance

if TYPE_CHECKING:
    from views.answer import Answer

_AGAINST: Final = "\x1f--against"  # stands between sets of runs: no run has this name

_SEVERAL: Final = "These runs are {} configurations, not trials of one: write --against between two sets."


def mark_sets(arguments: list[str]) -> list[str]:
    """Replace each --against among the arguments by a mark; `--against=RUN` becomes two words."""
    marked = []
    for argument in arguments:
        flag, equals, run = argument.partition("=")
        if flag != "--against":
            marked.append(argument)
        else:
            marked += [_AGAINST, run] if equals else [_AGAINST]
    return marked


def split_sets(runs: tuple[Path, ...]) -> list[list[Path]]:
    """Split runs into sets at the marks of `mark_sets`.

    Raises:
        InputError: a set is empty.
    """
    sets: list[list[Path]] = [[]]
    for run in runs:
        if str(run) == _AGAINST:
            sets.append([])
        else:
            sets[-1] += find_runs([run])
    if not all(sets):
        raise InputError("needs runs before it and after it", "write compare a1 a2 --against b1 b2", setting="against")
    return sets


class CompareCommand(Command):
    """Command whose runs form sets: each --against begins one. Options of click cannot do that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with a mark between sets."""
        return super().parse_args(ctx, mark_sets(args))


@click.command(
    cls=CompareCommand, epilog="Example: analysis compare fast-1 fast-2 fast-3 --against slow-1 slow-2 slow-3"
)
@runs_argument
@click.option("--against", multiple=True, metavar="RUNS…", expose_value=False, help="Begin another set of runs.")
@click.option("--vary", multiple=True, metavar="NAME", help="A condition that differs between sets on purpose.")
@click.option(
    "--metric", "metrics", multiple=True, metavar="NAME", help="A metric to compare. Default: the most important ones."
)
@answer_options(
    click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row per metric and set."),
    example="-o comparison.html",
)
def compare(
    runs: tuple[Path, ...], vary: tuple[str, ...], metrics: tuple[str, ...], as_csv: bool, output: AnswerOutput
) -> None:
    """Compare trials or systems, or predictions with replays.

    Prints statistics of one set of runs. With --against prints ratios and verdicts at equal work,
    of runs that are matched by trace, plan and conditions; the last set is the baseline. If one set
    is predicted and the other measured, prints the errors of the predictions instead, unless --vary
    is given.
    """
    from analysis.comparison.predictions import answer_check, check_predictions, find_predictions

    if output.as_json and as_csv:
        remedy = "pass one of `as_json` and `as_csv`"
        raise InputError("two forms at once", remedy, setting="as_csv")
    sets = split_sets(runs)
    predicted = find_predictions(sets)
    with show_progress("reading logs", "run", sum(map(len, sets))) as advance:
        if predicted in ([False, True], [True, False]) and not vary:
            # Errors are of predictions, whichever set was typed first.
            measured, predictions = sets if predicted[1] else sets[::-1]
            check = check_predictions(measured, predictions, metrics, advance)
            answer = answer_check(check, every_metric=bool(metrics))
        else:
            answer = _compare_sets(sets, vary, metrics, advance)
    output.show(answer, "csv" if as_csv else "txt")


def _compare_sets(
    sets: list[list[Path]], vary: tuple[str, ...], metrics: tuple[str, ...], advance: Advance
) -> "Answer":
    """Compare sets of runs; the last is the baseline. A single set is shown with its statistics."""
    from analysis.comparison.answer import answer_comparison, answer_statistics
    from analysis.comparison.compare import compare_systems, select_metrics
    from analysis.comparison.matching import match_configurations, name_sets
    from analysis.comparison.trials import load_sets

    trials, left_out = load_sets(dict(zip(name_sets(sets), sets, strict=True)), advance)
    if len(sets) > 1:
        return answer_comparison(compare_systems(trials, [*trials][-1], vary, metrics), left_out)
    # Unlike runs in one set are most likely a forgotten --against; each configuration is shown by itself.
    configurations, _ = match_configurations(trials, vary)
    if len(configurations) > 1:
        show_text(_SEVERAL.format(len(configurations)), err=True)
    names = select_metrics([trial.summary for own in trials.values() for trial in own], metrics)
    return answer_statistics(configurations, names, trials, left_out)
