"""Code that the commands of tracegen share: their group, flags of writers, and what these print."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

import click

import tracegen
from tracegen.console.answers import json_option
from tracegen.console.command_line import MILLISECONDS, SECONDS, Commands, Quantity, Unit
from tracegen.console.commands import Decorator, Word, option_group
from tracegen.outputs import TraceOutput, remove_unfinished

if TYPE_CHECKING:
    from tracegen.trace.metadata import Metadata
    from tracegen.trace.reading import Trace

TRACE_PATH: Final = click.Path(path_type=Path)
# The unit of a setting, by the end of its name
_UNITS: Final[Mapping[str, Unit]] = {"s": SECONDS, "ms": MILLISECONDS}


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
        "-o", "--output", type=click.Path(path_type=Path), required=True, help="The trace (Parquet) to write."
    ),
    click.option(
        "--part-ops",
        type=click.IntRange(0),
        default=0,
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


def setting_flags(defaults: object, helps: Mapping[str, str]) -> list[Decorator]:
    """Make the flags of settings, None if they are not given, from their types and defaults.

    `helps` has the help of each setting, by its name, dotted in tables, perhaps with its flag: `path --sharegpt`.
    """
    return [_make_flag(defaults, *name.split(" "), text=text) for name, text in helps.items()]


def _make_flag(defaults: object, name: str, flag: str = "", *, text: str) -> Decorator:
    *tables, last = name.split(".")
    for table in tables:
        defaults = getattr(defaults, table)
    default = getattr(defaults, last)
    kind = get_type_hints(type(defaults))[last]
    flag = flag or "--" + last.removesuffix("_s").replace("_", "-")
    attributes: dict[str, Any] = {"type": kind}
    if kind is bool and not default:
        attributes = {"is_flag": True}
    elif bool in (kind, *get_args(kind)):
        flag, attributes = f"{flag}/--no-{flag[2:]}", {}
    elif get_origin(kind) is Literal:
        attributes = {"type": Word(get_args(kind))}
    elif unit := _UNITS.get(last.rpartition("_")[2]):
        attributes = {"type": Quantity(unit), "metavar": unit.name.upper()}
    elif kind is int:
        attributes["metavar"] = "N"
    if default and not isinstance(default, bool):
        text += f"  [default: {default}]"
    return click.option(flag, name.replace(".", "__"), default=None, help=text, **attributes)


def drop_missing(flags: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings that flags give, by their dotted names."""
    return {name.replace("__", "."): value for name, value in flags.items() if value is not None}


def open_checked(path: Path) -> "Trace":
    """Open a trace; refuse one that breaks a rule of the format."""
    trace = tracegen.read(path)
    trace.check()
    return trace


def report_trace(output: ReportedTrace, metadata: "Metadata") -> None:
    """Print the metadata of the trace written, or a summary."""
    counts = metadata.counts
    if output.as_json:
        click.echo(json.dumps(asdict(metadata), indent=2))
    else:
        totals = (
            f"{counts['ops']:,} ops, {counts['requests']:,} requests,"
            f" {counts['sessions']:,} sessions, {counts['tokens_generated']:,} tokens generated"
        )
        click.echo(f"{output.path}: {totals}\nfingerprint {metadata.fingerprint}")


def warn(text: str) -> None:
    """Print a warning; `text` is a sentence without its full stop."""
    click.echo(f"Warning: {text}.", err=True)
