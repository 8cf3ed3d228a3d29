"""The commands that describe traces: info, validate and diff."""

import json
from pathlib import Path

import click

import tracegen
from tracegen.commands.options import TRACE_PATH
from tracegen.console.answers import AnswerOutput, answer_options, json_option
from tracegen.console.commands import command
from tracegen.errors import escape_controls


@command(short_help="Describe a trace, or draw it.", epilog="Example: tracegen info trace.parquet -o trace.html")
@click.argument("trace", type=TRACE_PATH)
@answer_options(has_charts=True)
def info(trace: Path, output: AnswerOutput) -> None:
    """Describe a trace: counts, lengths, reuse by source and distance, provenance."""
    from tracegen.describe.charts import list_charts
    from tracegen.describe.info import answer_trace, describe
    from tracegen.describe.reuse import measure_reuse

    opened = tracegen.read(trace)
    facts, reuse = describe(opened), measure_reuse(opened)
    drawn = list_charts(opened, facts, reuse) if output.file or output.charts else []
    output.show(answer_trace(facts, reuse, drawn))


@command(short_help="Check every rule of the format.", epilog="Example: tracegen validate trace.parquet")
@click.argument("trace", type=TRACE_PATH)
@json_option("the ops and the violations")
def validate(trace: Path, as_json: bool) -> None:
    """Check every invariant of the format.

    Lists the first hundred violations and exits 1 if there are any.
    """
    opened = tracegen.read(trace)
    violations = opened.violations()
    if as_json:
        problems = [vars(problem) for problem in violations.problems]
        click.echo(json.dumps({"ops": opened.ops, "violations": violations.count, "problems": problems}, indent=2))
    else:
        for problem in violations.problems:
            click.echo(escape_controls(f"{trace}, {problem}"))
        valid = f"valid, fingerprint {opened.metadata.fingerprint}"
        verdict = f"{violations.count:,} violations" if violations.count else valid
        click.echo(f"{trace}: {opened.ops:,} ops, {verdict}")
    if violations.count:
        raise click.exceptions.Exit(1)


@command(short_help="Compare two traces.", epilog="Example: tracegen diff a.parquet b.parquet")
@click.argument("a", type=TRACE_PATH)
@click.argument("b", type=TRACE_PATH)
@answer_options(example="-o diff.md")
def diff(a: Path, b: Path, output: AnswerOutput) -> None:
    """Print where two traces first differ, and how many rows do; exits 1 if anything differs."""
    from tracegen.describe.info import compare_traces

    answer = compare_traces(tracegen.read(a), tracegen.read(b))
    output.show(answer)
    if not answer.data["equal"]:
        raise click.exceptions.Exit(1)
