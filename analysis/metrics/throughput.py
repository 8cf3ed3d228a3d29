"""Tokens per second, and what decoding reads, prefill writes and nvme moves."""

from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import GIB, OK, SERVED, SIDES, SIZE, STORED, TOUCHES
from analysis.log.log import Log
from analysis.metrics.metric import Declared, Metric, make_row
from replayer.schema import TIERS

_TOKENS = col("new_tokens").sum()


def throughput(log: Log) -> pl.LazyFrame:
    """Tokens generated, and how fast.

    tokens_generated: Σ new_tokens of the ops in the log.
    elapsed_s: last end − first start; in a cut run, cut − end of the warm-up (first start if there
        was no warm-up).
    storage_io_s: Σ (end − start) over moves, in a cut run only the part inside elapsed_s. It
        includes evictions, and excludes waiting and the making and checking of bytes.
    wall_clock_tok_s: tokens_generated / elapsed_s.
    requests_per_s: requests whose first start is inside elapsed_s / elapsed_s.
    storage_tok_s: tokens_generated / storage_io_s: throughput per unit of concurrency, to be read
        together with mean_inflight. kv-cache.py calls it storage throughput.
    mean_inflight: storage_io_s / elapsed_s.
    drained_bytes: Σ bytes read from and written to tiers × the share of start … end after the cut;
        0 in a run that was not cut.
    """
    io_s = col("io_ns").sum() / 1e9
    totals = log.cells.select(tokens_generated=_TOKENS)
    rates = log.rated.select(
        elapsed_s=log.elapsed_s,
        storage_io_s=io_s,
        wall_clock_tok_s=_TOKENS / log.elapsed_s,
        storage_tok_s=_TOKENS / io_s,
        mean_inflight=io_s / log.elapsed_s,
    )
    return pl.concat([totals, rates, _begin_rate(log), _sum_drain(log)], how="horizontal")


def _begin_rate(log: Log) -> pl.LazyFrame:
    """Compute the rate at which requests began."""
    begin, end = log.window or (0, 0)
    count = col("start_ns").is_between(begin, end).sum()
    return log.every_request.lazy().select(requests_per_s=count / log.elapsed_s)


def _sum_drain(log: Log) -> pl.LazyFrame:
    """Sum the bytes after the cut."""
    if log.cut_ns is None or log.span is None or log.span[1] <= log.cut_ns:
        return make_row({"drained_bytes": 0.0})
    moved = pl.sum_horizontal(
        SIZE.filter(SIDES[f"{tier}_{direction}"]).sum() for tier in TIERS for direction in TOUCHES
    )
    return log.within(log.cut_ns, log.span[1]).select(drained_bytes=moved)


def steady(log: Log) -> pl.LazyFrame:
    """Rates without ramp and drain: from the end of the warm-up to the cut, else to the last start.

    steady_s: length of that time; it begins with the first start if there was no warm-up.
    steady_tok_s: Σ new_tokens × the share of start … end inside that time / steady_s; moves of the
        warm-up that end inside it count as well.
    steady_decode_read_gib_s: Σ bytes of decode hits × the same share / steady_s.
    steady_nvme_{direction}_gib_s: Σ bytes that nvme read or wrote × the same share / steady_s.
    """
    sizes = {
        "steady_decode_read_gib_s": OK & SERVED & (col("phase") == "decode"),
        **{f"steady_nvme_{direction}_gib_s": SIDES[f"nvme_{direction}"] for direction in TOUCHES},
    }
    if log.window is None:  # the whole run is warm-up
        names = ("steady_s", "steady_tok_s", *sizes)
        return make_row(dict.fromkeys(names))
    begin, end = log.window
    if log.cut_ns is None:
        begin = begin if log.warm_end_ns is None else log.warm_end_ns
        end = log.cells.select(col("last_start_ns").max()).collect().item()
    seconds = (end - begin) / 1e9
    rates = {name: SIZE.filter(rows).sum() / GIB / seconds for name, rows in sizes.items()}
    return log.within(begin, end).select(
        pl.lit(seconds).alias("steady_s"), (_TOKENS / seconds).alias("steady_tok_s"), **rates
    )


def data(log: Log) -> pl.LazyFrame:
    """Bytes and tokens that decoding reads, prefill writes, and nvme moves.

    decode_read_bytes: Σ bytes of hits in phase decode.
    decode_read_gib_s: decode_read_bytes / elapsed_s.
    {tier}_decode_read_bytes: the part of decode_read_bytes that the tier served.
    prefill_write_bytes: Σ bytes of stores, including those of recomputed KV and of promoted
        objects.
    {tier}_prefill_write_bytes: the part of prefill_write_bytes that went to the tier.
    nvme_tokens_processed: Σ tokens of moves from or to nvme, including demotions and copies.
    """
    decode, stored = OK & SERVED & (col("phase") == "decode"), OK & STORED
    totals = log.cells.select(
        decode_read_bytes=SIZE.filter(decode).sum(),
        **{f"{tier}_decode_read_bytes": SIZE.filter(decode & (col("from_tier") == tier)).sum() for tier in TIERS},
        prefill_write_bytes=SIZE.filter(stored).sum(),
        **{f"{tier}_prefill_write_bytes": SIZE.filter(stored & (col("to_tier") == tier)).sum() for tier in TIERS},
        nvme_tokens_processed=col("tokens").filter(SIDES["nvme_read"] | SIDES["nvme_write"]).sum(),
    )
    rates = log.rated.select(decode_read_gib_s=SIZE.filter(decode).sum() / GIB / log.elapsed_s)
    return pl.concat([totals, rates], how="horizontal")


METRICS: Final[Declared] = {
    throughput: (
        Metric("tokens_generated", "tokens", "work", "tokens generated"),
        Metric("elapsed_s", "s", "speed", "elapsed, until the cut in a cut run", "lower"),
        Metric("storage_io_s", "s", "speed", "time in storage I/O, summed over moves", "lower"),
        Metric("wall_clock_tok_s", "tok/s", "speed", "throughput by the wall clock", "higher"),
        Metric("requests_per_s", "requests/s", "speed", "requests begun", "higher"),
        Metric("storage_tok_s", "tok/s", "speed", "storage throughput (per move in flight)", "higher"),
        Metric("mean_inflight", "ratio", "speed", "moves in flight, mean"),
        Metric("drained_bytes", "bytes", "speed", "moved in the drain"),
    ),
    steady: (
        Metric("steady_s", "s", "speed", "time without ramp and drain", "lower"),
        Metric("steady_tok_s", "tok/s", "speed", "throughput without ramp and drain", "higher"),
        Metric("steady_decode_read_gib_s", "GiB/s", "speed", "decode reads without ramp and drain", "higher"),
        Metric(
            "steady_nvme_{direction}_gib_s",
            "GiB/s",
            "speed",
            "nvme {direction}s without ramp and drain",
            "higher",
            tier="nvme",
        ),
    ),
    data: (
        Metric("decode_read_bytes", "bytes", "work", "decode reads"),
        Metric("decode_read_gib_s", "GiB/s", "speed", "decode reads", "higher"),
        Metric("{tier}_decode_read_bytes", "bytes", "work", "decode reads from {tier}"),
        Metric("prefill_write_bytes", "bytes", "work", "prefill writes"),
        Metric("{tier}_prefill_write_bytes", "bytes", "work", "prefill writes to {tier}"),
        Metric("nvme_tokens_processed", "tokens", "work", "tokens moved from or to nvme", tier="nvme"),
    ),
}
