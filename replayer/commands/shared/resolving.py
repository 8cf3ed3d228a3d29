"""Resolution of flags to a run's settings.

A flag comes first, then the recipe that the trace carries, then the default.
"""

import os
from dataclasses import replace
from decimal import Decimal
from typing import Final, cast

from replayer.flags.run_flags import LoadFlags, RunFlags, TierFlags
from replayer.planning.pace import Pace, PlanWindow, Span
from replayer.planning.plan_settings import UNLIMITED, resolve_demand, resolve_setting
from replayer.prediction.profile import Profile
from replayer.record.options import DurationOrigin
from replayer.run.predicted import assume_settings
from replayer.run.settings import Settings, choose_request_bytes
from replayer.tiers.disk import BlockIO, uring_error
from tracegen.errors import InputError
from tracegen.schema import Trace

_FEW_OPS: Final = 1000
"""A warm-up of fewer ops was probably meant in seconds."""


def resolve_time(
    trace: Trace, duration: float | Decimal | None = None, drain: float | Decimal | None = None
) -> tuple[float | None, float | None]:
    """Return the seconds in which a run starts ops, and in which it drains; None: no limit.

    Args:
        trace: its recipe may set the duration.
        duration: seconds, or UNLIMITED; None: what the recipe says.
        drain: seconds, or UNLIMITED; None: a tenth of the duration.

    Raises:
        InputError: a value of the recipe is not valid.
    """
    duration_s = _finite_or_none(resolve_setting(trace, {"duration": duration}, "duration", "duration_s"))
    if drain is None and duration_s is not None:
        return duration_s, duration_s / 10
    return duration_s, _finite_or_none(drain)


def _finite_or_none(value: float | Decimal | None) -> float | None:
    return None if value is None or value == UNLIMITED else cast("float", value)


def resolve_settings(trace: Trace, flags: RunFlags) -> Settings:
    """Return how the plan is executed.

    Raises:
        InputError: a flag or a value of the trace's recipe is not valid.
    """
    demand = resolve_demand(trace, flags.plan)
    io, notes = resolve_io(flags, demand.workers)
    span = _resolve_span(trace, flags)
    _check_positive("precondition", flags.precondition or None)
    return Settings(
        workers=demand.workers,
        cache_dir=flags.cache_dir,
        layout=flags.layout,
        io=io,
        pace=demand.pace,
        verify=flags.verify,
        window=_resolve_window(flags, demand.pace),
        span=replace(span, max_errors=flags.max_errors),
        allocs=demand.allocs,
        precondition_gib=flags.precondition,
        gpu_device=flags.gpu_device,
        gpu_read=flags.gpu_read,
        gds=flags.gds,
        throttles=dict(flags.throttle),
        reserve=flags.reserve,
        make_cache_dir=flags.make_cache_dir,
        keep_cache=flags.keep_cache,
        clean=flags.clean,
        force=flags.force,
        notes=notes + _note_warmup(flags),
    )


def resolve_prediction(trace: Trace, flags: LoadFlags, profile: Profile) -> Settings:
    """Return how the plan is executed on the system of a profile.

    Raises:
        InputError: a flag or a value of the trace's recipe is not valid.
    """
    demand = resolve_demand(trace, flags.plan)
    settings = assume_settings(
        profile,
        demand,
        _resolve_span(trace, flags),
        _resolve_window(flags, demand.pace),
    )
    return replace(settings, force=flags.force, notes=_note_warmup(flags))


def _note_warmup(flags: LoadFlags) -> tuple[str, ...]:
    """Return a note if a warm-up of ops was probably meant in seconds."""
    ops, *_ = flags.warmup
    if not 0 < ops < _FEW_OPS:
        return ()
    return (f"--warmup {ops} means {ops} ops; write {ops}s for seconds.",)


def _check_positive(setting: str, value: float | None) -> None:
    if value is not None and not 0 < value < 1e9:
        raise InputError("must be more than 0 and below 1e9", setting=setting, subject=f"{value:g}")


def _resolve_span(trace: Trace, flags: LoadFlags) -> Span:
    """Return how much of the plan is executed, and what of it is warm-up."""
    duration_s, drain_s = resolve_time(trace, flags.duration, flags.drain)
    _check_positive("duration", duration_s)
    if drain_s is not None and not 0 <= drain_s < 1e9:
        raise InputError("must be 0 or more, and below 1e9", setting="drain", subject=f"{drain_s:g}")
    if flags.drain is not None and duration_s is None:
        raise InputError("there is no `duration` after which to drain", "pass `duration`, too", setting="drain")
    origin: DurationOrigin = "recipe" if flags.duration is None else "user"
    return Span(duration_s, drain_s, flags.ops, *flags.warmup, duration_by=origin)


def _resolve_window(flags: LoadFlags, pace: Pace) -> PlanWindow:
    """Return how far the plan runs ahead of the lowest unfinished op."""
    gib = None if flags.window_gb == UNLIMITED else flags.window_gb
    if gib is not None and not gib > 0:
        raise InputError("must be more than 0", setting="window_gb", subject=gib)
    return PlanWindow.for_pace(pace, flags.window, None if gib is None else int(gib * 2**30))


def resolve_io(flags: TierFlags, workers: int) -> tuple[BlockIO, tuple[str, ...]]:
    """Return how I/O requests are made, and notes on flags that this machine cannot follow.

    Raises:
        InputError: two flags contradict each other.
    """
    depth = flags.io_depth
    if flags.io_engine == "psync" and depth > 1:
        raise InputError(
            "psync makes one request at a time", "pass `io_engine=uring`", setting="io_depth", subject=depth
        )
    wants_uring = flags.io_engine == "uring" or (flags.io_engine == "auto" and depth > 1)
    notes: tuple[str, ...] = ()
    if wants_uring and (error := uring_error()):
        reason = os.strerror(error)
        notes = (f"this machine refuses io_uring ({reason}): requests are made by psync, one at a time.",)
        depth = 1
        wants_uring = False
    size = flags.io_size or choose_request_bytes(workers, depth)
    return BlockIO(size, depth, flags.direct, flags.fsync, "uring" if wants_uring else "psync"), notes
