"""Lines about a run, or a prediction, that has ended."""

import json
import shlex
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegen.console.command_line import flags_of
from tracegen.console.interrupts import Interrupted
from tracegen.errors import ToolError, format_count

if TYPE_CHECKING:
    from replayer.record.run_info import RanksInfo, RunInfo


def report_death(error: BaseException) -> None:
    """Show the error that ends a rank; an interrupt is shown when the command ends."""
    if isinstance(error, ToolError):
        flags = flags_of(click.get_current_context().command)
        click.echo(f"Error: {error.sentence(flags.get)}", err=True)
    # Printed before MPI ends all ranks, as nothing is printed afterwards.
    elif not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error)


@contextmanager
def noting_log(directory: Path) -> Iterator[None]:
    """Tell the user of a run that is interrupted where its rows are, if it leaves any."""
    try:
        yield
    except Interrupted as error:
        info = directory / "run.json"
        # A run that was interrupted before its first rows has nothing to read.
        is_incomplete = info.exists() and json.loads(info.read_text())["status"] == "incomplete"
        if is_incomplete and any(directory.glob("**/part-*.parquet")):
            error.add_note(f"{directory} holds what was done; {_summary_of(directory)} reads it.")
        raise


def show_end(info: "RunInfo | RanksInfo", directory: Path, how: str = "", *, as_json: bool) -> None:
    """Print how a run ended, and with which command to go on; why one failed, as an error.

    Args:
        info: of the run.
        directory: its directory.
        how: how it was made, if it is a prediction.
        as_json: whether JSON is printed instead, which then is all that stdout gets.
    """
    if not as_json:
        ops = format_count(info.ops_executed or 0, "op")
        click.echo(f"{directory}: {how}{info.status}, {ops}; {_summary_of(directory)} judges it")
    if info.status != "complete":
        click.secho(f"Error: {directory}: {info.reason}.", err=True, bold=True)


def _summary_of(directory: Path) -> str:
    return f"`analysis summary {shlex.quote(str(directory))}`"
