"""`replayer sweep`: replay the cases of a TOML file, each in several trials."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from replayer.commands.shared.prediction_options import load_system, prediction_options, refuse_trials
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import series_options
from replayer.experiments.series import ReplayMeans, Series
from replayer.experiments.sweep import Case, Sweep, find_sweep, list_sweeps, load_sweep, run_sweep
from replayer.options.command_line import option_words
from replayer.options.types import whole_number
from tracegen.console.commands import Name, command, option_group
from tracegen.errors import format_count


@command(epilog="Example: replayer sweep grid.toml --cache-dir /mnt/nvme -o sweep")
@click.argument("grid", type=Name(list_sweeps))
@option_group(
    "Cases",
    "--case chat --trials 5 --flag duration=2m --dry-run",
    click.option(
        "--trials",
        type=whole_number(1, 1000),
        metavar="N",
        help="Replays of each case.  [default: the file's, else 3]",
    ),
    click.option(
        "--flag",
        "overrides",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of `replayer run` for all cases; overrides the file's.",
    ),
    click.option(
        "--case",
        "names",
        multiple=True,
        metavar="NAME",
        help="Only the cases of this [[case]]; may be repeated.",
    ),
    click.option("--dry-run", is_flag=True, help="Only print the cases."),
)
@option_group(
    "Several processes",
    "--ranks 4 --mpirun 'mpirun -H a,b'",
    click.option(
        "--ranks",
        type=whole_number(1, 100_000),
        default=1,
        show_default=True,
        metavar="N",
        help="Processes of each replay; several are started under MPI.",
    ),
    click.option(
        "--mpirun",
        default="mpirun",
        show_default=True,
        metavar="COMMAND",
        help="The command that starts several processes, with its hosts.",
    ),
)
@prediction_options()
@series_options(content="an array of run directories by case")
def sweep(
    grid: str,
    trials: int | None,
    overrides: tuple[str, ...],
    names: tuple[str, ...],
    output: Path,
    *,
    dry_run: bool,
    as_json: bool,
    **means: Any,
) -> None:
    """Replay the cases of a TOML file, each in several trials.

    GRID is a file (docs/sweeps.md), or the name of one that ships: demo, drive, engines, load,
    scenarios, submission-full, submission-smoke. After an interruption, the same command continues:
    complete trials are not replayed again.
    """
    profile = means.pop("predict")
    system = load_system(profile, means.pop("speed"), "predict")
    if system is not None:
        refuse_trials()
        trials = 1
    chosen = ReplayMeans(profile=profile, system=system, **means)
    loaded = load_sweep(find_sweep(grid), trials, overrides, names)
    for case in loaded.cases:
        chosen.check_flags(case.flags)
    room = loaded.choose_room(output, chosen)
    possible, left_out = loaded.split(room)
    if dry_run:
        lines = _describe_sweep(possible, left_out)
    else:
        recorded = {**loaded.settings(), "room": msgspec.to_builtins(room)}
        with choose_screen() as screen, Series(output, recorded, chosen, screen) as series:
            for name, reason in left_out.items():
                screen.say(f"{name} is left out: {reason}")
            run_sweep(possible, series, room)
        cases_made = format_count(len(possible.cases), "case")
        lines = [f"{output}: {cases_made}, {format_count(loaded.trials, 'trial')} each, complete"]
    if as_json:
        cases = [{"case": case.name, "runs": _list_runs(output, case, loaded.trials)} for case in possible.cases]
        cases += [{"case": name, "runs": [], "left_out": reason} for name, reason in left_out.items()]
        lines = [json.dumps(cases, indent=2)]
    click.echo("\n".join(lines))


def _list_runs(output: Path, case: Case, trials: int) -> list[str]:
    """Return the run directories of a case."""
    return [f"{output}/{case.name}/trial_{trial}" for trial in range(1, trials + 1)]


def _describe_sweep(loaded: Sweep, left_out: Mapping[str, str]) -> list[str]:
    """Describe the cases of a sweep and the time it takes, in lines."""
    known = [limit for case in loaded.cases if (limit := case.time_limit_s()) is not None]
    unlimited = len(loaded.cases) - len(known)
    pauses_s = loaded.pause_s * (loaded.trials * len(loaded.cases) - 1)
    minutes = (loaded.trials * sum(known) + pauses_s) / 60
    rest = f", and as long as {format_count(unlimited, 'case')} without duration take" if unlimited else ""
    trials = format_count(loaded.trials, "trial")
    return [
        f"{trials} of each, interleaved, {loaded.pause_s:g} s of pause before each replay",
        f"at most {minutes:,.3g} minutes for duration, drain and pauses{rest}",
        *map(_describe_case, loaded.cases),
        *(f"  {name} is left out: {reason}" for name, reason in left_out.items()),
    ]


def _describe_case(case: Case) -> str:
    source = f"recipe {case.recipe}" if case.recipe else f"trace {case.trace}"
    changes = f" with {', '.join(case.settings)}" if case.settings else ""
    sizes = [word for setting, size in case.sizes.items() for word in option_words(setting, size)]
    return f"  {case.name}: {source}{changes}; {' '.join([*case.flags, *sizes]) or 'flags of its recipe'}"
