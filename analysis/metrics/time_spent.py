"""Where the time went, and what held the run back."""

import polars as pl

from analysis.log import Log
from analysis.metrics.wear import device as device_counters
from analysis.terms import ELAPSED_S, OK, SERVED, SIDES
from replayer.schema import TIERS

_BUSY_CPU = 0.9


def time_spent(log: Log) -> pl.LazyFrame:
    """Seconds summed over moves, so that they add up to more than the run; and the run's own idle time.

    idle_s: time between the first start and the last end in no due … end of any move: the workload itself paused.
    plan_wait_s, queue_s: Σ (ready − due), Σ (start − ready).
    device_s: Σ time in system calls that move data, and memory copies.
    host_s: Σ (read_ns + write_ns) − device_s: opening, closing, the interpreter.
    verify_s: Σ making and checking bytes, outside all other times.
    nvme_device_{side}_s: the nvme tier's part of device_s, of moves that did not fail.
    bottleneck: `cpu` where the replayer kept 90% of the cores busy; else `source` where it idled more than half of the
        run; else the largest of plan, queue, host and device.
    """
    device = pl.col("device_read_ns") + pl.col("device_write_ns")
    host = (pl.col("read_ns") + pl.col("write_ns") - device).sum()
    sums = log.cells.select(
        plan_wait_s=pl.col("plan_wait_ns").sum() / 1e9,
        queue_s=pl.col("queue_ns").sum() / 1e9,
        device_s=device.sum() / 1e9,
        host_s=host.clip(0) / 1e9,
        verify_s=pl.col("verify_ns").sum() / 1e9,
        **{
            f"nvme_device_{s}_s": pl.col(f"device_{s}_ns").filter(SIDES[f"nvme_{s}"]).sum() / 1e9
            for s in ("read", "write")
        },
        elapsed=ELAPSED_S,
    )
    due, end = pl.col("due_ns").sort(), pl.col("end_ns").sort()
    idle = log.moves.select(idle_s=(due.shift(-1) - end).clip(0).sum() / 1e9)
    cpu = device_counters(log).select(cpu="cpu_share")
    words = ["plan", "queue", "host", "device"]
    largest = pl.concat_list("plan_wait_s", "queue_s", "host_s", "device_s").list.arg_max()
    return (
        pl.concat([sums, idle, cpu], how="horizontal")
        .with_columns(
            bottleneck=pl.when(pl.col("cpu") >= _BUSY_CPU)
            .then(pl.lit("cpu"))
            .when(pl.col("idle_s") > pl.col("elapsed") / 2)
            .then(pl.lit("source"))
            .otherwise(largest.replace_strict(dict(enumerate(words)), default=None, return_dtype=pl.String))
        )
        .drop("elapsed", "cpu")
    )


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
