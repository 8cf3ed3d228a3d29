"""The conditions that a plan is recorded by in run.json, and the options of a plan made of them again."""

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Final

from msgspec import UNSET
from msgspec.structs import asdict

from replayer.arrangements.arrangement import SPILLOVER, WATERFALL, Arrangement
from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.options.settings import Settings
from replayer.planning.moves import GPU
from replayer.planning.order import Order, make_reference, read_order
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.record.conditions import Conditions, OrderInfo, PlanConditions, TierSizes, WarmupCondition
from replayer.record.reading import read_run
from tracegen.errors import InputError
from tracegen.schema import Trace

_PRECISION: Final = 100  # decimal digits: bytes divided by 2^30 are exact


def _record_plan(model: str, plan: Plan, ranks: int) -> PlanConditions:
    options = plan.options
    arrangement = options.arrangement.to_record()
    selection = options.selection
    sizes = options.bytes_per_token
    windowed = sizes.windowed or None
    gpu, cpu, nvme = plan.usable
    return PlanConditions(
        model=model,
        bytes_per_token=sizes.per_token,
        windowed_bytes_per_token=windowed,
        attention_window=sizes.window if windowed else None,
        state_bytes_per_object=sizes.state or None,
        usable_bytes=TierSizes(gpu=gpu, cpu=cpu, nvme=nvme),
        headroom=f"{options.headroom:f}",
        arrangement=arrangement.name,
        rules=arrangement.rules,
        promote=arrangement.promote,
        lookup=plan.lookup,
        decode=selection.decode,
        users=selection.users,
        part=selection.part,
        cycles=selection.cycles,
        order=options.order.to_info(),
        placement="live" if options.order.kind == "live" else "planned",
        ranks=ranks,
    )


def record_conditions(model: str, plan: Plan, settings: Settings, direct: bool | None, ranks: int) -> Conditions:
    """Return the conditions of a run of `ranks` processes.

    `direct`: whether the nvme tier bypasses the page cache; None if it is not on a disk.
    """
    demand, devices, span = settings.demand, settings.devices, settings.span
    has_gpu = plan.usable[GPU] != 0
    return Conditions(
        **asdict(_record_plan(model, plan, ranks)),
        workers=demand.workers,
        pace=demand.pace.kind,
        speedup=demand.pace.speedup,
        token_ms=demand.pace.token_ms,
        prefill_tok_s=demand.pace.prefill_tok_s,
        request_depth=demand.pace.request_depth,
        max_concurrent_allocs=demand.allocs,
        window_ops=settings.window.ops,
        window_bytes=settings.window.bytes,
        duration_s=span.duration_s,
        drain_s=span.drain_s,
        ops=span.ops,
        warmup=WarmupCondition(ops=span.warmup_ops, s=span.warmup_s, steady=span.begins_steady or UNSET),
        precondition_gib=settings.control.precondition,
        layout=devices.layout,
        direct=direct,
        io_bytes=settings.io.size,
        io_depth=settings.io.depth,
        io_engine=None if direct is None else settings.io.engine,
        fsync=settings.io.fsync,
        verify=devices.verify,
        gpu_device=devices.gpu_device if has_gpu else None,
        gpu_read=devices.gpu_read if has_gpu else None,
        gds=devices.gds,
        throttle={tier: limit.as_dict() for tier, limit in settings.throttles.items()},
    )


def read_options(run: Path, trace: Trace) -> tuple[str, PlanOptions]:
    """Return the name of the model and the options that a run was planned with.

    Args:
        run: run directory; of a run with several ranks, that of one rank.
        trace: the trace that the run replayed.

    Raises:
        InputError: the path is not a run, the run replayed another trace, or its conditions do not
            describe a plan.
    """
    info = read_run(run)
    # The same path may hold another trace by now.
    fingerprint, replayed = trace.metadata.fingerprint, info.trace.fingerprint
    if fingerprint != replayed:
        problem = f"it replayed the trace {replayed[:12]}…, {trace.path} is {fingerprint[:12]}…"
        raise InputError(problem, "name the trace that it replayed", subject=run, setting="like")
    planned = info.conditions
    headroom = Decimal(planned.headroom or "0.8")
    try:
        return planned.model, PlanOptions(
            bytes_per_token=_bytes_per_token(planned),
            capacity_gib=_capacities(planned.usable_bytes, headroom),
            headroom=headroom,
            arrangement=_arrangement(planned),
            lookup=planned.lookup,
            selection=Selection(planned.decode or "reread", planned.users, planned.part or (0, 1), planned.cycles or 1),
            order=_order(run, planned.order or OrderInfo()),
            demand=_demand(planned),
        )
    except InputError as error:
        # It would name flags, and the user typed none of these values.
        problem = f"its conditions describe no plan: {InputError(error.problem, subject=error.subject)}"
        raise InputError(problem.removesuffix("."), "copy the run anew", subject=run, setting="like") from None


def _demand(planned: Conditions) -> Demand:
    pace = Pace(planned.pace, planned.speedup or 1, planned.token_ms or 0, planned.prefill_tok_s, planned.request_depth)
    return Demand(pace, planned.workers, planned.max_concurrent_allocs)


def _bytes_per_token(planned: Conditions) -> TokenBytes:
    """Return the bytes per token as recorded; a missing kind means that the model has none."""
    windowed = planned.windowed_bytes_per_token or 0
    window, state = planned.attention_window or 0, planned.state_bytes_per_object or 0
    return TokenBytes(planned.bytes_per_token - windowed, windowed, window, state)


def _capacities(usable: TierSizes, headroom: Decimal) -> tuple[Decimal, Decimal, Decimal | None]:
    gpu, cpu = (_gib(_with_headroom(size or 0, headroom)) for size in (usable.gpu, usable.cpu))
    return gpu, cpu, None if usable.nvme is None else _gib(usable.nvme)


def _arrangement(planned: Conditions) -> Arrangement:
    """Return the arrangement as recorded; the waterfall and spillover record no rules."""
    name = planned.arrangement or WATERFALL.name
    if planned.rules is not None:
        return make_arrangement(name, planned.rules)
    known = {one.name: one for one in (WATERFALL, SPILLOVER)}
    if name not in known:
        raise InputError("has no rules", subject=name)
    return known[name].with_promotion() if planned.promote else known[name]


def _with_headroom(usable: int, headroom: Decimal) -> int:
    """Return the roundest capacity in bytes whose usable share is `usable`."""
    if not usable or not 0 < headroom <= 1:
        return usable
    with localcontext(prec=_PRECISION):
        low = int((usable / headroom).to_integral_value("ROUND_CEILING"))
        high = int(((usable + 1) / headroom).to_integral_value("ROUND_CEILING")) - 1
    # floor(capacity × headroom) is `usable` for every capacity from low to high. The user typed 4 GiB
    # rather than a number of bytes: that one is meant whose last binary digits are 0.
    digits = ((low - 1) ^ high).bit_length() - 1
    return high >> digits << digits


def _gib(size: int) -> Decimal:
    with localcontext(prec=_PRECISION):
        return Decimal(size) / 2**30


def _order(run: Path, order: OrderInfo) -> Order:
    """Return the order of the run; that of a live run, or of another run, is in its log."""
    if order.kind in ("trace", "engine"):
        return Order(order.kind, order.name, otherwise=Order())
    if order.kind == "reference":
        return make_reference(str(order.name), order.profile)
    return read_order(run)
