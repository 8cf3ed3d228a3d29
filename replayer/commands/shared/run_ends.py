"""Lines about a run, or a prediction, that has ended."""

import json
import shlex
import traceback
from pathlib import Path

import click

from tracegen.console.command_line import flags_of
from tracegen.errors import ToolError


def report_death(error: BaseException) -> None:
    """Show the error that ends a rank; an interrupt is shown when the command ends."""
    if isinstance(error, ToolError):
        flags = flags_of(click.get_current_context().command)
        click.echo(f"Error: {error.sentence(flags.get)}", err=True)
    elif not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error)


def note_log(error: BaseException, directory: Path) -> None:
    """Tell the user of an interrupted run where its rows are, if it left any."""
    info = directory / "run.json"
    # A run that was interrupted before its first rows has nothing to read.
    is_incomplete = info.exists() and json.loads(info.read_text())["status"] == "incomplete"
    if is_incomplete and any(directory.glob("**/part-*.parquet")):
        command = f"`analysis summary {shlex.quote(str(directory))}`"
        error.add_note(f"{directory} holds what was done; {command} reads it.")
