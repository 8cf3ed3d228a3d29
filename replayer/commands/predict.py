"""`replayer predict`: the run directory of a replay, on the clock of a measured machine."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from replayer.commands.shared.resolving import resolve_prediction
from replayer.commands.shared.run_ends import note_log
from replayer.commands.shared.screens import choose_screen
from replayer.flags.plan_flags import add_options, plan_options
from replayer.flags.profile_flags import PROFILE_OPTIONS
from replayer.flags.progress_flags import add_progress_option
from replayer.flags.run_flags import LOAD_OPTIONS, LoadFlags
from replayer.planning.plan_settings import resolve_plan
from replayer.prediction.profile_file import load_profile
from replayer.record.plain_json import to_json
from replayer.record.run_info import RunInfo, Tier
from replayer.run.console import RunConsole
from replayer.run.predicted import AssumedSystem, PredictedReplay
from tracegen.console.interrupts import Interrupted
from tracegen.schema import Trace
from views.answer import Answer, Figure
from views.text import render_text


def load_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that a replay and its prediction share to a command."""
    return add_options(LOAD_OPTIONS, command)


def profile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --profile and --speed to a command."""
    return add_options(PROFILE_OPTIONS, command)


@click.command(epilog="Example: replayer predict trace.parquet --profile drive.toml -o run")
@plan_options
@profile_options
@load_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The run directory to make.",
)
@add_progress_option
def predict(
    trace: Path,
    profile: str,
    speed: dict[Tier, float],
    output: Path,
    *,
    as_json: bool,
    **flags: Any,
) -> None:
    """Predict a replay from a profile (docs/predicting.md).

    Does no I/O. The plan, the workers and the load are those of `replayer run` with the same flags.
    The times are those of the machine and the conditions that `replayer profile` measured.
    """
    system = AssumedSystem(load_profile(profile), speed)
    opened = Trace(trace)
    loads = LoadFlags.from_values(flags)
    model, options = resolve_plan(opened, loads.plan)
    settings = resolve_prediction(opened, loads, system.profile)
    prediction = PredictedReplay(
        trace=opened,
        model=model,
        options=options,
        settings=settings,
        system=system,
        output=output,
        console=RunConsole(choose_screen(), is_predicted=True),
    )
    try:
        info = prediction.run()
    except Interrupted as error:
        note_log(error, output)
        raise
    if as_json:
        click.echo(json.dumps(to_json(info), indent=2))
    else:
        click.echo(render_text(_describe(info, output)), nl=False)
    if info.status != "complete":
        click.secho(f"Error: {output}: {info.reason}.", err=True, bold=True)
        raise click.exceptions.Exit(1)


def _describe(info: RunInfo, directory: Path) -> Answer:
    """Return the answer of a prediction."""
    assert info.prediction is not None, "the run is predicted"
    source = info.prediction.source or "measured by `replayer profile`"
    return Answer(
        title=f"{directory}: predicted, {info.status}",
        subject=[f"profile {info.prediction.profile}: {source}"],
        state="PREDICTED",
        figures=[Figure(name="ops", label="ops", value=info.ops_executed)],
        sentence="the times are those of the profile, and nothing was measured",
        next=[f"analysis summary {shlex.quote(str(directory))}"],
    )
