"""`replayer run`: execute a trace on real tiers, alone or as a rank, in one or several trials."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from replayer.commands.shared.run_ends import noting_log, report_death, show_end
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import output_option
from replayer.options.command_line import add_progress_option, config_options, group_options
from replayer.options.groups import GROUPS
from replayer.options.run_groups import ControlOptions
from replayer.options.types import one_of, whole_number
from replayer.record.options import RankMode
from replayer.run.figures import Agenda
from tracegen.console.answers import json_option
from tracegen.console.commands import command, option_group
from tracegen.errors import InputError

if TYPE_CHECKING:
    from replayer.run.mpi import Ranks
    from replayer.run.replay import Replay


@command(epilog="Example: replayer run trace.parquet --cpu-mem-gb 4 --cache-dir /mnt/nvme -o run1")
@click.argument("trace", type=click.Path(path_type=Path))
@group_options(*GROUPS.values())
@config_options
@option_group(
    "Trials and output",
    "--repeat 5 -o runs/dram",
    click.option(
        "--repeat",
        type=whole_number(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="Trials to make, into the run directories OUTPUT-1, OUTPUT-2, …",
    ),
    click.option(
        "--ranks",
        type=one_of(RankMode),
        help="Under mpirun or srun, what each rank replays. replicate: the whole trace, or its own if"
        " TRACE contains {rank}. partition: its share of the sessions.",
    ),
    output_option("The run directory to make."),
    add_progress_option,
    json_option("run.json of each trial"),
)
def run(trace: Path, output: Path, repeat: int, ranks: RankMode | None, *, as_json: bool, **options: Any) -> None:
    """Execute a trace on real tiers and log every move."""
    from replayer.run.console import RunConsole
    from replayer.run.mpi import ALONE, find_ranks

    peers = find_ranks() if ranks else ALONE
    with peers.abort_together(report_death):
        # One rank's refusal must not leave the others waiting in MPI.
        with peers.in_step():
            start, control = _resolve(trace, ranks, peers, options)
            directories = _name_trials(output, repeat, force=control.force)
        agenda = Agenda([str(directory) for directory in directories])
        console = RunConsole(choose_screen(), agenda.place)
        results = []
        for directory in directories:
            agenda.begin(str(directory))
            with noting_log(directory):
                result = start(output=directory, console=console).run()
            if peers.rank == 0:
                show_end(result.whole, directory, as_json=as_json)
            results.append(result)
    if as_json and peers.rank == 0:
        infos = [result.to_json() for result in results]
        click.echo(json.dumps(infos[0] if repeat == 1 else infos, indent=2))
    if any(result.whole.status != "complete" for result in results):
        # Scripts that compare runs must not take a failed one for a result.
        raise click.exceptions.Exit(1)


def _resolve(
    trace: Path, mode: RankMode | None, peers: "Ranks", given: Mapping[str, Any]
) -> "tuple[Callable[..., Replay], ControlOptions]":
    """Return a function that makes the replay that the options ask for on this rank, and what they say of control."""
    from replayer.options.resolving import overlay_recipe, resolve_plan, resolve_settings
    from replayer.run.replay import Replay
    from tracegen.schema import Trace

    opened = Trace(Path(str(trace).replace("{rank}", str(peers.rank))) if mode else trace)
    part = (peers.rank, peers.size) if mode == "partition" else (0, 1)
    options = overlay_recipe(opened, given)
    model, planned = resolve_plan(opened, options, part)
    settings = resolve_settings(options, planned.demand)
    return partial(Replay, opened, model, planned, settings, ranks=peers), settings.control


def _name_trials(output: Path, repeat: int, *, force: bool) -> list[Path]:
    """Return the run directories of the trials: several are numbered, OUTPUT-1 and up."""
    from replayer.record.run_directory import check_free

    if repeat == 1:
        return [output]
    if not output.name:
        raise InputError(
            "trials cannot be numbered in this name", "name a directory to make", setting="output", subject=output
        )
    directories = [output.with_name(f"{output.name}-{number}") for number in range(1, repeat + 1)]
    for directory in directories:  # all of them before the first trial, which may take hours
        check_free(directory, force=force)
    return directories
