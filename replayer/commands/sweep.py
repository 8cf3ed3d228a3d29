"""`replayer sweep`: replay the cases of a TOML file, each in several trials."""

import json
from pathlib import Path

import click

from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import json_option, series_options
from replayer.experiments.replay_series import Cache, RankProcesses, Series
from replayer.experiments.sweep import Case, Sweep, find_sweep, load_sweep, run_sweep
from replayer.flags.flag_types import WholeNumber
from tracegen.errors import format_count


@click.command(epilog="Example: replayer sweep grid.toml --cache-dir /mnt/nvme -o sweep")
@click.argument("grid")
@series_options
@click.option(
    "--trials",
    type=WholeNumber(1, 1000),
    metavar="N",
    help="Replays of each case.  [default: the file's, else 3]",
)
@click.option(
    "--flag",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    help="A flag of `replayer run` for all cases; overrides the file's.",
)
@click.option(
    "--ranks",
    type=WholeNumber(1, 100_000),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes of each replay; several are started under MPI.",
)
@click.option(
    "--mpirun",
    default="mpirun",
    show_default=True,
    metavar="COMMAND",
    help="The command that starts several processes, with its hosts.",
)
@click.option("--dry-run", is_flag=True, help="Only print the cases.")
@json_option("an array of run directories by case")
def sweep(
    grid: str,
    cache_dir: Path | None,
    trials: int | None,
    overrides: tuple[str, ...],
    ranks: int,
    mpirun: str,
    *,
    make_cache_dir: bool,
    dry_run: bool,
    as_json: bool,
    output: Path,
) -> None:
    """Replay the cases of a TOML file, each in several trials.

    GRID is a file (docs/sweeps.md), or the name of one that ships: demo, drive, engines, load,
    submission-full, submission-smoke. After an interruption, the same command continues: complete
    trials are not replayed again.
    """
    loaded = load_sweep(find_sweep(grid), trials, overrides)
    if not dry_run:
        cache = Cache(cache_dir, make=make_cache_dir)
        processes = RankProcesses(ranks, mpirun)
        with (
            choose_screen() as display,
            Series(output, loaded.settings(), cache, processes, display) as series,
        ):
            run_sweep(loaded, series)
    if as_json:
        cases = [{"case": case.name, "runs": _list_runs(output, case, loaded.trials)} for case in loaded.cases]
        click.echo(json.dumps(cases, indent=2))
    elif dry_run:
        click.echo("\n".join(_describe_sweep(loaded)))
    else:
        cases_made = format_count(len(loaded.cases), "case")
        click.echo(f"{output}: {cases_made}, {format_count(loaded.trials, 'trial')} each, complete")


def _list_runs(output: Path, case: Case, trials: int) -> list[str]:
    """Return the run directories of a case."""
    return [f"{output}/{case.name}/trial_{trial}" for trial in range(1, trials + 1)]


def _describe_sweep(loaded: Sweep) -> list[str]:
    """Describe the cases of a sweep and the time it takes, in lines."""
    trials = format_count(loaded.trials, "trial")
    limits = [case.time_limit_s() for case in loaded.cases]
    known = [limit for limit in limits if limit is not None]
    pauses_s = loaded.pause_s * (loaded.trials * len(loaded.cases) - 1)
    minutes = (loaded.trials * sum(known) + pauses_s) / 60
    rest = ""
    if len(known) < len(limits):
        unlimited = format_count(len(limits) - len(known), "case")
        rest = f", and as long as {unlimited} without --duration take"
    return [
        f"{trials} of each, interleaved, {loaded.pause_s:g} s of pause before each replay",
        f"at most {minutes:,.3g} minutes for --duration, --drain and pauses{rest}",
        *map(_describe_case, loaded.cases),
    ]


def _describe_case(case: Case) -> str:
    source = f"recipe {case.recipe}" if case.recipe else f"trace {case.trace}"
    changes = f" with {', '.join(case.settings)}" if case.settings else ""
    return f"  {case.name}: {source}{changes}; {' '.join(case.flags) or 'flags of its recipe'}"
