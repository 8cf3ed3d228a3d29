"""`analysis compare`: statistics of trials, and ratios of systems."""

import json
import sys
from pathlib import Path
from typing import Final

import click
import polars as pl

from analysis.commands.directories import find_runs
from analysis.commands.terminal import choose_output, echo, output_options, say, show_progress
from analysis.comparison.answer import answer_comparison, answer_statistics, describe_sets
from analysis.comparison.compare import compare_systems, select_metrics
from analysis.comparison.matching import match_configurations, match_workloads, name_sets
from analysis.comparison.prediction_answer import answer_check
from analysis.comparison.predictions import check_predictions, find_predictions
from analysis.comparison.trials import load_sets
from analysis.comparison.warnings import (
    count_doubts,
    warn_of_conditions,
    warn_of_machines,
    warn_of_predictions,
)
from tracegen.console.commands import Command, Word
from tracegen.errors import InputError
from tracegen.progress import Advance
from views.answer import Answer
from views.exports import disarm_formulas

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
        raise InputError(
            "needs runs before it and after it",
            "write compare a1 a2 --against b1 b2",
            setting="against",
        )
    return sets


class CompareCommand(Command):
    """Command whose runs form sets: each --against begins one. Options of click cannot do that."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with a mark between sets."""
        return super().parse_args(ctx, mark_sets(args))


@click.command(
    cls=CompareCommand,
    epilog="Example: analysis compare fast-1 fast-2 fast-3 --against slow-1 slow-2 slow-3",
)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--against",
    multiple=True,
    metavar="RUNS…",
    expose_value=False,
    help="Begin another set of runs.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="NAME",
    help="A condition that differs between sets on purpose.",
)
@click.option(
    "--by",
    type=Word(["workload"]),
    help="Show sets of different workloads in columns, without ratios.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="A metric to compare. Default: the most important ones.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row per metric and set.")
@output_options
def compare(
    runs: tuple[Path, ...],
    vary: tuple[str, ...],
    by: str | None,
    metrics: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Compare trials or systems, or predictions with replays.

    Prints statistics of one set of runs. With --against prints ratios and verdicts at equal work,
    of runs that are matched by trace, plan and conditions; the last set is the baseline. If one set
    is predicted and the other measured, prints the errors of the predictions instead, unless --vary
    or --by is given.
    """
    if as_json and as_csv:
        remedy = "pass one of `as_json` and `as_csv`"
        raise InputError("two forms at once", remedy, setting="as_csv")
    sets = split_sets(runs)
    deliver = choose_output(output, [run for own in sets for run in own], force=force)
    predicted = find_predictions(sets)
    with show_progress("reading logs", "run", sum(map(len, sets))) as advance:
        if predicted in ([False, True], [True, False]) and not vary and by is None:
            answer = _check_predictions(sets if predicted[1] else sets[::-1], metrics, advance)
        else:
            answer = _compare_sets(sets, vary, metrics, is_by_workload=by is not None, advance=advance)
    if as_json:
        echo(json.dumps(dict(answer.data), indent=2, allow_nan=False))
    elif as_csv and answer.records is not None:
        disarm = disarm_formulas(pl.selectors.string(), terminal=sys.stdout.isatty())
        echo(answer.records.with_columns(disarm).write_csv(), nl=False)
    else:
        deliver(answer)


def _check_predictions(sets: list[list[Path]], metrics: tuple[str, ...], advance: Advance) -> Answer:
    measured, predicted = sets
    check = check_predictions(measured, predicted, metrics, advance)
    return answer_check(check, every_metric=bool(metrics))


def _compare_sets(
    sets: list[list[Path]], vary: tuple[str, ...], metrics: tuple[str, ...], *, is_by_workload: bool, advance: Advance
) -> Answer:
    """Compare sets of runs; the last is the baseline. A single set is shown with its statistics."""
    trials, left_out = load_sets(dict(zip(name_sets(sets), sets, strict=True)), advance)
    runs = describe_sets(trials, left_out)
    every = [trial for own in trials.values() for trial in own]
    found: dict[str, object] = {
        "runs": {system: [str(trial.run.path) for trial in own] for system, own in trials.items()},
        "left_out": {str(path): why for path, why in left_out.items()},
        "doubts": count_doubts(every),
    }
    if len(sets) > 1 and not is_by_workload:
        return answer_comparison(compare_systems(trials, [*trials][-1], vary, metrics), runs, found)
    names = select_metrics([trial.summary for trial in every], metrics)
    if is_by_workload:
        configurations = match_workloads(trials, vary)
        warnings = [*warn_of_machines({"the set of workloads": every}), *warn_of_conditions(trials, vary)]
    else:
        configurations, _ = match_configurations(trials, vary)
        warnings = [*warn_of_machines(trials), *warn_of_predictions(trials)]
        if len(configurations) > 1:
            say(_SEVERAL.format(len(configurations)))
    return answer_statistics(configurations, names, runs, found | {"warnings": warnings})
