"""Resolution of flags to a plan's options and a run's settings.

A flag comes first, then the recipe that the trace carries, then the default.
"""

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast, get_args

from replayer.flags.flag_types import UNLIMITED
from replayer.flags.plan_flags import PlanFlags
from replayer.flags.run_flags import RunFlags
from replayer.planning import model as models
from replayer.planning.order import Order, parse
from replayer.planning.pace import TOKEN_MS, Demand, Pace, Span, Window
from replayer.planning.plan import PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.record.options import PaceKind
from replayer.run.opening import Settings, request_bytes
from replayer.tiers.nvme import BlockIO, uring_error
from tracegen.errors import InputError
from tracegen.schema import Trace

_RECIPE_KEYS: Final[dict[str, Any]] = {
    "model": str | None,
    "gpu_mem_gb": int | float | None,
    "cpu_mem_gb": int | float | None,
    "storage_capacity_gb": int | float | None,
    "pace": str | None,
    "generation_mode": str | None,
    "max_concurrent_allocs": int | None,
    "duration_s": int | float | None,
}
"""The types that keys of a recipe's table `replay` may have."""
_SETTING_OF: Final = {"duration_s": "duration"}
"""Settings whose names differ from their keys in a recipe."""
_MUST_NOT_BE_ZERO: Final = ("duration_s",)
_FEW_OPS: Final = 1000
"""A warm-up of fewer ops was probably meant in seconds."""
_MAX_DEFAULT_WORKERS: Final = 500


@dataclass(frozen=True)
class RecipeSettings:
    """The settings of replays in the recipe that a trace carries; None: not set."""

    model: str | None = None
    gpu_mem_gb: float | None = None
    cpu_mem_gb: float | None = None
    storage_capacity_gb: float | None = None
    pace: str | None = None
    generation_mode: str | None = None
    max_concurrent_allocs: int | None = None
    duration_s: float | None = None


def read_recipe(trace: Trace) -> RecipeSettings:
    """Read the table `replay` of the recipe that a trace carries.

    Raises:
        InputError: a value is not valid.
    """
    table = trace.metadata.recipe.get("replay") or {}
    values: dict[str, Any] = {}
    for key, kind in _RECIPE_KEYS.items():
        value = table.get(key) if isinstance(table, dict) else ...
        if not isinstance(value, kind) or not _is_sane(key, value):
            setting = _SETTING_OF.get(key, key)
            problem = f"replay.{key} of its recipe is not a valid value for `{setting}`"
            raise InputError(problem, "make the trace again", subject=trace.path)
        values[key] = value
    return RecipeSettings(**values)


def _is_sane(key: str, value: Any) -> bool:
    """Whether a value of the right type is one that a flag would take."""
    if isinstance(value, bool):
        return False
    if not isinstance(value, int | float):
        return True
    return 0 <= value < 1e15 and not (value == 0 and key in _MUST_NOT_BE_ZERO)


def resolve_demand(trace: Trace, flags: PlanFlags) -> Demand:
    """Return the load that a replay puts on its tiers.

    Raises:
        InputError: a flag or a value of the trace's recipe is not valid.
    """
    recipe = read_recipe(trace)
    pace: Any = flags.pace or recipe.pace or "closed"
    mode = flags.generation_mode or recipe.generation_mode or "none"
    if mode not in TOKEN_MS or pace not in get_args(PaceKind):
        raise InputError(
            f"its recipe asks for pace {pace!r} and generation_mode {mode!r}",
            "pass `pace` and `generation_mode`",
            subject=trace.path,
        )
    demand = Demand(
        Pace(
            kind=pace,
            speedup=flags.speedup,
            token_ms=TOKEN_MS[mode] if flags.token_ms is None else flags.token_ms,
            prefill_tok_s=flags.prefill_tok_s,
            request_depth=_resolve_depth(trace, flags.request_depth),
        ),
        workers=flags.workers or _default_workers(trace, flags.users),
        allocs=_resolve_allocs(flags, recipe),
    )
    demand.pace.check()
    return demand


def _resolve_depth(trace: Trace, depth: int | None) -> int | None:
    """Return the ops of one step in flight at most; None: no limit."""
    if depth is None:
        return None if trace.metadata.prefix_chained else 1
    return depth or None


def _default_workers(trace: Trace, users: int | None) -> int:
    users_of_trace = int(trace.metadata.counts.get("users") or 1)
    return min(users_of_trace, users or users_of_trace, _MAX_DEFAULT_WORKERS)


def _resolve_allocs(flags: PlanFlags, recipe: RecipeSettings) -> int | None:
    """Return the stores in flight at most; None: no limit."""
    allocs = flags.max_concurrent_allocs
    if allocs is None:
        allocs = recipe.max_concurrent_allocs
    return None if allocs is None or allocs == UNLIMITED else int(allocs) or None


