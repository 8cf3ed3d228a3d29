"""Seconds of a run by what took them, its bottleneck, and the prefill speed that reading beats."""

from typing import Final

import polars as pl

from analysis.log.columns import CAUSES, OK, SERVED, SIDES, TOUCHES, waited
from analysis.log.log import Log
from analysis.log.quantiles import ascending, gaps_ns
from analysis.metrics.metric import Declared, Metric
from analysis.metrics.wear import device as device_counters
from replayer.schema import TIERS

_BUSY_CPU: Final = 0.9
_BUSY_WORKERS: Final = 0.8


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
    bottleneck: what held the run back; the first rule that applies. `source`: idle_s is more than
        half of last end − first start. `cpu`: cpu_share is 0.9 or more; or system_cpu_share is, and
        the rules below give `queue` or `host`. The largest of `device`, `host` and `verify`: Σ (end
        − start) + verify_s is at least 0.8 × workers × elapsed_s, or at least the sum of all waits.
        Else the longest wait: `data`, `eviction`, `room`, `order`, `window`, `queue`, or `plan` for
        waits of an unknown cause (logs of version 1). In a cut run sums count each move by its
        share inside elapsed_s.
    """
    return pl.concat([_sum_times(log), _find_bottleneck(log)], how="horizontal")


def _device_ns() -> pl.Expr:
    return (pl.col("device_read_ns") + pl.col("device_write_ns")).sum()


def _host_ns() -> pl.Expr:
    return ((pl.col("read_ns") + pl.col("write_ns")).sum() - _device_ns()).clip(0)


def _waits_ns() -> dict[str, pl.Expr]:
    """Sum the plan waits by their cause."""
    return {cause: waited(cause, pl.col("plan_wait_ns")).sum() for cause in CAUSES}


def _sum_times(log: Log) -> pl.LazyFrame:
    return log.cells.select(
        plan_wait_s=pl.col("plan_wait_ns").sum() / 1e9,
        queue_s=pl.col("queue_ns").sum() / 1e9,
        **{f"{cause}_wait_s": wait / 1e9 for cause, wait in _waits_ns().items()},
        device_s=_device_ns() / 1e9,
        host_s=_host_ns() / 1e9,
        verify_s=pl.col("verify_ns").sum() / 1e9,
        **{
            f"nvme_device_{direction}_s": (
                pl.col(f"device_{direction}_ns").filter(SIDES[f"nvme_{direction}"]).sum() / 1e9
            )
            for direction in TOUCHES
        },
    )


def _find_bottleneck(log: Log) -> pl.LazyFrame:
    """Return the idle time and the bottleneck."""
    first_ns, last_ns = log.span or (0, 0)
    idle_ns = _idle_ns(log)
    counters = device_counters(log).select("cpu_share", "system_cpu_share")
    lacks_cpu = (pl.col("system_cpu_share") >= _BUSY_CPU) & pl.col("largest").is_in(
        ["queue", "host"],
    )
    return pl.concat([counters, _find_largest(log)], how="horizontal").select(
        idle_s=pl.lit(idle_ns / 1e9),
        bottleneck=pl.when(idle_ns * 2 > last_ns - first_ns)
        .then(pl.lit("source"))
        .when((pl.col("cpu_share") >= _BUSY_CPU) | lacks_cpu)
        .then(pl.lit("cpu"))
        .otherwise("largest"),
    )


def _find_largest(log: Log) -> pl.LazyFrame:
    """Name the largest part of the work if workers were busy, else the longest wait."""
    verify_ns = pl.col("verify_ns").sum()
    work = {"device": _device_ns(), "host": _host_ns(), "verify": verify_ns}
    waits = _waits_ns()
    waits |= {
        "queue": pl.col("queue_ns").sum(),
        "plan": pl.col("plan_wait_ns").sum() - pl.sum_horizontal(waits.values()),
    }
    busy_ns = (pl.col("io_ns") + pl.col("verify_ns")).sum()
    are_busy = (busy_ns >= _BUSY_WORKERS * log.workers * log.elapsed_s * 1e9) | (
        busy_ns >= pl.sum_horizontal(waits.values())
    )
    return log.rated.select(
        largest=pl.when(are_busy).then(_largest(work)).otherwise(_largest(waits)),
    )


def _idle_ns(log: Log) -> int:
    """Sum the gaps between the intervals due … end of all moves."""
    due_ns, end_ns = (
        ascending(
            pl.concat(rows.select(stamp).collect(engine="streaming") for rows in log.stretches)[stamp],
        )
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
    hits = OK & SERVED & (pl.col("from_tier") == tier)
    read_ns = pl.col("read_ns").filter(hits).sum()
    tokens = pl.col("tokens").filter(hits).sum()
    return pl.when(read_ns > 0).then(tokens / (read_ns / 1e9))


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
        Metric("bottleneck", "", "speed", "bottleneck"),
    ),
    break_even: (
        Metric(
            "{tier}_break_even_tok_s",
            "tok/s",
            "speed",
            "prefill speed that reading from {tier} beats",
            "higher",
        ),
    ),
}
