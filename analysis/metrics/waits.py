"""Times of requests, what they wait for, and whether they keep the target of their QoS class."""

import math
from dataclasses import replace
from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import CAUSES
from analysis.log.counted import REQUEST_TIMES
from analysis.log.log import Log
from analysis.log.quantiles import STATS
from analysis.metrics.metric import Declared, Metric, divide, make_row, samples_needed
from tracegen.schema import ENUMS


def waits(log: Log) -> pl.LazyFrame:
    """Times per request without its evictions and copies; null under pace asap except two.

    requests: requests that were due inside elapsed_s, those that never began included; under pace
        asap, requests whose first op is past the warm-up.
    unfinished_requests: of them, those that were not done when the run ended; null under pace asap,
        and if the run does not say.
    io_{stat}_ms: time in which at least one of the request's moves was between start and end; moves
        that ran at once count once.
    queue_{stat}_ms: time in which none ran and at least one was between ready and start: no worker,
        buffer or permit was free.
    plan_wait_{stat}_ms: time in which none ran or was in the queue, and at least one was between
        due and ready; io + queue + plan_wait ≤ e2e.
    plan_wait_share: Σ over requests of plan_wait / Σ over requests of e2e, also of unfinished ones.
    {wait}_wait_mean_ms: mean over requests of round(plan_wait × Σ waits of its moves for that cause
        / Σ (ready − due) of its moves).
    {wait}_wait_share: Σ over requests of the same term / Σ over requests of e2e.
    lateness_{stat}_ms: first start − first due. Under pace open due is the scheduled time, so that
        a late start counts.
    ttfb_{stat}_ms: TTFT (storage part): last end of phase prefill − first due. It covers the queue,
        the prefix, the history and the prefill, until decoding can begin.
    generation_{stat}_ms: Σ new_tokens × ms per token, under any pace.
    e2e_{stat}_ms: last end + generation − first due.
    other_mean_ms: e2e_mean_ms − io_mean_ms − queue_mean_ms − plan_wait_mean_ms −
        generation_mean_ms: computing prefill and checking bytes; below 0 if ops of one step
        generate at once.
    """
    values = _statistics(log.waits[0])
    values["other_mean_ms"] = _other(values)
    is_known = log.timed and log.request_bounds.unfinished is not None
    unfinished = col("unfinished").sum().cast(pl.Int64) if is_known else pl.lit(None, pl.Int64)
    requests = log.requests.lazy().select(requests=pl.len().cast(pl.Int64), unfinished_requests=unfinished)
    return pl.concat([requests, make_row(values), _causes(log)], how="horizontal")


def _statistics(table: pl.DataFrame) -> dict[str, float | None]:
    """Return the statistics of all measures over all requests, by metric."""
    rows = {row["measure"]: row for row in table.filter(col("qos") == "all").iter_rows(named=True)}
    return {
        f"{measure}_{stat}_ms": rows.get(measure, {}).get(f"{stat}_ms") for measure in REQUEST_TIMES for stat in STATS
    }


def find_lower_bounds(log: Log) -> dict[str, float]:
    """Return, by metric that unfinished requests leave unknown, the value that it exceeds."""
    known, seen = (_statistics(table) | _first_bytes(table) for table in log.waits)
    unknown = (name for name, value in known.items() if value is None)
    return {name: least for name in unknown if (least := seen[name]) is not None}


def _first_bytes(table: pl.DataFrame) -> dict[str, float | None]:
    """Return the P95 of the time to first byte of each class, by metric."""
    rows = table.filter(col("measure") == "ttfb").iter_rows(named=True)
    p95_ms = {row["qos"]: row["p95_ms"] for row in rows}
    return {f"{name}_ttfb_p95_ms": p95_ms.get(name) for name in ENUMS["qos"]}


def _other(times: dict[str, float | None]) -> float | None:
    """Subtract the known parts of a request's time from all of it, in ms."""
    measures = ("e2e", "io", "queue", "plan_wait", "generation")
    whole, *parts = (times[f"{measure}_mean_ms"] for measure in measures)
    return None if whole is None else whole - math.fsum(part or 0.0 for part in parts)


