"""Where the time went, and what held the run back."""

import polars as pl

from analysis.log.columns import CAUSES, OK, SERVED, SIDES, waited
from analysis.log.log import Log
from analysis.log.quantiles import ascending, gaps_ns
from analysis.metrics.wear import device as device_counters
from replayer.schema import TIERS

_BUSY_CPU = 0.9
_BUSY_WORKERS = 0.8


def time_spent(log: Log) -> pl.LazyFrame:
    """Seconds summed over moves, so that they add up to more than the run; and the run's own idle time.

    idle_s: time between the first start and the last end in no due … end of any move: the workload itself paused.
    plan_wait_s, queue_s: Σ (ready − due), Σ (start − ready).
    {wait}_wait_s: Σ of the part of plan_wait_s that waited for it: data, earlier moves of the same object; eviction,
        those of the same op; room, what other ops free; order, ops that were not due themselves, so that nothing was at
        work for it; window, that the replayer's window holds the op.
    device_s: Σ time in system calls that move data, and memory copies.
    host_s: Σ (read_ns + write_ns) − device_s: opening, closing, the interpreter.
    verify_s: Σ making and checking bytes, outside all other times.
    nvme_device_{side}_s: the nvme tier's part of device_s, of moves that did not fail.
    bottleneck: what held the run back, by the first that applies: `source` where it idled for more than half of the
        time from the first start to the last end; `cpu` where cpu_share is 0.9 or more, or where system_cpu_share is
        and what follows says `queue` or `host`; where workers are busy, that is (Σ (end − start) + verify) / elapsed_s
        is 0.8 of the workers or more, or where moves waited no longer than that, the largest of `device`, `host` and
        `verify`; else the longest wait of `data`, `eviction`, `room`, `order`, `window`, `queue` and `plan` (none of
        these known: logs of version 1). Of a cut run sums go by the share of each move inside elapsed_s.
    """
    device = (pl.col("device_read_ns") + pl.col("device_write_ns")).sum()
    host = ((pl.col("read_ns") + pl.col("write_ns")).sum() - device).clip(0)
    waits = {cause: waited(cause, pl.col("plan_wait_ns")).sum() for cause in CAUSES}
    sums = log.cells.select(
        plan_wait_s=pl.col("plan_wait_ns").sum() / 1e9,
        queue_s=pl.col("queue_ns").sum() / 1e9,
        **{f"{cause}_wait_s": wait / 1e9 for cause, wait in waits.items()},
        device_s=device / 1e9,
        host_s=host / 1e9,
        verify_s=pl.col("verify_ns").sum() / 1e9,
        **{
            f"nvme_device_{s}_s": pl.col(f"device_{s}_ns").filter(SIDES[f"nvme_{s}"]).sum() / 1e9
            for s in ("read", "write")
        },
    )
    work = {"device": device, "host": host, "verify": pl.col("verify_ns").sum()}
    waits |= {
        "queue": pl.col("queue_ns").sum(),
        "plan": pl.col("plan_wait_ns").sum() - pl.sum_horizontal(waits.values()),
    }
    busy_ns = (pl.col("io_ns") + pl.col("verify_ns")).sum()
    busy = (busy_ns >= _BUSY_WORKERS * log.workers * log.elapsed_s * 1e9) | (
        busy_ns >= pl.sum_horizontal(waits.values())
    )
    spent = log.rated.select(work=pl.when(busy).then(_largest(work)).otherwise(_largest(waits)))
    first, last = log.span or (0, 0)
    idle_ns = _idle_ns(log)
    counted = device_counters(log).select("cpu_share", "system_cpu_share")
    starved = (pl.col("system_cpu_share") >= _BUSY_CPU) & pl.col("work").is_in(["queue", "host"])
    held = pl.concat([counted, spent], how="horizontal").select(
        idle_s=pl.lit(idle_ns / 1e9),
        bottleneck=pl.when(idle_ns * 2 > last - first)
        .then(pl.lit("source"))
        .when((pl.col("cpu_share") >= _BUSY_CPU) | starved)
        .then(pl.lit("cpu"))
        .otherwise("work"),
    )
    return pl.concat([sums, held], how="horizontal")


def _idle_ns(log: Log) -> int:
    due, end = (
        ascending(pl.concat(stretch.select(stamp).collect(engine="streaming") for stretch in log.stretches)[stamp])
        for stamp in ("due_ns", "end_ns")
    )
    return gaps_ns(due, end)


def _largest(sums: dict[str, pl.Expr]) -> pl.Expr:
    """The name of the largest; of equal ones the first."""
    place = pl.concat_list(*(value.cast(pl.Float64) for value in sums.values())).list.arg_max()
    return place.replace_strict(dict(enumerate(sums)), default=None, return_dtype=pl.String)


def break_even(log: Log) -> pl.LazyFrame:
    """When a cached object is worth reading.

    {tier}_break_even_tok_s: tokens of the tier's hits / Σ their read times: a prefill that computes more tokens per
        second for one request is quicker than reading them back.
    """
    return log.cells.select(
        pl.when(pl.col("read_ns").filter(hits).sum() > 0)
        .then(pl.col("tokens").filter(hits).sum() / (pl.col("read_ns").filter(hits).sum() / 1e9))
        .alias(f"{tier}_break_even_tok_s")
        for tier in TIERS
        for hits in (OK & SERVED & (pl.col("from_tier") == tier),)
    )
