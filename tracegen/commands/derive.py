"""The commands that make traces from traces: merge, slice and scale."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegen.commands.options import TRACE_PATH, ReportedTrace, add_output_flags, open_checked, report_trace
from tracegen.console.command_line import SECONDS
from tracegen.console.commands import command, option_group
from tracegen.errors import InputError

if TYPE_CHECKING:
    from tracegen.derive.derivation import Derivation
    from tracegen.derive.reshape import Range


@command(
    short_help="Merge traces, or all shards of one.",
    epilog="Example: tracegen merge monday.parquet tuesday.parquet -o both.parquet",
)
@click.argument("traces", nargs=-1, required=True, type=TRACE_PATH)
@add_output_flags
def merge(traces: tuple[Path, ...], output: ReportedTrace) -> None:
    """Merge TRACES on one clock: all shards of a trace, or whole traces, which share nothing."""
    from tracegen.derive.derivation import merge as merge_traces

    _write(merge_traces([open_checked(path) for path in traces]), output)


def _parse_range(_ctx: click.Context, param: click.Parameter, text: str | None) -> "Range | None":
    if text is None:
        return None
    parse = SECONDS.parse if param.name == "seconds" else float
    low, colon, high = text.partition(":")
    try:
        limits = float(parse(low or "0")), float(parse(high)) if high else math.inf
    except ValueError:
        limits = 0.0, 0.0
    if not colon or not 0 <= limits[0] < min(limits[1], 2.0**62):
        remedy = "write it like 60:120; either end may be left out"
        raise InputError("not of the form A:B with A below B and 2^62", remedy, subject=text, setting=param.name)
    return limits


@command(
    "slice",
    short_help="Select requests of a trace.",
    epilog="Example: tracegen slice trace.parquet --time 60:120 -o minute.parquet",
)
@click.argument("trace", type=TRACE_PATH)
@option_group(
    "Requests",
    "--time 60:120 --users 0:10",
    click.option(
        "--time",
        "seconds",
        metavar="A:B",
        callback=_parse_range,
        help="Requests that begin from A to B: 60:120, 1m:2m.",
    ),
    click.option("--users", metavar="A:B", callback=_parse_range, help="Users A to B - 1."),
    click.option("--sessions", metavar="A:B", callback=_parse_range, help="Sessions A to B - 1."),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="The first N requests."),
)
@add_output_flags
def slice_(
    trace: Path,
    seconds: "Range | None",
    users: "Range | None",
    sessions: "Range | None",
    requests: int | None,
    output: ReportedTrace,
) -> None:
    """Select the requests of TRACE that satisfy all flags, as a trace of their own.

    Requests stay whole; ids and time are counted from 0 again.
    """
    from tracegen.derive.reshape import SliceRanges, slice_trace

    ranges = SliceRanges(seconds, users, sessions, (0, requests) if requests else None)
    if ranges == SliceRanges():
        problem = "a slice of everything is the trace itself"
        raise InputError(problem, "pass `seconds`, `users`, `sessions` or `requests`")
    _write(slice_trace(open_checked(trace), ranges), output)


@command(
    short_help="Add users.",
    epilog="Example: tracegen scale trace.parquet --users 4 -o four_times.parquet",
)
@click.argument("trace", type=TRACE_PATH)
@click.option("--users", type=click.IntRange(1, 10**6), required=True, help="Copies of every user.")
@add_output_flags
def scale(trace: Path, users: int, output: ReportedTrace) -> None:
    """Repeat every user of TRACE with objects of their own; prompts, phrases and chunks stay shared."""
    from tracegen.derive.reshape import scale_trace

    _write(scale_trace(open_checked(trace), users), output)


def _write(derivation: "Derivation", output: ReportedTrace) -> None:
    from tracegen.trace.writing import TraceWriter

    metadata = derivation.metadata
    with TraceWriter(output.path, metadata, force=output.force, part_ops=output.part_ops) as writer:
        for batch in derivation.batches:
            writer.write(batch)
    report_trace(output, metadata)
