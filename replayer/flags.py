"""The flags of replayer, and what they and the recipe that a trace carries resolve to."""

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from replayer import model as models
from replayer.flag_types import UNLIMITED, Count, Depth, Number, OrUnlimited, Size, Slower, Warmup
from replayer.opening import Settings, request_bytes
from replayer.order import Order, parse
from replayer.pace import TOKEN_MS, Demand, Pace, Span, Window
from replayer.plan import PlanOptions
from replayer.selection import Selection
from replayer.tiers.nvme import BlockIO, uring_error
from tracegen.schema import InputError, Trace

PLAN_FLAGS = (
    click.argument("trace", type=click.Path(path_type=Path)),
    click.option(
        "--model",
        metavar="NAME|FILE",
        help=f"A Hugging Face config.json, or one of {', '.join(models.MODELS)}.  [default: the trace's]",
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
        type=Number(),
        metavar="GIB",
        help="GPU memory for KV, 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--cpu-mem-gb",
        "--cpu-memory-gb",
        type=Number(),
        metavar="GIB",
        help="Host memory for KV, 0: no such tier.  [default: the trace's]",
    ),
    click.option(
        "--storage-capacity-gb",
        type=OrUnlimited(Number()),
        metavar="GIB|unlimited",
        help="Room on NVMe, 0: no such tier.  [default: the trace's, else unlimited]",
    ),
    click.option("--headroom", type=Number(), default="0.8", show_default=True, help="Usable share of gpu and cpu."),
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
    click.option("--token-ms", type=float, help="Generation of a token takes so long, whatever the mode."),
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
    click.option(
        "--duration",
        type=OrUnlimited(click.FLOAT),
        metavar="S|unlimited",
        help="Start nothing new after so many seconds.  [default: the trace's, else its end]",
    ),
    click.option(
        "--drain",
        type=OrUnlimited(click.FLOAT),
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
        metavar="OPS|SECONDSs",
        help="Executed, but left out of metrics: 5000, or 30s.",
    ),
    click.option(
        "--precondition", type=float, default=0, metavar="GIB", help="Write so much to the nvme tier before the run."
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
        help="Slow a tier down to this bandwidth and latency.",
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
        type=OrUnlimited(Number()),
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


_KINDS: dict[str, Any] = {
    "model": str | None,
    "gpu_mem_gb": int | float | None,
    "cpu_mem_gb": int | float | None,
    "storage_capacity_gb": int | float | None,
    "pace": str | None,
    "generation_mode": str | None,
    "max_concurrent_allocs": int | None,
    "duration_s": int | float | None,
}
"""What the recipe that a trace carries may say of a replay."""


_COUNTS = ("duration_s",)  # 0 is none


def _recipe(trace: Trace) -> dict[str, Any]:
    recipe = trace.metadata.recipe.get("replay") or {}
    for key, kind in _KINDS.items():
        value = recipe.get(key) if isinstance(recipe, dict) else ...
        sane = isinstance(value, kind) and not isinstance(value, bool)
        if not sane or (isinstance(value, int | float) and not 0 <= value < 1e15) or (key in _COUNTS and value == 0):
            flag = f"--{key.removesuffix('_s').replace('_', '-')}"
            raise InputError(
                f"{trace.path}: replay.{key} of its recipe is not what {flag} takes; write the trace anew."
            )
    return recipe


def _given(trace: Trace, flags: dict[str, Any], flag: str, key: str) -> Any:
    """A flag, else what the recipe that the trace carries says; None for unlimited."""
    value = flags[flag] if flags[flag] is not None else _recipe(trace).get(key)
    return None if value == UNLIMITED else value


def demand_of(trace: Trace, flags: dict[str, Any]) -> Demand:
    """The load that a replay puts on its tiers: flags first, then the recipe that the trace carries.

    Raises:
        InputError: the recipe is not one.
    """
    pace: Any = _given(trace, flags, "pace", "pace") or "closed"
    mode = _given(trace, flags, "generation_mode", "generation_mode") or "none"
    if mode not in TOKEN_MS or pace not in ("asap", "closed", "open"):
        raise InputError(f"{trace.path}: its recipe asks for pace {pace!r}, generation_mode {mode!r}; pass flags.")
    users, depth = int(trace.metadata.counts.get("users") or 1), flags["request_depth"]
    found = Demand(
        Pace(
            kind=pace,
            speedup=flags["speedup"],
            token_ms=TOKEN_MS[mode] if flags["token_ms"] is None else flags["token_ms"],
            prefill_tok_s=flags["prefill_tok_s"],
            request_depth=depth or (None if depth == 0 or trace.metadata.prefix_chained else 1),
        ),
        workers=flags["workers"] or min(users, flags["users"] or users, 500),
        allocs=_given(trace, flags, "max_concurrent_allocs", "max_concurrent_allocs") or None,
    )
    found.pace.check()
    return found


def resolve(trace: Trace, flags: dict[str, Any], part: tuple[int, int] = (0, 1)) -> tuple[str, PlanOptions]:
    """The model's name and the plan's options: flags first, then the recipe that the trace carries.

    Raises:
        InputError: no model is named, or it is none, or the recipe is not one.
    """
    recipe, demand = _recipe(trace), demand_of(trace, flags)
    name = flags["model"] or recipe.get("model")
    if not name:
        raise InputError(f"{trace.path} names no model; pass --model, one of {', '.join(models.MODELS)}.")
    model = models.find(name)

    def gib(flag: str) -> Decimal | None:
        given = _given(trace, flags, flag, flag)
        return None if given is None else Decimal(str(given))

    live = flags.get("placement") == "live"
    if live and flags["order"] is not None:
        raise InputError("--placement live has an order of its own; leave --order out.")
    return model.name, PlanOptions(
        bytes_per_token=model.sizes(flags["kv_dtype"], flags["tensor_parallel"]),
        capacity_gib=(gib("gpu_mem_gb") or Decimal(0), gib("cpu_mem_gb") or Decimal(0), gib("storage_capacity_gb")),
        headroom=flags["headroom"],
        promote=flags["promote"],
        lookup=flags["lookup"],
        selection=Selection(flags["decode"], flags["users"], part, flags["cycles"]),
        order=Order("live") if live else parse(flags["order"], demand.pace),
        demand=demand,
    )


def settings_of(trace: Trace, flags: dict[str, Any]) -> Settings:
    """How the plan is executed: flags first, then the recipe that the trace carries.

    Raises:
        InputError: the recipe is not one.
    """
    demand = demand_of(trace, flags)
    duration_s, (warmup_ops, warmup_s) = _given(trace, flags, "duration", "duration_s"), flags["warmup"]
    drain_s = None if flags["drain"] == UNLIMITED else flags["drain"]
    if drain_s is None and flags["drain"] is None and duration_s is not None:
        drain_s = duration_s / 10
    for flag, value in (("--duration", duration_s), ("--precondition", flags["precondition"] or None)):
        if value is not None and not 0 < value < 1e9:
            raise InputError(f"{flag} {value:g} must be more than 0 and below 1e9.")
    if drain_s is not None and not 0 <= drain_s < 1e9:
        raise InputError(f"--drain {drain_s:g} must be 0 or more, and below 1e9.")
    if flags["drain"] is not None and duration_s is None:
        raise InputError("--drain is of what --duration cuts off; pass --duration too.")
    window_gib = None if flags["window_gb"] == UNLIMITED else flags["window_gb"]
    if window_gib is not None and not window_gib > 0:
        raise InputError(f"--window-gb {window_gib} must be more than 0.")
    io, notes = _block_io(flags, demand.workers)
    return Settings(
        workers=demand.workers,
        cache_dir=flags["cache_dir"],
        layout=flags["layout"],
        io=io,
        pace=demand.pace,
        verify=flags["verify"],
        window=Window(
            flags["window"] or (4096 if demand.pace.kind == "asap" else 65536),
            None if window_gib is None else int(window_gib * 2**30),
        ),
        span=Span(duration_s, drain_s, flags["ops"], warmup_ops, warmup_s, flags["max_errors"]),
        allocs=demand.allocs,
        precondition_gib=flags["precondition"],
        gpu_device=flags["gpu_device"],
        gpu_read=flags["gpu_read"],
        gds=flags["gds"],
        throttles=dict(flags["throttle"]),
        keep_cache=flags["keep_cache"],
        clean=flags["clean"],
        force=flags["force"],
        notes=notes,
    )


def _block_io(flags: dict[str, Any], workers: int) -> tuple[BlockIO, tuple[str, ...]]:
    """How requests are made, and what of the flags cannot be had here."""
    depth, engine = flags["io_depth"], flags["io_engine"]
    notes: tuple[str, ...] = ()
    if engine == "psync" and depth > 1:
        raise InputError(f"--io-depth {depth} needs --io-engine uring: psync makes one request at a time.")
    if engine == "auto":
        engine = "uring" if depth > 1 else "psync"
    if engine == "uring" and (error := uring_error()):
        notes = (f"this machine refuses io_uring ({os.strerror(error)}): requests are made by psync, one at a time.",)
        depth, engine = 1, "psync"
    size = flags["io_size"] or request_bytes(workers, depth)
    return BlockIO(size, depth, flags["direct"], flags["fsync"], engine), notes
