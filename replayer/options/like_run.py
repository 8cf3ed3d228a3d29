"""The options that a run was planned with, from its run.json: to make its plan again."""

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Final

from replayer.arrangements.arrangement import (
    SPILLOVER,
    WATERFALL,
    Arrangement,
    ArrangementRecord,
)
from replayer.arrangements.loading import make_arrangement
from replayer.models.geometry import TokenBytes
from replayer.planning.order import Order, make_reference, read_order
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import PlanOptions, Usable
from replayer.planning.trace_selection import Selection
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from replayer.record.run_info import Conditions, OrderInfo
from tracegen.errors import InputError
from tracegen.schema import Trace

_MAX_WORKERS: Final = 10_000
_PRECISION: Final = 100  # decimal digits: bytes divided by 2^30 are exact


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
    fingerprint = trace.metadata.fingerprint
    replayed = info.trace.fingerprint
    if fingerprint != replayed:
        raise _error(
            run,
            f"it replayed the trace {replayed[:12]}…, {trace.path} is {fingerprint[:12]}…",
            "name the trace that it replayed",
        )
    conditions = info.conditions
    workers = conditions.workers
    if workers > _MAX_WORKERS:
        raise _error(
            run,
            f"{workers:,} workers are more than the {_MAX_WORKERS:,} that a replay can have",
            _COPY_AGAIN,
        )
    try:
        options = PlanOptions(
            bytes_per_token=_bytes_per_token(run, conditions),
            capacity_gib=_capacities(conditions),
            headroom=_headroom(conditions),
            arrangement=_arrangement(run, conditions),
            lookup=conditions.lookup,
            selection=_selection(conditions),
            order=_order(run, conditions),
            demand=Demand(_pace(conditions), workers, conditions.max_concurrent_allocs),
        )
        usable = options.usable()
    except ArithmeticError:
        raise _error(run, "its headroom or its capacities are not numbers", _COPY_AGAIN) from None
    if tuple(usable) != _usable(conditions):
        raise _error(run, "its usable bytes do not follow from its headroom", _COPY_AGAIN)
    return conditions.model, options


_COPY_AGAIN: Final = "copy the run anew"


def _error(run: Path, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, subject=run, setting="like")


def _headroom(conditions: Conditions) -> Decimal:
    return Decimal(conditions.headroom or "0.8")


def _bytes_per_token(run: Path, conditions: Conditions) -> TokenBytes:
    """Return the bytes per token as recorded; absent are those that the model does not have."""
    windowed = conditions.windowed_bytes_per_token or 0
    window = conditions.attention_window or 0
    if windowed > conditions.bytes_per_token:
        raise _error(run, "windowed_bytes_per_token is above bytes_per_token", _COPY_AGAIN)
    state = conditions.state_bytes_per_object or 0
    return TokenBytes(conditions.bytes_per_token - windowed, windowed, window, state)


def _arrangement(run: Path, conditions: Conditions) -> Arrangement:
    """Return the arrangement as recorded; the waterfall and spillover record no rules."""
    name = conditions.arrangement or WATERFALL.name
    if conditions.rules is not None:
        try:
            arrangement = make_arrangement(name, conditions.rules)
        except InputError as error:
            raise _error(run, f"in its rules, {error.problem}", _COPY_AGAIN) from None
        recorded = ArrangementRecord(name, conditions.rules, bool(conditions.promote))
        if arrangement.to_record() != recorded:  # a reader would take it for something else
            problem = "its arrangement, rules and promote are not what a run records"
            raise _error(run, problem, _COPY_AGAIN)
        return arrangement
    known = {one.name: one for one in (WATERFALL, SPILLOVER)}
    if name not in known:
        raise _error(run, f"it does not record the rules of {name}", _COPY_AGAIN)
    return known[name].with_promotion() if conditions.promote else known[name]


def _usable(conditions: Conditions) -> Usable:
    sizes = conditions.usable_bytes
    return sizes.gpu, sizes.cpu, sizes.nvme


def _capacities(conditions: Conditions) -> tuple[Decimal, Decimal, Decimal | None]:
    headroom = _headroom(conditions)
    usable = _usable(conditions)
    gpu, cpu, nvme = (
        None if size is None else _gib(size if tier == "nvme" else _with_headroom(size, headroom))
        for tier, size in zip(TIERS, usable, strict=True)
    )
    return gpu or Decimal(0), cpu or Decimal(0), nvme


def _with_headroom(usable: int, headroom: Decimal) -> int:
    """Return the roundest capacity in bytes whose usable share is `usable`."""
    if not usable or not 0 < headroom <= 1:
        return usable
    with localcontext(prec=_PRECISION):
        low = int((usable / headroom).to_integral_value("ROUND_CEILING"))
        high = int(((usable + 1) / headroom).to_integral_value("ROUND_CEILING")) - 1
    step = 1
    while -(-low // (2 * step)) * 2 * step <= high:
        step *= 2
    return -(-low // step) * step


def _gib(size: int) -> Decimal:
    with localcontext(prec=_PRECISION):
        return Decimal(size) / 2**30


def _selection(conditions: Conditions) -> Selection:
    part = conditions.part or (0, 1)
    return Selection(conditions.decode or "reread", conditions.users, part, conditions.cycles or 1)


def _pace(conditions: Conditions) -> Pace:
    return Pace(
        kind=conditions.pace,
        speedup=conditions.speedup or 1,
        token_ms=conditions.token_ms or 0,
        prefill_tok_s=conditions.prefill_tok_s,
        request_depth=conditions.request_depth,
    )


def _order(run: Path, conditions: Conditions) -> Order:
    """Return the order of the run; that of a live run, or of another run, is in its log."""
    order = conditions.order or OrderInfo()
    if order.kind == "trace":
        return Order()
    if order.kind == "reference":
        return make_reference(str(order.name), order.profile)
    return read_order(run)
