"""The flags that decide a plan: of `replayer plan`, and of every command that replays."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import click

from replayer.flags.flag_types import (
    EXACT_GIB,
    DecimalNumber,
    RequestDepth,
    UnlimitedOr,
    WholeNumber,
)
from replayer.models.geometry import DTYPE_BYTES
from replayer.models.known import MODELS
from replayer.planning.pace import TOKEN_MS
from replayer.record.options import DECODE_WORDS, POLICIES, Lookup, PaceKind
from tracegen.console.command_line import MILLISECONDS, SECONDS, Quantity

_TOKEN_TIMES: Final = ", ".join(f"{name} {milliseconds:g} ms" for name, milliseconds in TOKEN_MS.items())

PLAN_OPTIONS: Final = (
    click.argument("trace", type=click.Path(path_type=Path)),
    click.option(
        "--model",
        metavar="NAME|FILE",
        help="Model whose KV cache is replayed: a Hugging Face config.json, or one of"
        f" {', '.join(MODELS)}; vendors' spellings work, too.  [default: the trace's]",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(list(DTYPE_BYTES)),
        default="fp16",
        show_default=True,
        help="Data type of keys and values.",
    ),
    click.option(
        "--tensor-parallel",
        type=int,
        default=1,
        show_default=True,
        metavar="N",
        help="GPUs that share the KV heads; the replay moves the bytes of one of them.",
    ),
    click.option(
        "--pipeline-parallel",
        type=int,
        default=1,
        show_default=True,
        metavar="N",
        help="Stages that share the layers; the replay moves the bytes of the largest.",
    ),
    click.option(
        "--gpu-mem-gb",
        type=EXACT_GIB,
        metavar="GIB",
        help="GPU memory for KV: GiB, or 512M, 4G. 0: no gpu tier.  [default: the trace's, else 0]",
    ),
    click.option(
        "--cpu-mem-gb",
        "--cpu-memory-gb",
        type=EXACT_GIB,
        metavar="GIB",
        help="CPU memory for KV: GiB, or 512M, 4G. 0: no cpu tier.  [default: the trace's, else 0]",
    ),
    click.option(
        "--storage-capacity-gb",
        type=UnlimitedOr(EXACT_GIB),
        metavar="GIB|unlimited",
        help="NVMe capacity for KV: GiB, or 500G, 1T, 2TB (powers of 1,000). 0: no nvme tier."
        "  [default: the trace's, else unlimited]",
    ),
    click.option(
        "--headroom",
        type=DecimalNumber(),
        default="0.8",
        show_default=True,
        metavar="SHARE",
        help="Share of --gpu-mem-gb and --cpu-mem-gb that the plan may fill; the rest holds"
        " objects in transit. NVMe is filled completely.",
    ),
    click.option(
        "--arrangement",
        metavar="NAME|FILE",
        help="Rules by which objects enter, move through and leave the tiers: a name that `replayer"
        " arrangements` lists, or a TOML file.  [default: waterfall]",
    ),
    click.option(
        "--engine",
        metavar="NAME",
        help="Rules of a serving engine, such as vllm or lmcache, instead of --arrangement.",
    ),
    click.option(
        "--policy",
        metavar="NAME|TIER=NAME,…",
        help="Which object is evicted first, in all tiers or by tier, as in gpu=lru,cpu=s3fifo:"
        f" {', '.join(POLICIES)}.  [default: the arrangement's]",
    ),
    click.option(
        "--ttl",
        type=Quantity(SECONDS),
        metavar="S",
        help="Let objects expire so long after their last use, in seconds or with a unit: 90s, 1h."
        " 0: never.  [default: the arrangement's]",
    ),
    click.option(
        "--chunk-tokens",
        type=WholeNumber(0),
        metavar="N",
        help="Store prompts in chunks of N tokens; 0: as in the trace.  [default: the arrangement's]",
    ),
    click.option(
        "--promote",
        is_flag=True,
        help="Move each object that is read to the fastest tier that can hold it; not with rules under"
        " which several tiers may hold an object.",
    ),
    click.option(
        "--lookup",
        type=click.Choice(get_args(Lookup)),
        help="How reads are looked up. independent: each object by itself. contiguous: a request's"
        " prefix ends at its first miss.  [default: the arrangement's, else the trace's]",
    ),
    click.option(
        "--decode",
        type=click.Choice(list(DECODE_WORDS)),
        help="Reads of a request's own KV while it decodes. reread: all, as kv-cache.py does. once:"
        " each request's first. none: engines keep it in GPU memory.  [default: the trace's, else none]",
    ),
    click.option(
        "--users",
        "--num-users",
        type=WholeNumber(1),
        metavar="N",
        help="Only the trace's first N users.  [default: all]",
    ),
    click.option(
        "--cycles",
        type=WholeNumber(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Replay the trace N times in a row, each time with new keys.",
    ),
    click.option(
        "--order",
        metavar="trace|reference[:NAME|FILE]|RUN",
        help="Sequence in which the plan takes requests. trace: the trace's. reference: that in"
        " which users would make them on a reference system under this load. RUN: an earlier run's."
        "  [default: reference; trace if pace is open and requests take no time]",
    ),
    click.option(
        "--workers",
        type=WholeNumber(1, 10_000),
        metavar="N",
        help="Moves in flight at most.  [default: the number of users replayed, at most 500]",
    ),
    click.option(
        "--max-concurrent-allocs",
        type=UnlimitedOr(WholeNumber(0)),
        metavar="N|unlimited",
        help="Stores in flight at most; 0: unlimited.  [default: the trace's, else unlimited]",
    ),
    click.option(
        "--pace",
        type=click.Choice(get_args(PaceKind)),
        help="When requests start. asap: at once. closed: a user's next one after the previous one"
        " and its think time. open: at the trace's times.  [default: the trace's, else closed]",
    ),
    click.option(
        "--speedup",
        type=float,
        default=1,
        show_default=True,
        metavar="FACTOR",
        help="Divide the trace's times and pauses by this.",
    ),
    click.option(
        "--generation-mode",
        type=click.Choice(list(TOKEN_MS)),
        help=f"Time to generate a token: {_TOKEN_TIMES}.  [default: the trace's, else none]",
    ),
    click.option(
        "--token-ms",
        type=Quantity(MILLISECONDS),
        metavar="MS",
        help="Time to generate a token: milliseconds, or 2s, 500us; overrides --generation-mode.",
    ),
    click.option(
        "--prefill-tok-s",
        type=float,
        metavar="RATE",
        help="Tokens per second at which new or missed KV is computed.  [default: at once]",
    ),
    click.option(
        "--request-depth",
        type=RequestDepth(),
        metavar="N|all",
        help="Ops of one step of a request in flight at most.  [default: 1; all for block traces]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add TRACE, the flags that decide a plan, and --json to a command."""
    return add_options(PLAN_OPTIONS, command)


def add_options(options: Sequence[Callable[..., Any]], command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options to a command, in their order."""
    for option in reversed(options):
        command = option(command)
    return command
