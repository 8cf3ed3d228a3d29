"""The commands that exchange traces with other labs: import and export."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tracegen.commands.options import (
    TRACE_PATH,
    ReportedTrace,
    add_output_flags,
    open_checked,
    refuse_zeros,
    report_trace,
    warn,
)
from tracegen.console.answers import json_option
from tracegen.console.command_line import MILLISECONDS, SECONDS, Quantity
from tracegen.console.commands import Word, command, option_group
from tracegen.console.progress_bars import show_progress
from tracegen.errors import InputError, format_count
from tracegen.exchange.options import ImportOptions

if TYPE_CHECKING:
    from tracegen.trace.metadata import Metadata

_DEFAULTS: Final = ImportOptions()
_OF_RECIPES: Final = ("seed", "decode_reads", "decode_token_ms")  # flags that ShareGPT takes, too


def _list_imports() -> list[str]:
    from tracegen.formats import IMPORTS

    return sorted([*IMPORTS, "sharegpt"])


def _list_exports() -> list[str]:
    from tracegen.formats import EXPORTS

    return EXPORTS


_BLOCK_FLAGS: Final = (
    click.option(
        "--tail",
        type=Word(["partial", "full", "drop"]),
        default=_DEFAULTS.tail,
        show_default=True,
        help="Count a last, partial block with its tokens, as a full block, or not at all.",
    ),
    click.option(
        "--rechunk",
        type=int,
        default=0,
        metavar="N",
        help="Make blocks of N tokens, a multiple of the source's.",
    ),
    click.option(
        "--chain",
        is_flag=True,
        help="Ids name contents: distinguish blocks by what is before them.",
    ),
    click.option(
        "--shared-ids",
        is_flag=True,
        help="FILES are parts of one trace: their ids mean the same.",
    ),
    click.option(
        "--decode-reads/--no-decode-reads",
        default=None,
        help="Decoding reads its objects back.  [default: if a replay asks; not for blocks]",
    ),
    click.option(
        "--bytes-per-token",
        type=int,
        default=0,
        metavar="N",
        help="Bytes per token, for formats that count bytes.",
    ),
)
_TIME_FLAGS: Final = (
    click.option(
        "--sessions",
        type=Word(["guess", "none"]),
        default=_DEFAULTS.sessions,
        show_default=True,
        help="If a file of lengths names no sessions: guess which requests follow one another, or give each its own.",
    ),
    click.option(
        "--sample-sessions",
        type=float,
        default=1.0,
        metavar="FRACTION",
        help="Keep this share of sessions.",
    ),
    click.option(
        "--jitter",
        "jitter_s",
        type=Quantity(SECONDS),
        default=0,
        metavar="S",
        help="Move each session by up to S seconds, or 500ms, 2m.",
    ),
    click.option(
        "--max-idle-gap",
        "max_idle_gap_s",
        type=Quantity(SECONDS),
        default=0,
        metavar="S",
        help="Shorten sessions' pauses to S seconds, or 90s, 5m.",
    ),
    click.option("--speedup", type=float, default=1.0, metavar="X", help="Divide all times by X."),
    click.option(
        "--decode-token-ms",
        type=Quantity(MILLISECONDS),
        default=30.0,
        show_default=True,
        metavar="MS",
        help="Nominal time to generate a token.",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="Seed of all draws: jitter, sample, classes.",
    ),
)
_FILE_FLAGS: Final = (
    click.option(
        "--skip-bad",
        is_flag=True,
        help="Skip bad rows and count them, instead of refusing the file.",
    ),
    click.option(
        "--licence",
        default="not stated",
        show_default=True,
        help="Licence of the files, for the metadata.",
    ),
)


@command(
    "import",
    short_help="Convert another lab's trace.",
    epilog="Example: tracegen import mooncake conversations.jsonl --jitter 3 -o trace.parquet",
)
@click.argument("format_", metavar="FORMAT", type=Word(_list_imports))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@option_group("Blocks", "--rechunk 512 --chain", *_BLOCK_FLAGS)
@option_group("Sessions and times", "--sessions none --speedup 2", *_TIME_FLAGS)
@option_group("Files", "--skip-bad --licence CC-BY-4.0", *_FILE_FLAGS)
@add_output_flags
def import_(
    format_: str,
    files: tuple[Path, ...],
    licence: str,
    skip_bad: bool,
    output: ReportedTrace,
    **flags: Any,
) -> None:
    """Turn FILES of another lab's FORMAT into a trace: docs/formats.md says how.

    FORMAT is azure, bailian, burstgpt, kvcache-simulator, mlcommons, mooncake, sharegpt or weka.
    """
    from tracegen.exchange.convert import import_trace

    refuse_zeros("rechunk", "max_idle_gap_s", "bytes_per_token")
    options = ImportOptions(**flags)
    if format_ == "sharegpt":
        report_trace(output, _import_sharegpt(files, options, licence, output))
        return
    metadata = import_trace(format_, files, options, output, licence=licence, skip_bad=skip_bad, progress=show_progress)
    report_trace(output, metadata)
    if number := metadata.counts.get("requests_in_guessed_sessions"):
        warn(
            f"{files[0]} names no sessions; {number:,} requests were joined to earlier ones by guess,"
            " which invents their reuse; --sessions none does not"
        )
    for name, number in metadata.counts.items():
        if name.startswith("skipped: "):
            kind = name.removeprefix("skipped: ")
            warn(f"{format_count(number, 'bad row')} left out: {kind}")


def _import_sharegpt(
    files: tuple[Path, ...],
    options: ImportOptions,
    licence: str,
    output: ReportedTrace,
) -> "Metadata":
    """Generate the trace of a ShareGPT file with default settings: it has texts, but no times."""
    from tracegen.generate import generate
    from tracegen.recipes.loading import load_recipe

    remedy = "use `tracegen generate --sharegpt` and its flags"
    if len(files) > 1:
        raise InputError("sharegpt is imported one file at a time", remedy)
    for setting, value in vars(options).items():
        if value != getattr(_DEFAULTS, setting) and setting not in _OF_RECIPES:
            problem = f"sharegpt has neither blocks nor times, so `{setting}` cannot apply"
            raise InputError(problem, remedy)
    overrides: dict[str, object] = {"sharegpt.path": str(files[0]), "sharegpt.licence": licence}
    given = {name: getattr(options, name) for name in _OF_RECIPES}
    overrides |= {name: value for name, value in given.items() if value is not None}
    return generate(
        load_recipe(None, overrides),
        output.path,
        part_ops=output.part_ops,
        force=output.force,
        progress=show_progress,
    )


@command(
    short_help="Write a trace in another lab's format.",
    epilog="Example: tracegen export oracle-general trace.parquet --bytes-per-token 131072 -o trace.zst",
)
@click.argument("format_", metavar="FORMAT", type=Word(_list_exports))
@click.argument("trace", type=TRACE_PATH)
@click.option(
    "--bytes-per-token",
    type=int,
    default=0,
    metavar="N",
    help="Bytes per token, for formats that count bytes.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file; .zst compresses it.",
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@json_option("the counts of what was written")
def export(
    format_: str,
    trace: Path,
    bytes_per_token: int,
    output: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write TRACE in another lab's FORMAT: docs/formats.md says how.

    FORMAT is fio, kvcache-simulator, mlcommons, mooncake or oracle-general.
    """
    from tracegen.exchange.convert import export_trace
    from tracegen.formats.format import Export

    refuse_zeros("bytes_per_token")
    counts = export_trace(format_, Export(open_checked(trace), output, bytes_per_token, force))
    if as_json:
        click.echo(json.dumps(counts, indent=2))
        return
    totals = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
    click.echo(f"{output}: {totals}")
