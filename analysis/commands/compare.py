"""`analysis compare`: statistics of trials, and ratios of systems."""

import json
from pathlib import Path
from typing import Final

import click

from analysis.commands.directories import find_runs
from analysis.commands.terminal import echo, show_progress
from analysis.comparison.compare import compare as compare_sets
from analysis.comparison.text import as_json as comparison_to_json
from analysis.comparison.text import render as render_comparison
from tracegen.errors import InputError

_AGAINST: Final = "\x1f--against"  # stands between sets of runs: no run has this name


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
def compare(
    runs: tuple[Path, ...],
    vary: tuple[str, ...],
    by: str | None,
    metrics: tuple[str, ...],
    as_json: bool,
) -> None:
    """Compare trials or systems.

    Prints statistics of one set of runs. With --against prints ratios and verdicts of runs that
    are matched by trace, plan and conditions.
    """
    sets = split_sets(runs)
    with show_progress("reading logs", "run", sum(map(len, sets))) as advance:
        comparison = compare_sets(sets, vary, metrics, workloads=by is not None, advance=advance)
    if as_json:
        echo(json.dumps(comparison_to_json(comparison), indent=2, allow_nan=False))
    else:
        echo(render_comparison(comparison))
