"""What flags, and the recipe that a trace carries, resolve to."""

import os
from decimal import Decimal
from typing import Any

from replayer.flags.flag_types import UNLIMITED
from replayer.planning import model as models
from replayer.planning.order import Order, parse
from replayer.planning.pace import TOKEN_MS, Demand, Pace, Span, Window
from replayer.planning.plan import PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.run.opening import Settings, request_bytes
from replayer.tiers.disk import BlockIO, uring_error
from tracegen.errors import InputError
from tracegen.schema import Trace

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
_FEW_OPS = 1000  # a warm-up of fewer was probably meant in seconds


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
    name = flags["model"] if flags["model"] is not None else recipe.get("model")
    if name is None:
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
        arrangement=flags["arrangement"],
        promote=flags["promote"],
        lookup=flags["lookup"],
        selection=Selection(flags["decode"], flags["users"], part, flags["cycles"]),
        order=Order("live") if live else parse(flags["order"], demand.pace),
        demand=demand,
    )


def time_of(trace: Trace, flags: dict[str, Any]) -> tuple[float | None, float | None]:
    """How many seconds a replay starts new ops, and how many more it drains; None where nothing limits it.

    Raises:
        InputError: the recipe is not one.
    """
    given, drain = {"duration": None} | flags, flags.get("drain")
    duration_s = _given(trace, given, "duration", "duration_s")
    if drain is None and duration_s is not None:
        return duration_s, duration_s / 10
    return duration_s, None if drain == UNLIMITED else drain


def settings_of(trace: Trace, flags: dict[str, Any]) -> Settings:
    """How the plan is executed: flags first, then the recipe that the trace carries.

    Raises:
        InputError: the recipe is not one.
    """
    demand = demand_of(trace, flags)
    (duration_s, drain_s), (warmup_ops, warmup_s) = time_of(trace, flags), flags["warmup"]
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
    if 0 < warmup_ops < _FEW_OPS:
        notes += (f"--warmup {warmup_ops} means {warmup_ops} ops; write {warmup_ops}s for seconds.",)
    return Settings(
        workers=demand.workers,
        cache_dir=flags["cache_dir"],
        layout=flags["layout"],
        io=io,
        pace=demand.pace,
        verify=flags["verify"],
        window=Window.of(demand.pace, flags["window"], None if window_gib is None else int(window_gib * 2**30)),
        span=Span(duration_s, drain_s, flags["ops"], warmup_ops, warmup_s, flags["max_errors"]),
        allocs=demand.allocs,
        precondition_gib=flags["precondition"],
        gpu_device=flags["gpu_device"],
        gpu_read=flags["gpu_read"],
        gds=flags["gds"],
        throttles=dict(flags["throttle"]),
        reserve=flags["reserve"],
        make_cache_dir=flags["make_cache_dir"],
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
