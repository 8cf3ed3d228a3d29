"""What a run was planned with, from its run.json: so that its plan can be made anew from the trace."""

from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Final, Literal

from replayer.planning.model import TokenBytes
from replayer.planning.order import Order, of_run, profiled
from replayer.planning.pace import Demand, Pace
from replayer.planning.plan import PlanOptions, Usable
from replayer.planning.trace_selection import Selection
from replayer.record.columns import TIERS
from replayer.record.reading import read_run
from tracegen.errors import InputError
from tracegen.schema import Trace

_WORKERS: Final = 10_000
_PRECISION: Final = 100  # decimal digits: a number of bytes over 2^30 is exact

Info = dict[str, Any]


def options_like(place: Path, trace: Trace) -> tuple[str, PlanOptions]:
    """The model's name and the options that a run was planned with.

    Args:
        place: its directory; one of a rank, where there are several.
        trace: what the run replayed.

    Raises:
        InputError: it is no run, replayed another trace, or its conditions are none that can be planned.
    """
    info = read_run(place)
    has, wanted = trace.metadata.fingerprint, info["trace"]["fingerprint"]
    if has != wanted:
        raise InputError(
            f"--like {place}: it replayed the trace {wanted[:12]}…, {trace.path} is {has[:12]}…; name its own."
        )
    conditions = info["conditions"]
    if (workers := conditions["workers"]) > _WORKERS:
        raise InputError(f"--like {place}: {workers:,} workers are more than {_WORKERS:,}; no replay has so many.")
    try:
        options = PlanOptions(
            bytes_per_token=_bytes_per_token(place, info),
            capacity_gib=_capacities(conditions),
            headroom=Decimal(conditions.get("headroom") or "0.8"),
            arrangement=conditions.get("arrangement") or "waterfall",
            promote=bool(conditions.get("promote")),
            lookup=conditions.get("lookup"),
            selection=_selection(conditions),
            order=_order(place, conditions),
            demand=Demand(_pace(conditions), workers, conditions.get("max_concurrent_allocs")),
        )
        usable = options.usable()
    except ArithmeticError:
        raise InputError(f"--like {place}: its headroom or capacities are no numbers; copy the run anew.") from None
    if list(usable) != [conditions["usable_bytes"][tier] for tier in TIERS]:
        raise InputError(f"--like {place}: its usable bytes do not follow from its headroom; copy the run anew.")
    return conditions["model"], options


def _bytes_per_token(place: Path, info: Info) -> TokenBytes:
    """As recorded; runs of earlier releases say no windows."""
    conditions = info["conditions"]
    windowed, window = conditions.get("windowed_bytes_per_token") or 0, conditions.get("attention_window") or 0
    if windowed > conditions["bytes_per_token"]:
        raise InputError(f"--like {place}: windowed_bytes_per_token is above bytes_per_token; copy the run anew.")
    return TokenBytes(conditions["bytes_per_token"] - windowed, windowed, window)


def _capacities(conditions: Info) -> tuple[Decimal, Decimal, Decimal | None]:
    headroom = Decimal(conditions.get("headroom") or "0.8")
    usable: Usable = tuple(conditions["usable_bytes"][tier] for tier in TIERS)
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


def _selection(conditions: Info) -> Selection:
    decode: Literal["reread", "once", "none"] = conditions.get("decode") or "reread"
    rank, ranks = conditions.get("part") or (0, 1)
    return Selection(decode, conditions.get("users"), (rank, ranks), conditions.get("cycles") or 1)


def _pace(conditions: Info) -> Pace:
    pace = Pace(
        kind=conditions["pace"],
        speedup=conditions.get("speedup") or 1,
        token_ms=conditions.get("token_ms") or 0,
        prefill_tok_s=conditions.get("prefill_tok_s"),
        request_depth=conditions.get("request_depth"),
    )
    pace.check()
    return pace


def _order(place: Path, conditions: Info) -> Order:
    """Its own; what was placed live, or in the order of another run, is planned in the order of its log."""
    found = conditions.get("order") or {"kind": "trace"}
    if found["kind"] == "trace":
        return Order()
    if found["kind"] == "reference":
        return profiled(str(found.get("name")), found.get("profile"))
    return of_run(place)
