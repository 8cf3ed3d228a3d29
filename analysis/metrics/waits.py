"""What requests wait for."""

import polars as pl

from analysis.log import QUANTILES


def waits(log: pl.LazyFrame) -> pl.LazyFrame:
    """Per request, then mean, p50, p95, p99, p999 and max over requests; without the evictions it caused for others.

    queue_ms = Σ (start − ready): a worker or a buffer was not free. plan_wait_ms = Σ (ready − due): the plan's order
    demanded it. lateness_ms = first start − first due. generation_ms = Σ new_tokens × ms per token. e2e_ms = first due
    to last end + generation. Under pace open due is the scheduled time, so that a late start counts.
    """
    per_request = (
        log.filter(~pl.col("move").is_in(["demote", "drop"]))
        .group_by("rank", "request_id")
        .agg(
            queue_ms=(pl.col("start_ns") - pl.col("ready_ns")).sum() / 1e6,
            plan_wait_ms=(pl.col("ready_ns") - pl.col("due_ns")).sum() / 1e6,
            lateness_ms=(pl.col("start_ns").min() - pl.col("due_ns").min()) / 1e6,
            generation_ms=pl.col("generation_ns").sum() / 1e6,
            e2e_ms=((pl.col("end_ns") + pl.col("generation_ns")).max() - pl.col("due_ns").min()) / 1e6,
        )
    )
    names = ["queue", "plan_wait", "lateness", "generation", "e2e"]
    return per_request.select(
        *(pl.col(f"{name}_ms").mean().alias(f"{name}_mean_ms") for name in names),
        *(pl.col(f"{n}_ms").quantile(q, "linear").alias(f"{n}_{k}_ms") for n in names for k, q in QUANTILES.items()),
        *(pl.col(f"{name}_ms").max().alias(f"{name}_max_ms") for name in names),
    )
