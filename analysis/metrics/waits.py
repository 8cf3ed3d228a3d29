"""What requests wait for, and whether they keep their class's target."""

import math

import polars as pl

from analysis.log.columns import CAUSES, GIB
from analysis.log.log import Log
from analysis.log.quantiles import STATS
from analysis.log.requests import REQUEST_TIMES
from tracegen.schema import ENUMS


def waits(log: Log) -> pl.LazyFrame:
    """Times per request, evictions left out, then their distribution over requests; null under pace asap, but two.

    requests: how many there were, under any pace.
    io_{stat}_ms: time in start … end of any of its moves, so that what ran at once counts once.
    queue_{stat}_ms: time in ready … start of any, none at work: a worker, a buffer or a permit was not free.
    plan_wait_{stat}_ms: time in due … ready of any, none at work or in the queue. io + queue + plan_wait ≤ e2e.
    {wait}_wait_mean_ms: the mean over requests of round(plan_wait × Σ of its moves' waits for that / Σ (ready − due)).
    {wait}_wait_share: Σ of that over requests / Σ of their e2e.
    lateness_{stat}_ms: first start − first due; under pace open due is the scheduled time, so that a late start counts.
    ttfb_{stat}_ms: TTFT (storage part): last end of phase prefill − first due: queue, prefix, history and prefill, till
        decoding can begin.
    generation_{stat}_ms: Σ new_tokens × ms per token, under any pace.
    e2e_{stat}_ms: first due to the last end + generation.
    other_mean_ms: e2e_mean_ms − those of io, queue, plan_wait and generation: computing prefill, checking bytes; below
        0 where ops of one step generate at once.
    """
    found = {row["measure"]: row for row in log.waits.filter(pl.col("qos") == "all").iter_rows(named=True)}
    values = {f"{name}_{stat}_ms": found.get(name, {}).get(f"{stat}_ms") for name in REQUEST_TIMES for stat in STATS}
    counted = pl.LazyFrame(
        {"requests": [found.get("generation", {"count": 0})["count"]]}, schema={"requests": pl.Int64}
    )
    values["other_mean_ms"] = _other(values)
    times = pl.LazyFrame({n: [v] for n, v in values.items()}, schema=dict.fromkeys(values, pl.Float64))
    return pl.concat([counted, times, _causes(log)], how="horizontal")


def _other(times: dict[str, float | None]) -> float | None:
    whole, *parts = (times[f"{name}_mean_ms"] for name in ("e2e", "io", "queue", "plan_wait", "generation"))
    return None if whole is None else whole - math.fsum(part or 0.0 for part in parts)


def _causes(log: Log) -> pl.LazyFrame:
    names = [f"{cause}_wait_{what}" for cause in CAUSES for what in ("mean_ms", "share")]
    if not log.timed:
        return pl.LazyFrame(schema=dict.fromkeys(names, pl.Float64)).clear(1)
    e2e = REQUEST_TIMES["e2e"]
    parts = {
        cause: pl.when(pl.col("blocked_ns") > 0)
        .then(pl.col("plan_wait_ns") * (pl.col(f"{cause}_wait_ns") / pl.col("blocked_ns")))
        .otherwise(0.0)
        .round()
        .cast(pl.Int64)  # whole nanoseconds: sums of floats depend on their order
        for cause in CAUSES
    }
    return log.requests.select(
        **{f"{cause}_wait_mean_ms": part.mean() / 1e6 for cause, part in parts.items()},
        **{f"{cause}_wait_share": pl.when(e2e.sum() > 0).then(part.sum() / e2e.sum()) for cause, part in parts.items()},
    )


def qos(log: Log) -> pl.LazyFrame:
    """Latency per QoS class against its target: 50, 100 and 1,000 ms, changed by --qos-ms, longer by --qos-ms-per-gib.

    {qos}_requests: requests of the class. Under pace asap, which times no requests, the others are null.
    {qos}_ttfb_p95_ms: P95 of their time to first byte.
    {qos}_compliance: share of them whose ttfb is at most target + ms per GiB × GiB moved before the first token.
    {qos}_kept: 1 where that share is 95% or more, else 0.
    """
    targets = log.targets
    allowed_ms = targets.qos_ms_per_gib * pl.col("prefill_bytes") / GIB
    ttfb = REQUEST_TIMES["ttfb"] if log.timed else pl.lit(None, pl.Int64)
    kept = ttfb / 1e6 <= pl.col("target_ms") + allowed_ms
    target_ms = {code: targets.qos_ms[word] for code, word in enumerate(ENUMS["qos"])}
    by_class = (
        log.requests.with_columns(target_ms=pl.col("qos").replace_strict(target_ms, default=None))
        .group_by("qos")
        .agg(requests=pl.len().cast(pl.Int64), compliance=kept.mean())
        .with_columns(kept=(pl.col("compliance") >= 0.95).cast(pl.Int64))
    )
    tails = {row["qos"]: row["p95_ms"] for row in log.waits.filter(pl.col("measure") == "ttfb").iter_rows(named=True)}
    return by_class.select(
        *(
            pl.col(name).filter(pl.col("qos") == code).first().alias(f"{word}_{name}")
            for code, word in enumerate(ENUMS["qos"])
            for name in ("compliance", "kept")
        ),
        *(
            pl.col("requests").filter(pl.col("qos") == n).sum().alias(f"{w}_requests")
            for n, w in enumerate(ENUMS["qos"])
        ),
        *(pl.lit(tails.get(word), pl.Float64).alias(f"{word}_ttfb_p95_ms") for word in ENUMS["qos"]),
    )
