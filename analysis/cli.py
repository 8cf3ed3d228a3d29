"""The command line of analysis."""

import json
from pathlib import Path
from typing import Any

import click

from analysis.render import render
from analysis.summary import summarise


class Commands(click.Group):
    """A command group that ends with exit code 130 on Ctrl-C, after what was open has been closed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(130)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Judge replays from their logs."""


@main.command(epilog="Example: analysis summary run1 run2")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for one run, an array for several.")
def summary(runs: tuple[Path, ...], as_json: bool) -> None:
    """Every metric of one or more runs side by side, and whether they may be believed."""
    summaries = [summarise(run) for run in runs]
    if as_json:
        click.echo(json.dumps(summaries[0] if len(summaries) == 1 else summaries, indent=2))
    else:
        click.echo(render(summaries))