def _causes(log: Log) -> pl.LazyFrame:
    """Divide the plan waits of requests among their causes."""
    names = [f"{cause}_wait_{ending}" for cause in CAUSES for ending in ("mean_ms", "share")] + ["plan_wait_share"]
    if not log.timed:
        return make_row(dict.fromkeys(names))
    e2e = REQUEST_TIMES["e2e"]
    parts = {
        cause: pl.when(col("blocked_ns") > 0)
        .then(col("plan_wait_ns") * (col(f"{cause}_wait_ns") / col("blocked_ns")))
        .otherwise(0.0)
        .round()
        .cast(pl.Int64)  # whole nanoseconds: sums of floats depend on their order
        for cause in CAUSES
    }
    waited = {**parts, "plan": col("plan_wait_ns")}
    means = log.complete_requests("plan_wait", "all").select(
        **{f"{cause}_wait_mean_ms": part.mean() / 1e6 for cause, part in parts.items()}
    )
    shares = log.requests.lazy().select(
        **{f"{name}_wait_share": divide(part.sum(), e2e.sum()) for name, part in waited.items()}
    )
    return pl.concat([means, shares], how="horizontal")


def qos(log: Log) -> pl.LazyFrame:
    """Latency of QoS classes; targets 50, 100 and 1,000 ms, or `qos_ms`.

    {qos}_requests: requests of the class. The other metrics are null under pace asap, which times
        no requests.
    {qos}_ttfb_p95_ms: P95 of the class' time to first byte.
    {qos}_compliance: share of the class' requests with ttfb ≤ target.
    """
    ttfb_ms = (REQUEST_TIMES["ttfb"] if log.timed else pl.lit(None, pl.Int64)) / 1e6
    kept, counts = {}, {}
    for code, name in enumerate(ENUMS["qos"]):
        own = col("qos") == code
        kept[f"{name}_compliance"] = (ttfb_ms <= log.targets.qos_ms[name]).filter(own).mean()
        counts[f"{name}_requests"] = own.sum().cast(pl.Int64)
    known = {name: pl.lit(value, pl.Float64) for name, value in _first_bytes(log.waits[0]).items()}
    met = log.complete_requests("ttfb", "qos").select(**kept)
    return pl.concat([met, log.requests.lazy().select(**counts, **known)], how="horizontal")


def _declare(measure: str, label: str) -> Metric:
    """Describe the distribution of a time over requests."""
    return Metric(
        f"{measure}_{{stat}}_ms", "ms", "speed", f"{label}, {{stat}} per request", "lower", counted_by="requests"
    )


METRICS: Final[Declared] = {
    waits: (
        Metric("requests", "requests", "work", "requests"),
        Metric("unfinished_requests", "requests", "speed", "requests not done at the end"),
        _declare("io", "storage I/O"),
        _declare("queue", "queue"),
        _declare("plan_wait", "wait for the plan"),
        Metric("plan_wait_share", "share", "speed", "wait for the plan, share of e2e", "lower"),
        Metric("{wait}_wait_mean_ms", "ms", "speed", "wait for {wait}, mean", "lower"),
        Metric("{wait}_wait_share", "share", "speed", "wait for {wait}, share of e2e", "lower"),
        _declare("lateness", "lateness"),
        _declare("ttfb", "time to first byte (part of TTFT)"),
        replace(_declare("generation", "generation"), kind="work", better=None),
        _declare("e2e", "end to end"),
        Metric("other_mean_ms", "ms", "speed", "computing prefill, checking bytes, mean", "lower"),
    ),
    qos: (
        Metric("{qos}_requests", "requests", "work", "{qos} requests"),
        Metric(
            "{qos}_ttfb_p95_ms",
            "ms",
            "speed",
            "time to first byte, {qos}, P95 per request",
            "lower",
            percentile="p95",
            counted_by="{qos}_requests",
        ),
        Metric(
            "{qos}_compliance",
            "share",
            "speed",
            "{qos} requests within their target",
            "higher",
            least_samples=samples_needed("p95"),
            counted_by="{qos}_requests",
        ),
    ),
}
