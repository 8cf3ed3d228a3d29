"""Options over the recipe that a trace carries, and the plan and the settings that follow.

An option that is passed comes first, then the recipe, then the default: `overlay_recipe` decides.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from replayer.arrangements.arrangement import Arrangement
from replayer.arrangements.choosing import choose_arrangement
from replayer.models.known import MODELS, find_model
from replayer.options.groups import Options, make_options
from replayer.options.run_groups import DeviceOptions, SpanOptions
from replayer.options.settings import Settings, choose_request_bytes
from replayer.options.types import UNLIMITED
from replayer.planning.order import Order, parse_order
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.record.options import Decode, DurationOrigin, PaceKind
from replayer.record.run_parts import Count, Number, Seconds
from replayer.tiers.disk import uring_error
from replayer.tiers.request import BlockIO
from tracegen.errors import InputError
from tracegen.schema import Trace
from tracegen.typed_files import convert

_MAX_DEFAULT_WORKERS: Final = 500  # each is a thread with a buffer
# Milliseconds per generated token of kv-cache.py's generation modes, which recipes name.
TOKEN_MS: Final = {"none": 0.0, "fast": 2.0, "realistic": 30.0}


class _ReplayRecipe(msgspec.Struct):
    """The keys under `replay` of a trace's recipe; null is unlimited, or not said."""

    model: str | None = None
    gpu_mem_gb: Number | None = None
    cpu_mem_gb: Number | None = None
    storage_capacity_gb: Number | None = None
    pace: PaceKind | None = None
    generation_mode: Literal["none", "fast", "realistic"] | None = None
    decode: Decode | None = None
    max_concurrent_allocs: Count | None = None
    duration_s: Seconds | None = None


def overlay_recipe(trace: Trace, values: Mapping[str, Any]) -> Options:
    """Return options of values by name, over those of the recipe that the trace carries.

    Raises:
        InputError: the recipe has a key that is not valid, or there is no option of a name.
    """
    written = trace.metadata.recipe.get("replay") or {}
    if isinstance(written, dict):  # a later release may add keys
        written = {name: value for name, value in written.items() if name in _ReplayRecipe.__struct_fields__}
    keys = msgspec.structs.asdict(convert(written, _ReplayRecipe, trace.path, place="replay"))
    keys["duration"] = keys.pop("duration_s")
    # kv-cache.py names speeds of generation; a recipe keeps its word.
    keys["token_ms"] = TOKEN_MS.get(keys.pop("generation_mode"))
    given = {name: value for name, value in values.items() if value not in (None, ())}
    origin: DurationOrigin = "user" if "duration" in given else "recipe"
    return msgspec.structs.replace(make_options(keys | given), duration_by=origin)


def resolve_demand(trace: Trace, options: Options) -> Demand:
    """Return the load that a replay puts on its tiers."""
    load = options.load
    trace_users = int(trace.metadata.counts.get("users") or 1)
    users = options.work.users or trace_users
    depth = load.request_depth
    if depth is None:
        # Block traces have an op per block, and engines ask for those of a prefix together.
        depth = 0 if trace.metadata.prefix_chained else 1
    allocs = load.max_concurrent_allocs
    return Demand(
        Pace(load.pace, load.speedup, load.token_ms, load.prefill_tok_s, depth or None),
        workers=load.workers or min(trace_users, users, _MAX_DEFAULT_WORKERS),
        allocs=None if allocs == UNLIMITED else int(allocs) or None,
    )


def resolve_plan(trace: Trace, options: Options, part: tuple[int, int] = (0, 1)) -> tuple[str, PlanOptions]:
    """Return the model's name and the options of a plan.

    Args:
        trace: to plan.
        options: over the trace's recipe.
        part: (rank, ranks), of a run whose ranks share the sessions.

    Raises:
        InputError: no model is named, or an option is wrong.
    """
    demand = resolve_demand(trace, options)
    chosen, rules, work = options.model, options.rules, options.work
    if chosen.model is None:
        raise InputError("it names no model", f"pass `model`, one of {', '.join(MODELS)}", subject=trace.path)
    model = find_model(chosen.model)
    room = options.capacity
    gpu, cpu, nvme = (Decimal(str(gib)) for gib in (room.gpu_mem_gb, room.cpu_mem_gb, room.storage_capacity_gb))
    own = (rules.policy, rules.ttl, rules.chunk_tokens)
    arrangement = choose_arrangement(rules.arrangement, *own, promote=rules.promote)
    order = _resolve_order(trace, options, arrangement, demand.pace)
    sharding = (chosen.tensor_parallel, chosen.pipeline_parallel)
    resolved = PlanOptions(
        bytes_per_token=model.sizes(chosen.kv_dtype, *sharding),
        capacity_gib=(gpu, cpu, None if nvme == UNLIMITED else nvme),
        headroom=Decimal(str(room.headroom)),
        arrangement=arrangement,
        lookup=rules.lookup,
        selection=Selection(work.decode, work.users, part, work.cycles),
        order=order,
        demand=demand,
    )
    if work.order == "engine" and resolved.order.kind != "engine":
        obstacle = resolved.order.instead or f"{arrangement.name} has no scheduler"
        remedy = (
            "pass `arrangement=vllm`, its own rules, a trace of blocks, `gpu_mem_gb`, and"
            " `storage_capacity_gb` 0, or unlimited behind `cpu_mem_gb`; or another order"
        )
        raise InputError(obstacle, remedy, subject="engine", setting="order")
    return model.name, _pace_as_engine(resolved)


