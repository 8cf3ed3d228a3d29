"""Seconds of a run by what took them, its bottleneck, and the prefill speed that reading beats."""

from collections.abc import Sequence
from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import CAUSES, OK, SERVED, SIDES, TOUCHES, waited
from analysis.log.log import Log
from analysis.log.quantiles import ascending, gaps_ns
from analysis.log.saturation import measure_busy_share, measure_flatness
from analysis.metrics.metric import Declared, Metric, divide, make_row
from analysis.metrics.wear import device as device_counters
from replayer.schema import TIERS

_BUSY_CPU: Final = 0.9
_BUSY_WORKERS: Final = 0.8
_BUSY_DEVICE: Final = 0.95
_FLAT: Final = 0.8
_DIRECTIONS: Final = (("read", "write"), ("read",), ("write",))
_NVME: Final = SIDES["nvme_read"] | SIDES["nvme_write"]


def time_spent(log: Log) -> pl.LazyFrame:
    """Seconds summed over moves, more than the run took; its idle time and its bottleneck.

    idle_s: time between the first start and the last end that is in no move's due … end: the
        workload itself paused.
    plan_wait_s: Σ (ready − due).
    queue_s: Σ (start − ready).
    {wait}_wait_s: the part of plan_wait_s that waited for one cause. data: earlier moves of the
        same object; eviction: evictions of the same op; room: space that other ops free; order:
        ops that were not due themselves, so that no move worked for it; window: ops that the
        replayer had not taken into its window.
    device_s: Σ time inside system calls that move data, and memory copies.
    host_s: Σ (read_ns + write_ns) − device_s: opening, closing and the interpreter.
    verify_s: Σ time of making and checking bytes, which no other time includes.
    nvme_device_{direction}_s: the part of device_s of the nvme tier, without failed moves.
    nvme_busy_share: share of the window in which at least one move that touches nvme is between its
        start and its end; the window is elapsed_s. Null if no move of the log touches nvme.
    bottleneck: what held the run back; the first rule that applies. `cpu`: cpu_share is at least
        0.9. `device`: the nvme tier was at its ceiling: its reads, its writes or both together were
        busy for 0.95 of the window and flat, and at least half of their time was in the device.
        Flat: of 10,000 equal parts of the window, the third with the fewest such moves in flight
        has at least 0.8 of the bytes of the third with the most. `cpu`: system_cpu_share is at
        least 0.9. The largest of `device`, `host` and `verify`: Σ (end − start) + verify_s is at
        least 0.8 × workers × elapsed_s. `source`: idle_s is more than a fifth of last end − first
        start. The largest of `device`, `host` and `verify`: the same sum is at least that of all
        waits. Else the longest wait, of {wait}_wait_s and queue_s: `data`, `eviction`, `room`,
        `order`, `window`, `queue`, or `plan` for waits of an unknown cause. In a cut run sums count
        each move by its share inside elapsed_s.
    """
    busy = measure_busy_share(log, _NVME)
    share = make_row({"nvme_busy_share": busy})
    return pl.concat([_sum_times(log), share, _find_bottleneck(log, busy)], how="horizontal")


def _device_ns() -> pl.Expr:
    return (col("device_read_ns") + col("device_write_ns")).sum()


def _host_ns() -> pl.Expr:
    return ((col("read_ns") + col("write_ns")).sum() - _device_ns()).clip(0)


def _waits_ns() -> dict[str, pl.Expr]:
    """Sum the plan waits by their cause."""
    return {cause: waited(cause, col("plan_wait_ns")).sum() for cause in CAUSES}


def _sum_times(log: Log) -> pl.LazyFrame:
    return log.cells.select(
        plan_wait_s=col("plan_wait_ns").sum() / 1e9,
        queue_s=col("queue_ns").sum() / 1e9,
        **{f"{cause}_wait_s": wait / 1e9 for cause, wait in _waits_ns().items()},
        device_s=_device_ns() / 1e9,
        host_s=_host_ns() / 1e9,
        verify_s=col("verify_ns").sum() / 1e9,
        **{
            f"nvme_device_{direction}_s": (col(f"device_{direction}_ns").filter(SIDES[f"nvme_{direction}"]).sum() / 1e9)
            for direction in TOUCHES
        },
    )


