"""The commands that take traces: from and to other labs' formats, and traces from traces."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from tracegen.commands.options import refuse_zeros, report, written
from tracegen.console.command_line import MILLISECONDS, SECONDS, Quantity
from tracegen.derive import combine
from tracegen.describe.diff import difference
from tracegen.errors import InputError, escape_controls
from tracegen.exchange import convert as exchange
from tracegen.exchange.options import ImportOptions
from tracegen.files.trace_writer import TraceWriter
from tracegen.formats.export import ExportOptions
from tracegen.generate import generate
from tracegen.recipe.loading import load_recipe
from tracegen.schema import Metadata, Trace

DEFAULTS = ImportOptions()
IMPORTS = sorted([*exchange.IMPORTS, "sharegpt"])


@click.command(
    "import",
    short_help="Another lab's trace becomes ours.",
    epilog="Example: tracegen import mooncake conversations.jsonl --jitter 3 -o trace.parquet",
)
@click.argument("format_", metavar="FORMAT", type=click.Choice(IMPORTS))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Of whatever is drawn: jitter, sample, classes.")
@click.option(
    "--jitter",
    "jitter_s",
    type=Quantity(SECONDS),
    default=0,
    metavar="S",
    help="Move each session by up to S seconds, or 500ms, 2m.",
)
@click.option(
    "--tail",
    type=click.Choice(["partial", "full", "drop"]),
    default=DEFAULTS.tail,
    show_default=True,
    help="A last, partial block counts with its tokens, as a full one, or not at all.",
)
@click.option("--rechunk", type=int, default=0, metavar="N", help="Blocks of N tokens, a multiple of the source's.")
@click.option("--chain", is_flag=True, help="Ids name contents: tell blocks apart by what is before them.")
@click.option("--shared-ids", is_flag=True, help="FILES are parts of one trace: their ids mean the same.")
@click.option(
    "--sessions",
    type=click.Choice(["guess", "none"]),
    default=DEFAULTS.sessions,
    show_default=True,
    help="Where a file of lengths names none: guess which requests follow one another, or give each its own.",
)
@click.option("--sample-sessions", type=float, default=1.0, metavar="FRACTION", help="Keep this share of sessions.")
@click.option(
    "--max-idle-gap",
    "max_idle_gap_s",
    type=Quantity(SECONDS),
    default=0,
    metavar="S",
    help="Shorten sessions' pauses to S seconds, or 90s, 5m.",
)
@click.option("--speedup", type=float, default=1.0, metavar="X", help="Divide all times by X.")
@click.option(
    "--decode-reads/--no-decode-reads", default=None, help="Decoding reads its objects back.  [default: not for blocks]"
)
@click.option(
    "--decode-token-ms",
    type=Quantity(MILLISECONDS),
    default=30.0,
    show_default=True,
    metavar="MS",
    help="Nominal pace of generation.",
)
@click.option("--bytes-per-token", type=int, default=0, metavar="N", help="For formats that count bytes.")
@click.option("--skip-bad", is_flag=True, help="Leave bad rows out and count them, instead of refusing the file.")
@click.option("--licence", default="not stated", show_default=True, help="Of the files; travels in the metadata.")
@written
def import_(format_: str, files: tuple[Path, ...], output: Path, as_json: bool, **flags: Any) -> None:
    """Turn FILES of another lab's FORMAT into a trace: docs/formats.md says how.

    FORMAT is azure, bailian, burstgpt, kvcache-simulator, mlcommons, mooncake, sharegpt or weka.
    """
    refuse_zeros("rechunk", "max_idle_gap_s", "bytes_per_token")
    writing = {name: flags.pop(name) for name in ("force", "part_ops")}
    licence, skip_bad = flags.pop("licence"), flags.pop("skip_bad")
    if format_ == "sharegpt":
        _import_sharegpt(files, output, licence, flags, writing, as_json)
        return
    where = exchange.Output(output, licence, skip_bad, **writing)
    metadata = exchange.import_trace(format_, files, ImportOptions(**flags), where)
    report(output, metadata, as_json)
    if number := metadata.counts.get("requests_in_guessed_sessions"):
        click.echo(
            f"Warning: {files[0]} names no sessions; {number:,} requests were joined to earlier ones by guess, which"
            " invents their reuse; --sessions none does not.",
            err=True,
        )
    for name, number in metadata.counts.items():
        if name.startswith("skipped: "):
            click.echo(f"Warning: {number:,} rows left out, {name.removeprefix('skipped: ')}.", err=True)


def _import_sharegpt(
    files: tuple[Path, ...], output: Path, licence: str, flags: dict[str, Any], writing: dict[str, Any], as_json: bool
) -> None:
    """ShareGPT knows texts only, and no times: what `generate` makes of it with default settings."""
    unlike = [name for name, value in flags.items() if value != getattr(DEFAULTS, name) and name not in _OF_RECIPES]
    if len(files) > 1 or unlike:
        what = f"--{unlike[0].removesuffix('_s').replace('_', '-')}" if unlike else "one file at a time"
        raise InputError(
            f"sharegpt has no blocks, no times ({what}); use `tracegen generate --sharegpt` and its flags."
        )
    settings = {"sharegpt.path": str(files[0]), "sharegpt.licence": licence}
    settings |= {name: flags[name] for name in _OF_RECIPES if flags[name] is not None}
    report(output, generate(load_recipe(None, settings), output, **writing), as_json)


_OF_RECIPES = ("seed", "decode_reads", "decode_token_ms")


@click.command(
    short_help="Write a trace in another lab's format.",
    epilog="Example: tracegen export oracle-general trace.parquet --bytes-per-token 131072 -o trace.zst",
)
@click.argument("format_", metavar="FORMAT", type=click.Choice(exchange.EXPORTS))
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--bytes-per-token", type=int, default=0, metavar="N", help="For formats that count bytes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file; .zst compresses.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export(format_: str, trace: Path, bytes_per_token: int, output: Path, force: bool, as_json: bool) -> None:
    """Write TRACE in another lab's FORMAT: docs/formats.md says how.

    FORMAT is fio, kvcache-simulator, mlcommons, mooncake or oracle-general.
    """
    refuse_zeros("bytes_per_token")
    if bytes_per_token and format_ not in exchange.COUNT_BYTES:
        raise InputError(f"{format_} counts tokens; leave out --bytes-per-token.")
    counts = exchange.export_trace(format_, _checked(trace), output, ExportOptions(bytes_per_token, force))
    text = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in counts.items())
    click.echo(json.dumps(counts, indent=2) if as_json else f"{output}: {text}")


@click.command(
    short_help="One trace of several, or of its parts.",
    epilog="Example: tracegen merge monday.parquet tuesday.parquet -o both.parquet",
)
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path))
@written
def merge(traces: tuple[Path, ...], output: Path, as_json: bool, **writing: Any) -> None:
    """One trace of several TRACES, on one clock: all parts that --shard made, or whole traces that share nothing."""
    _write(combine.merge([_checked(path) for path in traces]), output, as_json, writing)


def _range(_ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    number = SECONDS.parse if param.name == "seconds" else float
    low, colon, high = text.partition(":")
    try:
        limits = float(number(low or "0")), float(number(high)) if high else math.inf
    except ValueError:
        limits = 0.0, 0.0
    if not colon or not 0 <= limits[0] < min(limits[1], 2.0**62):
        raise InputError(f"{param.opts[0]} {text}: write it as A:B with A below B and 2^62, either may be left out.")
    return limits


@click.command(
    "slice",
    short_help="Some requests of a trace.",
    epilog="Example: tracegen slice trace.parquet --time 60:120 -o minute.parquet",
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option(
    "--time", "seconds", metavar="A:B", callback=_range, help="Requests that begin from A to B: 60:120, 1m:2m."
)
@click.option("--users", metavar="A:B", callback=_range, help="Users A to B - 1.")
@click.option("--sessions", metavar="A:B", callback=_range, help="Sessions A to B - 1.")
@click.option("--requests", type=click.IntRange(1), metavar="N", help="The first N requests.")
@written
def slice_(trace: Path, requests: int | None, output: Path, as_json: bool, **flags: Any) -> None:
    """The requests of TRACE that all flags select, as a trace of their own: whole requests, ids and time from 0."""
    writing = {name: flags.pop(name) for name in ("force", "part_ops")}
    if requests is None and not any(flags.values()):
        raise InputError("a slice of everything is the trace itself; give --time, --users, --sessions or --requests.")
    selection = combine.Selection(**flags, requests=(0, requests) if requests else None)
    _write(combine.slice_(_checked(trace), selection), output, as_json, writing)


@click.command(
    short_help="More users, another pace.",
    epilog="Example: tracegen scale trace.parquet --users 4 -o four_times.parquet",
)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--users", type=click.IntRange(1, 10**6), default=1, show_default=True, help="Copies of every user.")
@click.option("--time", default="1", show_default=True, help="Multiply all times by this, e.g. 0.5.")
@written
def scale(trace: Path, users: int, time: str, output: Path, as_json: bool, **writing: Any) -> None:
    """Every user of TRACE several times, with objects of their own; prompts, phrases and chunks stay shared."""
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9}|/0*[1-9]\d{0,8})?", time):
        raise InputError(f"--time {time[:40]} is no positive number of at most nine digits; give e.g. 0.5 or 1/3.")
    _write(combine.scale(_checked(trace), users, Fraction(time)), output, as_json, writing)


@click.command(short_help="Where two traces differ.", epilog="Example: tracegen diff a.parquet b.parquet")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Where two traces first differ, and what differs in aggregate; exits 1 if anything does."""
    found = difference(Trace(a), Trace(b))
    click.echo(json.dumps(found.facts, indent=2) if as_json else escape_controls(found.text))
    if not found.equal:
        raise click.exceptions.Exit(1)


def _checked(path: Path) -> Trace:
    trace = Trace(path)
    trace.check()
    return trace


def _write(made: tuple[Metadata, Any], output: Path, as_json: bool, writing: dict[str, Any]) -> None:
    metadata, batches = made
    with TraceWriter(output, metadata, **writing) as writer:
        for batch in batches:
            writer.write(batch)
    report(output, metadata, as_json)
