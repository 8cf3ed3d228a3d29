"""What flags, and the recipe that a trace carries, resolve to."""

import os
from typing import Any, cast

from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import PlanOptions
from replayer.planning.plan_settings import (
    UNLIMITED,
    PlanSettings,
    resolve_demand,
    resolve_plan,
    resolve_setting,
)
from replayer.run.settings import Settings, choose_request_bytes
from replayer.tiers.disk import BlockIO, uring_error
from tracegen.errors import InputError
from tracegen.schema import Trace

_FEW_OPS = 1000  # a warm-up of fewer was probably meant in seconds


def resolve(trace: Trace, flags: dict[str, Any], part: tuple[int, int] = (0, 1)) -> tuple[str, PlanOptions]:
    """Return the model's name and the plan's options that flags and the trace's recipe resolve to."""
    return resolve_plan(trace, cast("PlanSettings", flags), part)


def time_of(trace: Trace, flags: dict[str, Any]) -> tuple[float | None, float | None]:
    """How many seconds a replay starts new ops, and how many more it drains; None where nothing limits it.

    Raises:
        InputError: the recipe is not one.
    """
    given, drain = {"duration": None} | flags, flags.get("drain")
    duration_s = resolve_setting(trace, given, "duration", "duration_s")
    if drain is None and duration_s is not None:
        return duration_s, duration_s / 10
    return duration_s, None if drain == UNLIMITED else drain


def settings_of(trace: Trace, flags: dict[str, Any]) -> Settings:
    """How the plan is executed: flags first, then the recipe that the trace carries.

    Raises:
        InputError: the recipe is not one.
    """
    demand = resolve_demand(trace, cast("PlanSettings", flags))
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
    window_bytes = None if window_gib is None else int(window_gib * 2**30)
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
        window=PlanWindow.for_pace(demand.pace, flags["window"], window_bytes),
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
    size = flags["io_size"] or choose_request_bytes(workers, depth)
    return BlockIO(size, depth, flags["direct"], flags["fsync"], engine), notes
