"""The flags of `replayer plan` and `replayer run`."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from replayer.flags.flag_types import Count, Depth, Left, Number, OrUnlimited, Size, Slower, Warmup
from replayer.planning import model as models
from replayer.planning.pace import TOKEN_MS
from tracegen.console.command_line import GIB, MILLISECONDS, SECONDS, Quantity

EXACT_GIB = Quantity(GIB, Decimal)
PLAN_FLAGS = (
    click.argument("trace", type=click.Path(path_type=Path)),
    click.option(
        "--model",
        metavar="NAME|FILE",
        help=f"A Hugging Face config.json, or one of {', '.join(models.MODELS)}; as vendors spell them, too."
        "  [default: the trace's]",
    ),
    click.option(
        "--kv-dtype",
        type=click.Choice(list(models.DTYPE_BYTES)),
        default="fp16",
        show_default=True,
        help="Of keys and values.",
    ),
    click.option("--tensor-parallel", type=int, default=1, show_default=True, help="Ranks that share the KV heads."),
    click.option(
        "--gpu-mem-gb",
        type=EXACT_GIB,
        metavar="GIB",
        help="GPU memory for KV in GiB, or 512M, 4G, 1T; 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--cpu-mem-gb",
        "--cpu-memory-gb",
        type=EXACT_GIB,
        metavar="GIB",
        help="Host memory for KV in GiB, or 512M, 4G, 1T; 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--storage-capacity-gb",
        type=OrUnlimited(EXACT_GIB),
        metavar="GIB|unlimited",
        help="Room on NVMe in GiB, or 500G, 1T, 2TB (of 1,000s); 0: no such tier.  [default: the trace's, else"
        " unlimited]",
    ),
    click.option(
        "--headroom",
        type=Number(),
        default="0.8",
        show_default=True,
        help="Share of --gpu-mem-gb and --cpu-mem-gb that the plan fills; the rest is for objects on their way in or"
        " out. NVMe is filled whole.",
    ),
    click.option(
        "--arrangement",
        type=click.Choice(["waterfall", "spillover"]),
        default="waterfall",
        show_default=True,
        help="waterfall: the fastest tier takes new objects and demotes old ones. spillover: the fastest tier with room"
        " takes them and nothing moves down.",
    ),
    click.option("--promote", is_flag=True, help="Move an object that is read to the fastest tier that can hold it."),
    click.option(
        "--lookup",
        type=click.Choice(["independent", "contiguous"]),
        help="Whether a miss ends a request's prefix.  [default: the trace's]",
    ),
    click.option(
        "--decode",
        type=click.Choice(["reread", "once", "none"]),
        default="reread",
        show_default=True,
        help="Decode reads: all, each request's first, none.",
    ),
    click.option("--users", "--num-users", type=Count(1), help="Only the trace's first so many users."),
    click.option(
        "--cycles",
        type=Count(1),
        default=1,
        show_default=True,
        help="The trace so many times over, with new keys each time.",
    ),
    click.option(
        "--order",
        metavar="trace|reference[:NAME|FILE]|RUN",
        help="In which order ops are planned: the trace's; that in which users would ask on a reference system under"
        " this load; an earlier run's.  [default: reference; trace where pace is open and requests take no time]",
    ),
    click.option(
        "--workers", type=Count(1, 10_000), help="Moves in flight.  [default: the users replayed, at most 500]"
    ),
    click.option(
        "--max-concurrent-allocs",
        type=OrUnlimited(Count(0)),
        metavar="N|unlimited",
        help="Stores in flight; 0 is unlimited.  [default: the trace's, else unlimited]",
    ),
    click.option(
        "--pace",
        type=click.Choice(["asap", "closed", "open"]),
        help="When requests start: at once; each user's when the last is done and thought over; at the trace's times."
        "  [default: the trace's, else closed]",
    ),
    click.option("--speedup", type=float, default=1, show_default=True, help="Divides the trace's times and pauses."),
    click.option(
        "--generation-mode",
        type=click.Choice(list(TOKEN_MS)),
        help=f"{', '.join(f'{name} {ms:g}' for name, ms in TOKEN_MS.items())} ms per token."
        "  [default: the trace's, else none]",
    ),
    click.option(
        "--token-ms",
        type=Quantity(MILLISECONDS),
        metavar="MS",
        help="Generation of a token takes so long, whatever the mode.",
    ),
    click.option(
        "--prefill-tok-s", type=float, help="KV that is new or gone is computed at this rate.  [default: at once]"
    ),
    click.option(
        "--request-depth",
        type=Depth(),
        metavar="N|all",
        help="Ops of one step at once.  [default: 1; all for block traces]",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON."),
)


RUN_FLAGS = (
    click.option("--cache-dir", type=click.Path(path_type=Path), help="Where the nvme tier keeps its files."),
    click.option("--make-cache-dir", is_flag=True, help="Make --cache-dir where it does not exist."),
    click.option(
        "--reserve",
        type=Left(),
        default="5%",
        show_default=True,
        metavar="GIB|SHARE%",
        help="New objects leave so much of --cache-dir's file system free; 0: they may fill it.",
    ),
    click.option(
        "--duration",
        type=OrUnlimited(Quantity(SECONDS)),
        metavar="S|unlimited",
        help="Start nothing new after so many seconds, or 90s, 5m, 1h.  [default: the trace's, else its end]",
    ),
    click.option(
        "--drain",
        type=OrUnlimited(Quantity(SECONDS)),
        metavar="S|unlimited",
        help="What --duration cut off may take so many seconds to end.  [default: a tenth of the duration]",
    ),
    click.option("--ops", type=Count(1), help="Only the plan's first so many ops: the same work on every system."),
    click.option(
        "--placement",
        type=click.Choice(["planned", "live"]),
        default="planned",
        show_default=True,
        help="live: what lies where is decided when an op is dispatched; --order RUN repeats it.",
    ),
    click.option(
        "--warmup",
        type=Warmup(),
        default=(0, 0.0),
        metavar="TIME|OPS",
        help="Executed, but left out of metrics: a time with its unit, as 30s or 5m; a bare number is of ops.",
    ),
    click.option(
        "--precondition",
        type=Quantity(GIB),
        default=0,
        metavar="GIB",
        help="Write so much to the nvme tier before the run: GiB, or 100G, 1T.",
    ),
    click.option(
        "--verify",
        type=click.Choice(["off", "stamps", "full"]),
        default="stamps",
        show_default=True,
        help="Of what is read: nothing, each sector's stamp, each byte.",
    ),
    click.option(
        "--layout",
        type=click.Choice(["files", "slab", "null"]),
        default="files",
        show_default=True,
        help="Of the nvme tier: a file per object; extents in few large files; nothing, to time the replayer.",
    ),
    click.option(
        "--io-size",
        type=Size(),
        help="Larger objects are read and written in such requests.  [default: 1M; less for many workers]",
    ),
    click.option(
        "--io-depth", type=Count(1, 64), default=1, show_default=True, help="Requests of one object in flight."
    ),
    click.option(
        "--io-engine",
        type=click.Choice(["auto", "psync", "uring"]),
        default="auto",
        show_default=True,
        help="auto: io_uring where --io-depth is more than 1.",
    ),
    click.option(
        "--direct",
        type=click.Choice(["on", "off", "auto"]),
        default="auto",
        show_default=True,
        help="O_DIRECT: required, not used, where it works.",
    ),
    click.option(
        "--fsync",
        type=click.Choice(["none", "data"]),
        default="none",
        show_default=True,
        help="data: a write ends when it is on the device.",
    ),
    click.option(
        "--throttle",
        type=Slower(),
        multiple=True,
        metavar="TIER=MIB_PER_S[,US]",
        help="Slow a tier down to this bandwidth and latency: nvme=470,80; nvme=2GB/s,100us; nvme=r7000/w4000, reads"
        " and writes apart.",
    ),
    click.option(
        "--gpu-device", default="cuda", show_default=True, help="As PyTorch names it; cpu emulates one, for tests."
    ),
    click.option(
        "--gpu-read",
        type=click.Choice(["host", "device"]),
        default="host",
        show_default=True,
        help="Where reads from the gpu tier go.",
    ),
    click.option("--gds", is_flag=True, help="GPUDirect Storage between the nvme tier's files and the gpu's memory."),
    click.option("--max-errors", type=Count(0), default=100, show_default=True, help="More failed moves end the run."),
    click.option(
        "--window",
        type=Count(1),
        help="Ops planned ahead of the lowest unfinished.  [default: 4096; 65536 if paced]",
    ),
    click.option(
        "--window-gb",
        type=OrUnlimited(EXACT_GIB),
        default="unlimited",
        show_default=True,
        metavar="GIB|unlimited",
        help="Bytes to be written, to any tier, ahead of it.",
    ),
    click.option("--keep-cache", is_flag=True, help="Leave the run's cache files."),
    click.option("--clean", is_flag=True, help="Remove what killed runs left in --cache-dir."),
    click.option("--force", is_flag=True, help="Replace a run directory."),
)


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decide a plan."""
    return _with(PLAN_FLAGS, command)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that decide how a plan is executed."""
    return _with(RUN_FLAGS, command)


def _with(flags: tuple[Any, ...], command: Callable[..., Any]) -> Callable[..., Any]:
    for flag in reversed(flags):
        command = flag(command)
    return command