def _pace_as_engine(options: PlanOptions) -> PlanOptions:
    """Let requests take as long as the engine's steps do, unless they are given times of their own."""
    scheduler, pace = options.arrangement.scheduler, options.demand.pace
    if options.order.kind != "engine" or scheduler is None or pace.kind == "asap" or pace.takes_time:
        return options
    # Else a replay without these times would wait for the plan's order, which has them.
    pace = replace(pace, token_ms=scheduler.step_ms, prefill_tok_s=scheduler.tokens_per_s)
    return replace(options, demand=replace(options.demand, pace=pace))


def _resolve_order(trace: Trace, options: Options, arrangement: Arrangement, pace: Pace) -> Order:
    work = options.work
    # A live placement decides in the order in which ops come to be dispatched.
    if work.placement == "live":
        if work.order is not None:
            raise InputError("has an order of its own", "leave `order` out", setting="placement")
        return Order("live")
    if work.order not in (None, "engine"):
        return parse_order(work.order, pace)
    usual = parse_order(None, pace)
    if arrangement.scheduler is None:
        return usual
    if not (trace.metadata.block_tokens and trace.metadata.prefix_chained):
        return replace(usual, instead="the trace is not one of blocks")
    return Order("engine", arrangement.name, otherwise=usual)


def resolve_settings(options: Options, demand: Demand) -> Settings:
    """Return how a plan of this load is executed.

    Raises:
        InputError: an option is not valid.
    """
    io, notes = resolve_io(options.devices, demand.workers)
    return Settings(
        demand=demand,
        devices=options.devices,
        io=io,
        window=resolve_window(options.span, demand.pace),
        span=replace(resolve_span(options), max_errors=options.control.max_errors),
        control=options.control,
        notes=notes,
    )


def resolve_span(options: Options) -> Span:
    """Return how much of the plan is executed, and what of it is warm-up.

    Raises:
        InputError: the drain has nothing to follow.
    """
    span = options.span
    duration_s, drain_s = _finite_or_none(span.duration), _finite_or_none(span.drain)
    if span.drain is not None and duration_s is None:
        raise InputError("there is no `duration` after which to drain", "pass `duration`, too", setting="drain")
    if span.drain is None and duration_s is not None:
        # Ops in flight should end, but a tier that hangs must not hold the run up for ever.
        drain_s = duration_s / 10
    return Span(duration_s, drain_s, span.ops, *span.warmup, duration_by=options.duration_by)


def _finite_or_none(value: float | Decimal | None) -> float | None:
    return None if value is None or value == UNLIMITED else float(value)


def resolve_window(span: SpanOptions, pace: Pace) -> PlanWindow:
    """Return how far the plan runs ahead of the lowest unfinished op."""
    limit = None if span.window_gb == UNLIMITED else int(span.window_gb * 2**30)
    return PlanWindow.for_pace(pace, span.window, limit)


def resolve_io(devices: DeviceOptions, workers: int) -> tuple[BlockIO, tuple[str, ...]]:
    """Return how I/O requests are made, and notes on options that this machine cannot follow.

    Raises:
        InputError: two options contradict each other.
    """
    depth = devices.io_depth
    if devices.io_engine == "psync" and depth > 1:
        raise InputError(
            "psync makes one request at a time", "pass `io_engine=uring`", setting="io_depth", subject=depth
        )
    # Several requests in flight need io_uring: psync waits for each.
    wants_uring = devices.io_engine == "uring" or (devices.io_engine == "auto" and depth > 1)
    notes: tuple[str, ...] = ()
    if wants_uring and (error := uring_error()):
        refusal = f"this machine refuses io_uring ({os.strerror(error)})"
        notes = (f"{refusal}: requests are made by psync, one at a time.",)
        depth = 1
        wants_uring = False  # as in containers, whose seccomp profiles forbid it
    size = devices.io_size or choose_request_bytes(workers, depth)
    engine: Literal["uring", "psync"] = "uring" if wants_uring else "psync"
    return BlockIO(size, depth, devices.direct, devices.fsync, engine), notes