def _find_bottleneck(log: Log, busy: float | None) -> pl.LazyFrame:
    """Return the idle time and the bottleneck; `busy` is the nvme tier's busy share."""
    first_ns, last_ns = log.span or (0, 0)
    idle_ns = _idle_ns(log)
    is_busy = busy is not None and busy >= _BUSY_DEVICE
    is_at_ceiling = is_busy and any(_is_at_ceiling(log, sides) for sides in _DIRECTIONS)
    counters = device_counters(log).select("cpu_share", "system_cpu_share")
    return pl.concat([counters, _find_largest(log)], how="horizontal").select(
        idle_s=pl.lit(idle_ns / 1e9),
        bottleneck=pl.when(col("cpu_share") >= _BUSY_CPU)
        .then(pl.lit("cpu"))
        .when(is_at_ceiling)
        .then(pl.lit("device"))
        .when(col("system_cpu_share") >= _BUSY_CPU)
        .then(pl.lit("cpu"))
        .when("are_workers_busy")
        .then("work")
        .when(idle_ns * 5 > last_ns - first_ns)
        .then(pl.lit("source"))
        .when("is_work_longer")
        .then("work")
        .otherwise("wait"),
    )


def _is_at_ceiling(log: Log, sides: Sequence[str]) -> bool:
    """Return whether nvme was busy throughout, and moved as much with few moves as with many."""
    touching = pl.any_horizontal(SIDES[f"nvme_{side}"] for side in sides)
    if (measure_busy_share(log, touching) or 0) < _BUSY_DEVICE:
        return False
    spent = [
        sum(col(f"{clock}{side}_ns").filter(SIDES[f"nvme_{side}"]).sum() for side in sides) for clock in ("", "device_")
    ]
    all_ns, device_ns = log.cells.select(all=spent[0], device=spent[1]).collect().row(0)
    return bool(2 * device_ns >= all_ns) and measure_flatness(log, touching) >= _FLAT


def _find_largest(log: Log) -> pl.LazyFrame:
    """Name the largest part of the work and the longest wait, and say whether workers were busy."""
    verify_ns = col("verify_ns").sum()
    work = {"device": _device_ns(), "host": _host_ns(), "verify": verify_ns}
    waits = _waits_ns()
    waits |= {"queue": col("queue_ns").sum(), "plan": col("plan_wait_ns").sum() - pl.sum_horizontal(waits.values())}
    busy_ns = (col("io_ns") + col("verify_ns")).sum()
    return log.rated.select(
        are_workers_busy=busy_ns >= _BUSY_WORKERS * log.workers * log.elapsed_s * 1e9,
        is_work_longer=busy_ns >= pl.sum_horizontal(waits.values()),
        work=_largest(work),
        wait=_largest(waits),
    )


def _idle_ns(log: Log) -> int:
    """Sum the gaps between the intervals due … end of all moves."""
    due_ns, end_ns = (
        ascending(pl.concat(rows.select(stamp).collect(engine="streaming") for rows in log.stretches)[stamp])
        for stamp in ("due_ns", "end_ns")
    )
    return gaps_ns(due_ns, end_ns)


def _largest(sums: dict[str, pl.Expr]) -> pl.Expr:
    """Return the name of the largest sum; of equal sums the first."""
    index = pl.concat_list(*(value.cast(pl.Float64) for value in sums.values())).list.arg_max()
    return index.replace_strict(dict(enumerate(sums)), default=None, return_dtype=pl.String)


def break_even(log: Log) -> pl.LazyFrame:
    """Prefill speed below which reading a cached object is quicker than computing it again.

    {tier}_break_even_tok_s: Σ tokens of the tier's hits / Σ their read times. A prefill that
        computes more tokens per second for one request is quicker than reading them back.
    """
    return log.cells.select(_break_even(tier).alias(f"{tier}_break_even_tok_s") for tier in TIERS)


def _break_even(tier: str) -> pl.Expr:
    hits = OK & SERVED & (col("from_tier") == tier)
    read_ns = col("read_ns").filter(hits).sum()
    tokens = col("tokens").filter(hits).sum()
    return divide(tokens, read_ns / 1e9)


METRICS: Final[Declared] = {
    time_spent: (
        Metric("idle_s", "s", "speed", "idle: no move was due"),
        Metric("plan_wait_s", "s", "speed", "wait for the plan, summed over moves", "lower"),
        Metric("queue_s", "s", "speed", "queue, summed over moves", "lower"),
        Metric("{wait}_wait_s", "s", "speed", "wait for {wait}, summed over moves", "lower"),
        Metric("device_s", "s", "speed", "time in devices, summed over moves", "lower"),
        Metric("host_s", "s", "speed", "time in the host, summed over moves", "lower"),
        Metric("verify_s", "s", "speed", "making and checking bytes, summed over moves", "lower"),
        Metric(
            "nvme_device_{direction}_s",
            "s",
            "speed",
            "time of nvme {direction}s in the device, summed over moves",
            "lower",
            tier="nvme",
        ),
        Metric("nvme_busy_share", "share", "speed", "time in which nvme was busy", tier="nvme"),
        Metric("bottleneck", "", "speed", "bottleneck"),
    ),
    break_even: (
        Metric("{tier}_break_even_tok_s", "tok/s", "speed", "prefill speed that reading from {tier} beats", "higher"),
    ),
}