def resolve_options(trace: Trace, flags: PlanFlags, part: tuple[int, int] = (0, 1)) -> tuple[str, PlanOptions]:
    """Return the model's name and the plan's options.

    Args:
        trace: what is planned.
        flags: what the user passed.
        part: rank and number of ranks among which the sessions are divided.

    Raises:
        InputError: a flag or a value of the trace's recipe is not valid, or neither names a model.
    """
    recipe = read_recipe(trace)
    demand = resolve_demand(trace, flags)
    name = flags.model if flags.model is not None else recipe.model
    if name is None:
        known = ", ".join(models.MODELS)
        raise InputError("its recipe names no model", f"pass `model`, one of {known}", subject=trace.path)
    model = models.find(name)
    return model.name, PlanOptions(
        bytes_per_token=model.sizes(flags.kv_dtype, flags.tensor_parallel),
        capacity_gib=_resolve_capacities(flags, recipe),
        headroom=flags.headroom,
        arrangement=flags.arrangement,
        promote=flags.promote,
        lookup=flags.lookup,
        selection=Selection(flags.decode, flags.users, part, flags.cycles),
        order=_resolve_order(flags, demand.pace),
        demand=demand,
    )


def _resolve_capacities(flags: PlanFlags, recipe: RecipeSettings) -> tuple[Decimal, Decimal, Decimal | None]:
    """Return the GiB of gpu, cpu and nvme; None: unlimited."""

    def resolve(flag: Decimal | None, key: float | None) -> Decimal | None:
        if flag is not None:
            return None if flag == UNLIMITED else flag
        return None if key is None else Decimal(str(key))

    gpu = resolve(flags.gpu_mem_gb, recipe.gpu_mem_gb)
    cpu = resolve(flags.cpu_mem_gb, recipe.cpu_mem_gb)
    nvme = resolve(flags.storage_capacity_gb, recipe.storage_capacity_gb)
    return gpu or Decimal(0), cpu or Decimal(0), nvme


def _resolve_order(flags: PlanFlags, pace: Pace) -> Order:
    if not isinstance(flags, RunFlags) or flags.placement == "planned":
        return parse(flags.order, pace)
    if flags.order is not None:
        raise InputError("it has an order of its own", "leave out `order`", setting="placement", subject="live")
    return Order("live")


def resolve_time(trace: Trace, flags: RunFlags | None) -> tuple[float | None, float | None]:
    """Return the seconds in which a run starts ops, and in which it drains; None: no limit.

    Args:
        trace: its recipe may set the duration.
        flags: None: only the recipe says.

    Raises:
        InputError: a value of the recipe is not valid.
    """
    duration_s, drain_s = (None, None) if flags is None else (flags.duration, flags.drain)
    if duration_s is None:
        duration_s = read_recipe(trace).duration_s
    duration_s = _finite_or_none(duration_s)
    if drain_s is None and duration_s is not None:
        return duration_s, duration_s / 10
    return duration_s, _finite_or_none(drain_s)


def _finite_or_none(value: float | Decimal | None) -> float | None:
    return None if value is None or value == UNLIMITED else cast("float", value)


def resolve_settings(trace: Trace, flags: RunFlags) -> Settings:
    """Return how the plan is executed.

    Raises:
        InputError: a flag or a value of the trace's recipe is not valid.
    """
    demand = resolve_demand(trace, flags)
    io, notes = _resolve_io(flags, demand.workers)
    warmup_ops, _ = flags.warmup
    if 0 < warmup_ops < _FEW_OPS:
        notes += (f"--warmup {warmup_ops} means {warmup_ops} ops; write {warmup_ops}s for seconds.",)
    return Settings(
        workers=demand.workers,
        cache_dir=flags.cache_dir,
        layout=flags.layout,
        io=io,
        pace=demand.pace,
        verify=flags.verify,
        window=_resolve_window(flags, demand.pace),
        span=_resolve_span(trace, flags),
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
        notes=notes,
    )


def _resolve_span(trace: Trace, flags: RunFlags) -> Span:
    """Return how much of the plan is executed, and what of it is warm-up."""
    duration_s, drain_s = resolve_time(trace, flags)
    for setting, value in (("duration", duration_s), ("precondition", flags.precondition or None)):
        if value is not None and not 0 < value < 1e9:
            raise InputError("must be more than 0 and below 1e9", setting=setting, subject=f"{value:g}")
    if drain_s is not None and not 0 <= drain_s < 1e9:
        raise InputError("must be 0 or more, and below 1e9", setting="drain", subject=f"{drain_s:g}")
    if flags.drain is not None and duration_s is None:
        raise InputError("there is no `duration` after which to drain", "pass `duration`, too", setting="drain")
    warmup_ops, warmup_s = flags.warmup
    return Span(duration_s, drain_s, flags.ops, warmup_ops, warmup_s, flags.max_errors)


def _resolve_window(flags: RunFlags, pace: Pace) -> Window:
    """Return how far the plan runs ahead of the lowest unfinished op."""
    gib = None if flags.window_gb == UNLIMITED else flags.window_gb
    if gib is not None and not gib > 0:
        raise InputError("must be more than 0", setting="window_gb", subject=gib)
    return Window.of(pace, flags.window, None if gib is None else int(gib * 2**30))


def _resolve_io(flags: RunFlags, workers: int) -> tuple[BlockIO, tuple[str, ...]]:
    """Return how I/O requests are made, and notes on flags that this machine cannot follow."""
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
    size = flags.io_size or request_bytes(workers, depth)
    return BlockIO(size, depth, flags.direct, flags.fsync, "uring" if wants_uring else "psync"), notes
