"""`replayer predict`: the run directory of a replay, on the clock of a measured machine."""

import json
from pathlib import Path
from typing import Any

import click

from replayer.commands.shared.prediction_options import profile_options
from replayer.commands.shared.run_ends import noting_log, show_end
from replayer.commands.shared.screens import choose_screen
from replayer.commands.shared.series_options import output_option
from replayer.options.command_line import add_progress_option, config_options, group_options
from replayer.options.groups import PLAN_GROUPS
from replayer.options.run_groups import SpanOptions
from replayer.record.conditions import Tier
from tracegen.console.answers import json_option
from tracegen.console.commands import command, option_group


@command(epilog="Example: replayer predict trace.parquet --profile drive.toml -o run")
@click.argument("trace", type=click.Path(path_type=Path))
@group_options(*PLAN_GROUPS, SpanOptions)
@config_options
@profile_options(
    "Whose times to use: a drive that ships (docs/predicting.md lists them), or a file that"
    " `replayer profile` wrote or that describes a data sheet.",
    required=True,
)
@option_group(
    "Output",
    "-o predicted --force",
    output_option("The run directory to make."),
    click.option("--force", is_flag=True, default=None, help="Replace the run directory if it exists."),
    add_progress_option,
    json_option("run.json"),
)
def predict(trace: Path, profile: str, speed: dict[Tier, float], output: Path, *, as_json: bool, **flags: Any) -> None:
    """Predict a replay from a profile (docs/predicting.md).

    Does no I/O. The plan, the workers and the load are those of `replayer run` with the same flags.
    The times are those of the machine and the conditions that `replayer profile` measured.
    """
    from replayer.options.resolving import overlay_recipe, resolve_plan
    from replayer.prediction.profile_file import load_profile
    from replayer.record.run_info import to_json
    from replayer.run.console import RunConsole
    from replayer.run.predicted import AssumedSystem, PredictedReplay, assume_settings
    from tracegen.schema import Trace

    system = AssumedSystem(load_profile(profile), speed)
    opened = Trace(trace)
    options = overlay_recipe(opened, flags)
    model, planned = resolve_plan(opened, options)
    prediction = PredictedReplay(
        trace=opened,
        model=model,
        options=planned,
        settings=assume_settings(system.profile, options, planned.demand),
        system=system,
        output=output,
        console=RunConsole(choose_screen(), is_predicted=True),
    )
    with noting_log(output):
        info = prediction.run()
    source = system.profile.source or "measured by `replayer profile`"
    made_by = f"PREDICTED by the profile {system.profile.name} ({source}), nothing was measured; "
    show_end(info, output, made_by, as_json=as_json)
    if as_json:
        click.echo(json.dumps(to_json(info), indent=2))
    # Scripts must not take it for a result.
    if info.status != "complete":
        raise click.exceptions.Exit(1)
