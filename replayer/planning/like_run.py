"""What a run was planned with, from its run.json: so that its plan can be made anew from the trace."""

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Final

from replayer.planning.model import TokenBytes
from replayer.planning.order import Order, of_run, profiled
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import PlanOptions, Usable
from replayer.planning.trace_selection import Selection
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from replayer.record.run_info import Conditions, OrderInfo
from tracegen.errors import InputError
from tracegen.schema import Trace

_WORKERS: Final = 10_000
_PRECISION: Final = 100  # decimal digits: a number of bytes over 2^30 is exact


def options_like(place: Path, trace: Trace) -> tuple[str, PlanOptions]:
    """The model's name and the options that a run was planned with.

    Args:
        place: its directory; one of a rank, where there are several.
        trace: what the run replayed.

    Raises:
        InputError: it is no run, replayed another trace, or its conditions are none that can be planned.
    """
    info = read_run(place)
    has, wanted = trace.metadata.fingerprint, info.trace.fingerprint
    if has != wanted:
        raise InputError(
            f"--like {place}: it replayed the trace {wanted[:12]}…, {trace.path} is {has[:12]}…; name its own."
        )
    conditions = info.conditions
    if (workers := conditions.workers) > _WORKERS:
        raise InputError(f"--like {place}: {workers:,} workers are more than {_WORKERS:,}; no replay has so many.")
    try:
        options = PlanOptions(
            bytes_per_token=_bytes_per_token(place, conditions),
            capacity_gib=_capacities(conditions),
            headroom=Decimal(conditions.headroom or "0.8"),
            arrangement=conditions.arrangement or "waterfall",
            promote=bool(conditions.promote),
            lookup=conditions.lookup,
            selection=_selection(conditions),
            order=_order(place, conditions),
            demand=Demand(_pace(conditions), workers, conditions.max_concurrent_allocs),
        )
        usable = options.usable()
    except ArithmeticError:
        raise InputError(f"--like {place}: its headroom or capacities are no numbers; copy the run anew.") from None
    if tuple(usable) != _usable(conditions):
        raise InputError(f"--like {place}: its usable bytes do not follow from its headroom; copy the run anew.")
    return conditions.model, options


def _bytes_per_token(place: Path, conditions: Conditions) -> TokenBytes:
    """As recorded; runs of earlier releases say no windows."""
    windowed = conditions.windowed_bytes_per_token or 0
    window = conditions.attention_window or 0
    if windowed > conditions.bytes_per_token:
        raise InputError(f"--like {place}: windowed_bytes_per_token is above bytes_per_token; copy the run anew.")
    return TokenBytes(conditions.bytes_per_token - windowed, windowed, window)


def _usable(conditions: Conditions) -> Usable:
    sizes = conditions.usable_bytes
    return sizes.gpu, sizes.cpu, sizes.nvme


def _capacities(conditions: Conditions) -> tuple[Decimal, Decimal, Decimal | None]:
    headroom = Decimal(conditions.headroom or "0.8")
    usable = _usable(conditions)
    gpu, cpu, nvme = (
        None if size is None else _gib(size if tier == "nvme" else _with_headroom(size, headroom))
        for tier, size in zip(TIERS, usable, strict=True)
    )
    return gpu or Decimal(0), cpu or Decimal(0), nvme


def _with_headroom(usable: int, headroom: Decimal) -> int:
    """The capacity that leaves so many usable bytes; of several the one that is the rounder number."""
    if not usable or not 0 < headroom <= 1:
        return usable
    with localcontext(prec=_PRECISION):
        least = int((usable / headroom).to_integral_value("ROUND_CEILING"))
        most = int(((usable + 1) / headroom).to_integral_value("ROUND_CEILING")) - 1
    step = 1
    while -(-least // (2 * step)) * 2 * step <= most:
        step *= 2
    return -(-least // step) * step


def _gib(size: int) -> Decimal:
    with localcontext(prec=_PRECISION):
        return Decimal(size) / 2**30


def _selection(conditions: Conditions) -> Selection:
    part = conditions.part or (0, 1)
    return Selection(conditions.decode or "reread", conditions.users, part, conditions.cycles or 1)


def _pace(conditions: Conditions) -> Pace:
    pace = Pace(
        kind=conditions.pace,
        speedup=conditions.speedup or 1,
        token_ms=conditions.token_ms or 0,
        prefill_tok_s=conditions.prefill_tok_s,
        request_depth=conditions.request_depth,
    )
    pace.check()
    return pace


def _order(place: Path, conditions: Conditions) -> Order:
    """Its own; what was placed live, or in the order of another run, is planned in the order of its log."""
    order = conditions.order or OrderInfo()
    if order.kind == "trace":
        return Order()
    if order.kind == "reference":
        return profiled(str(order.name), order.profile)
    return of_run(place)
