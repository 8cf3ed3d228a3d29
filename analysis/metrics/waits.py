"""What requests wait for, and whether they keep their class's target."""

import polars as pl

from analysis.log import REQUEST_TIMES, Log
from analysis.spreads import STATS
from analysis.terms import GIB
from tracegen.schema import ENUMS


def waits(log: Log) -> pl.LazyFrame:
    """Times per request, without the evictions it caused for others, then their distribution over requests.

    requests: how many there were.
    queue_{stat}_ms: Σ (start − ready): a worker, a buffer or a permit was not free.
    plan_wait_{stat}_ms: Σ (ready − due): the plan's order demanded it.
    lateness_{stat}_ms: first start − first due; under pace open due is the scheduled time, so that a late start counts.
    ttfb_{stat}_ms: last end of phase prefill − first due: queue, prefix, history and prefill, till decoding can begin.
    generation_{stat}_ms: Σ new_tokens × ms per token.
    e2e_{stat}_ms: first due to the last end + generation.
    """
    found = {row["measure"]: row for row in log.waits.filter(pl.col("qos") == "all").iter_rows(named=True)}
    values = {f"{name}_{stat}_ms": found.get(name, {}).get(f"{stat}_ms") for name in REQUEST_TIMES for stat in STATS}
    counted = pl.LazyFrame({"requests": [found.get("queue", {"count": 0})["count"]]}, schema={"requests": pl.Int64})
    times = pl.LazyFrame({n: [v] for n, v in values.items()}, schema=dict.fromkeys(values, pl.Float64))
    return pl.concat([counted, times], how="horizontal")


def qos(log: Log) -> pl.LazyFrame:
    """Latency per QoS class against its target: 50, 100 and 1,000 ms, changed by --qos-ms, longer by --qos-ms-per-gib.

    {qos}_requests: requests of the class.
    {qos}_ttfb_p95_ms: P95 of their time to first byte.
    {qos}_compliance: share of them whose ttfb is at most target + ms per GiB × GiB moved before the first token.
    {qos}_kept: 1 where that share is 95% or more, else 0.
    """
    targets = log.targets
    allowed_ms = targets.qos_ms_per_gib * pl.col("prefill_bytes") / GIB
    kept = REQUEST_TIMES["ttfb"] / 1e6 <= pl.col("target_ms") + allowed_ms
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
