"""`analysis compare`: statistics of trials, and ratios of systems."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import polars as pl

from analysis.commands.directories import find_runs
from analysis.commands.terminal import echo, say, show_progress
from analysis.comparison.compare import compare as compare_sets
from analysis.comparison.export import tabulate_comparison
from analysis.comparison.prediction_text import check_to_json, render_check, tabulate_check
from analysis.comparison.predictions import check_predictions, find_predictions
from analysis.comparison.text import as_json as comparison_to_json
from analysis.comparison.text import render as render_comparison
from analysis.sql.csv_cells import as_text
from tracegen.errors import InputError

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


@dataclass(frozen=True)
class Forms:
    """The forms of a result: text, plain JSON, and a table for CSV."""

    render: Callable[[], str]
    to_json: Callable[[], dict[str, object]]
    tabulate: Callable[[], pl.DataFrame]


class CompareCommand(click.Command):
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
    type=click.Choice(["workload"]),
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
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row for each metric.")
def compare(
    runs: tuple[Path, ...],
    vary: tuple[str, ...],
    by: str | None,
    metrics: tuple[str, ...],
    as_json: bool,
    as_csv: bool,
) -> None:
    """Compare trials or systems, or predictions with replays.

    Prints statistics of one set of runs. With --against prints ratios and verdicts of runs that
    are matched by trace, plan and conditions. If one set is predicted and the other measured,
    prints the errors of the predictions instead, unless --vary or --by is given.
    """
    if as_json and as_csv:
        remedy = "pass one of `as_json` and `as_csv`"
        raise InputError("two forms at once", remedy, setting="as_csv")
    sets = split_sets(runs)
    sides = find_predictions(sets)
    with show_progress("reading logs", "run", sum(map(len, sets))) as advance:
        if sides in ([False, True], [True, False]) and not vary and by is None:
            measured, predicted = sets if sides[1] else sets[::-1]
            check = check_predictions(measured, predicted, metrics, advance)
            forms = Forms(
                lambda: render_check(check, every_metric=bool(metrics)),
                lambda: check_to_json(check),
                lambda: tabulate_check(check),
            )
        else:
            found = compare_sets(sets, vary, metrics, workloads=by is not None, advance=advance)
            if len(sets) == 1 and len(found.configurations) > 1:
                say(_SEVERAL.format(len(found.configurations)))
            forms = Forms(
                lambda: render_comparison(found),
                lambda: comparison_to_json(found),
                lambda: tabulate_comparison(found),
            )
    if as_json:
        echo(json.dumps(forms.to_json(), indent=2, allow_nan=False))
    elif as_csv:
        text = as_text(pl.selectors.string(), terminal=sys.stdout.isatty())
        echo(forms.tabulate().with_columns(text).write_csv(), nl=False)
    else:
        echo(forms.render())
