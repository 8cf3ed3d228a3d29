"""Code that the commands of tracegen share: their group, flags of writers, and what these print."""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

import tracegen
from tracegen.console.answers import json_option
from tracegen.console.command_line import Commands
from tracegen.console.commands import option_group
from tracegen.errors import InputError
from tracegen.outputs import TraceOutput, find_leftovers, remove_unfinished

if TYPE_CHECKING:
    from tracegen.trace.metadata import Metadata
    from tracegen.trace.reading import Trace

TRACE_PATH: Final = click.Path(path_type=Path)


class TraceCommands(Commands):
    """The commands of tracegen, which leave no unfinished file."""

    memory_remedy = "lower users, documents, prompts or tokens, or raise block_tokens"

    def clean_up_after_signal(self, ctx: click.Context) -> Sequence[str]:
        """Remove unfinished files; return sentences on what the user can do next."""
        remove_unfinished()
        return super().clean_up_after_signal(ctx)


@dataclass(frozen=True)
class ReportedTrace(TraceOutput):
    """A trace to write, whose metadata are printed as JSON or summed up."""

    as_json: bool = False


_OUTPUT_FLAGS = (
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        required=True,
        help="The trace (Parquet) to write.",
    ),
    click.option(
        "--part-ops",
        type=click.IntRange(1),
        callback=lambda _ctx, _param, ops: ops or 0,
        metavar="N",
        help="Write a folder of files with N ops (or up to 262,143 more) each, not one file.",
    ),
    click.option("--force", is_flag=True, help="Replace the output if it exists."),
    json_option("the trace's metadata"),
)


def add_output_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags of every command that writes a trace; the command gets them as `output`."""

    @functools.wraps(command)
    def run_command(*, output: Path, part_ops: int, force: bool, as_json: bool, **others: object) -> None:
        command(output=ReportedTrace(output, force, part_ops, as_json), **others)

    return option_group("Output", "-o trace.parquet --force", *_OUTPUT_FLAGS)(run_command)


def refuse_zeros(*names: str) -> None:
    """Refuse flags of the current command that are given as 0, which means that they are not given."""
    ctx = click.get_current_context()
    for param in ctx.command.params:
        if param.name not in names or ctx.params[param.name]:
            continue
        if ctx.get_parameter_source(param.name) is ParameterSource.COMMANDLINE:
            problem = "would change nothing"
            raise InputError(problem, "leave it out or give more", subject=0, setting=param.name)


def open_checked(path: Path) -> "Trace":
    """Open a trace and check that it follows the format.

    Raises:
        InputError: it cannot be read, or breaks a rule of the format.
    """
    trace = tracegen.read(path)
    trace.check()
    return trace


def report_trace(output: ReportedTrace, metadata: "Metadata") -> None:
    """Print a summary of the trace written, and warn of files that killed processes have left."""
    counts = metadata.counts
    if output.as_json:
        click.echo(json.dumps(asdict(metadata), indent=2))
    else:
        totals = (
            f"{counts['ops']:,} ops, {counts['requests']:,} requests,"
            f" {counts['sessions']:,} sessions, {counts['tokens_generated']:,} tokens generated"
        )
        click.echo(f"{output.path}: {totals}\nfingerprint {metadata.fingerprint}")
    for path in find_leftovers(output.path):
        warn(f"{path} was left by a process that was killed; remove it")


def warn(text: str) -> None:
    """Print a warning; `text` is a sentence without its full stop."""
    click.echo(f"Warning: {text}.", err=True)
