"""The commands that describe traces: info, validate and diff."""

import json
from pathlib import Path

import click

import tracegen
from tracegen.commands.options import TRACE_PATH
from tracegen.describe.diff import compare_traces
from tracegen.describe.info import add_reuse, describe, format_facts
from tracegen.describe.reuse import measure_reuse
from tracegen.errors import escape_controls


@click.command(
    short_help="Describe a trace, or draw it.",
    epilog="Example: tracegen info trace.parquet",
)
@click.argument("trace", type=TRACE_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the trace, too: .svg or .png.",
)
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
def info(trace: Path, as_json: bool, picture: Path | None, force: bool) -> None:
    """Describe a trace: counts, lengths, reuse by source and distance, provenance."""
    opened = tracegen.read(trace)
    if picture is not None:
        from tracegen.describe.plot import check_picture, plot  # noqa: PLC0415 (a renderer)

        check_picture(picture, force=force)
    facts = describe(opened)
    reuse = measure_reuse(opened)
    if picture is not None:
        plot(opened, picture, facts, reuse, force=force)
    facts = add_reuse(facts, reuse)
    click.echo(json.dumps(facts, indent=2) if as_json else escape_controls(format_facts(facts)))


@click.command(
    short_help="Check every rule of the format.",
    epilog="Example: tracegen validate trace.parquet",
)
@click.argument("trace", type=TRACE_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def validate(trace: Path, as_json: bool) -> None:
    """Check every invariant of the format.

    Lists the first hundred violations and exits 1 if there are any.
    """
    opened = tracegen.read(trace)
    violations = opened.violations()
    if as_json:
        report = {
            "ops": opened.ops,
            "violations": violations.count,
            "problems": [vars(problem) for problem in violations.first],
        }
        click.echo(json.dumps(report, indent=2))
    else:
        for problem in violations.first:
            click.echo(escape_controls(f"{trace}, {problem}"))
        unlisted = violations.count - len(violations.first)
        if unlisted:
            click.echo(f"{trace}: {unlisted:,} more violations are not listed")
        verdict = f"valid, fingerprint {opened.metadata.fingerprint}"
        if violations.count:
            verdict = f"{violations.count:,} violations"
        click.echo(f"{trace}: {opened.ops:,} ops, {verdict}")
    if violations.count:
        raise click.exceptions.Exit(1)


@click.command(
    short_help="Compare two traces.",
    epilog="Example: tracegen diff a.parquet b.parquet",
)
@click.argument("a", type=TRACE_PATH)
@click.argument("b", type=TRACE_PATH)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Print where two traces first differ, and which totals differ; exits 1 if anything differs."""
    comparison = compare_traces(tracegen.read(a), tracegen.read(b))
    text = json.dumps(comparison.facts, indent=2) if as_json else escape_controls(comparison.text)
    click.echo(text)
    if not comparison.is_equal:
        raise click.exceptions.Exit(1)
