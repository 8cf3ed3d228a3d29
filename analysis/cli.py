"""The command line of analysis."""

import click

from analysis.commands.assess import assess, engine
from analysis.commands.compare import compare
from analysis.commands.report import report
from analysis.commands.submission import submission
from analysis.commands.summary import check, metrics, summary
from tracegen.console.command_line import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kv-tier-bench")
def main() -> None:
    """Judge replays from their logs."""


for command in (summary, check, metrics, assess, engine, compare, report, submission):
    main.add_command(command)
