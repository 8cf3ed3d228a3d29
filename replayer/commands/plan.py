"""`replayer plan`: simulate a replay without I/O, and print its hits, bytes and footprint."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from replayer.options.command_line import config_options, plan_options
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.command_line import TERABYTES, Quantity, flags_of
from tracegen.console.commands import command
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError

_DRIVE_TB: Final = Quantity(TERABYTES, low=1e-6)


@command(epilog="Example: replayer plan trace.parquet --model llama3.1-8b --cpu-mem-gb 4")
@click.argument("trace", type=click.Path(path_type=Path))
@plan_options()
@config_options
@answer_options(
    click.option(
        "--like",
        type=click.Path(path_type=Path),
        metavar="RUN",
        help="Plan the trace as this run directory's run was planned.",
    ),
    click.option(
        "--moves", type=click.Path(path_type=Path), metavar="FILE", help="Also write every move to this Parquet file."
    ),
    click.option(
        "--drive-tb",
        type=_DRIVE_TB,
        metavar="TB",
        help="Capacity of the drive in 10^12 bytes, for its drive writes per day.",
    ),
    click.option(
        "--tbw",
        type=_DRIVE_TB,
        metavar="TB",
        help="Rated endurance of the drive in 10^12 bytes, for the days that it lasts.",
    ),
    content="the plan's counts, the load at the trace's times, and findings",
    heading="Another run, the drive, and output",
    example="--like run1 --tbw 7000 -o plan.html",
)
def plan(
    trace: Path,
    like: Path | None,
    moves: Path | None,
    drive_tb: float | None,
    tbw: float | None,
    output: AnswerOutput,
    **flags: Any,
) -> None:
    """Plan a replay: hits, bytes and peaks per tier.

    Does no I/O. Ends with reasons why a tier brings little, if `replayer why` finds any.
    """
    from replayer.options.recorded import read_options
    from replayer.options.resolving import overlay_recipe, resolve_plan
    from replayer.planning.plan import Plan
    from replayer.planning.plan_table import write_moves
    from replayer.questions.plan import answer_plan, list_wear
    from replayer.questions.why import add_findings, examine
    from tracegen.schema import Trace

    opened = Trace(trace)
    if like is None:
        model, options = resolve_plan(opened, overlay_recipe(opened, flags))
    else:
        # A run's plan with one option changed would be called like the run, and be another.
        if given := [name for name, value in flags.items() if value is not None]:
            raise InputError("that run decides how to plan", f"leave out `{given[0]}`", setting="like")
        model, options = read_options(like, opened)
    with show_progress("planning", "op", opened.ops) as advance:
        made = Plan(opened, options)
        with nullcontext() if moves is None else write_moves(moves, made) as look:
            evidence, summary, findings = examine(made, advance, [look] if look else [])
    answer = answer_plan(evidence, summary, model)
    figures = [*answer.figures, *list_wear(evidence, drive_tb, tbw)]
    answer = msgspec.structs.replace(answer, figures=figures)
    flag_names = flags_of(click.get_current_context().command)
    output.show(add_findings(answer, findings, flag_names))
