"""What the commands of tracegen share: the end on signals, the flags of those that write a trace, what these say."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tracegen.console.command_line import Commands
from tracegen.errors import InputError
from tracegen.files.outputs import leftovers, remove_unfinished
from tracegen.schema import Metadata


class Making(Commands):
    """The commands; an error of the system is a sentence, and nothing is left unfinished."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except MemoryError:
            raise InputError(
                "out of memory; lower users, documents, prompts or tokens, or raise block_tokens."
            ) from None

    def clean_up_after_signal(self, ctx: click.Context) -> Sequence[str]:
        """Remove what was being written."""
        remove_unfinished()
        return super().clean_up_after_signal(ctx)


def written(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of every command that writes a trace."""
    for flag in reversed(WRITE_FLAGS):
        command = flag(command)
    return command


WRITE_FLAGS = (
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
        help="Write a folder of files of N ops (or up to 262,143 more) each, not one file.",
    ),
    click.option("--force", is_flag=True, help="Replace the output if it exists."),
    click.option("--json", "as_json", is_flag=True, help="Print the trace's metadata as JSON."),
)


def refuse_zeros(*names: str) -> None:
    """Refuse flags that were given a 0, which says that they are not given.

    Args:
        names: of the current command's parameters.

    Raises:
        InputError: names the first of them.
    """
    ctx = click.get_current_context()
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if param.name in names and given and not ctx.params[param.name]:
            raise InputError(f"{param.opts[0]} 0 would change nothing; leave it out, or give more.")


def report(output: Path, metadata: Metadata, as_json: bool) -> None:
    """Say what was written."""
    counts = metadata.counts
    if as_json:
        click.echo(json.dumps(asdict(metadata), indent=2))
    else:
        click.echo(
            f"{output}: {counts['ops']:,} ops, {counts['requests']:,} requests, {counts['sessions']:,} sessions,"
            f" {counts['tokens_generated']:,} tokens generated\nfingerprint {metadata.fingerprint}"
        )
    for left in leftovers(output):
        click.echo(f"Warning: {left} was left by a process that was killed; remove it.", err=True)
