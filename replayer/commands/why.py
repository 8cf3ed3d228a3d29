"""`replayer why`: name the reasons why a tier brings little."""

from pathlib import Path
from typing import Any

import click

from replayer.options.command_line import config_options, plan_options
from tracegen.console.answers import AnswerOutput, answer_options
from tracegen.console.command_line import flags_of
from tracegen.console.commands import command
from tracegen.console.progress_bars import show_progress


@command(epilog="Example: replayer why trace.parquet --model llama3.1-8b --cpu-mem-gb 4")
@click.argument("trace", type=click.Path(path_type=Path))
@plan_options()
@config_options
@answer_options(content="what `replayer plan` prints, and the findings with their counts")
def why(trace: Path, output: AnswerOutput, **flags: Any) -> None:
    """Name the reasons why a tier brings little.

    Each has its counts and a remedy. Plans the trace without any I/O, and again without each rule
    that may cost hits.
    """
    from replayer.options.resolving import overlay_recipe, resolve_plan
    from replayer.planning.plan import Plan
    from replayer.questions.plan import answer_plan
    from replayer.questions.why import answer_why, examine
    from tracegen.schema import Trace

    opened = Trace(trace)
    model, options = resolve_plan(opened, overlay_recipe(opened, flags))
    with show_progress("planning", "op", opened.ops) as advance:
        evidence, summary, findings = examine(Plan(opened, options), advance)
    names = flags_of(click.get_current_context().command)
    output.show(answer_why(answer_plan(evidence, summary, model), evidence, findings, names))
