"""Tokens per second, by the wall clock and by time spent in storage."""

import polars as pl

from analysis.log.columns import GIB, OK, SERVED, SIDES, SIZE, TOUCHES
from analysis.log.log import Log
from replayer.schema import TIERS

_TOKENS = pl.col("new_tokens").sum()


def throughput(log: Log) -> pl.LazyFrame:
    """How much was generated, and how fast.

    tokens_generated: Σ new_tokens of ops in the log.
    elapsed_s: last end − first start; of a run that was cut, cut − end of the warm-up (where there was none, the first
        start).
    storage_io_s: Σ (end − start) over moves, of a cut run inside elapsed_s; waiting, making and checking bytes
        excluded, evictions included.
    wall_clock_tok_s: tokens_generated / elapsed_s.
    requests_per_s: requests that began, by their first start, inside elapsed_s / elapsed_s.
    storage_tok_s, cache_io_tokens_per_sec: tokens_generated / storage_io_s; per unit of concurrency, so read it beside
        mean_inflight. kv-cache.py's storage throughput and its name for it.
    mean_inflight: storage_io_s / elapsed_s.
    drained_bytes, drained_tokens: bytes read from and written to tiers, and new_tokens, × share of start … end after
        the cut; 0 where nothing was cut.
    """
    io_s = pl.col("io_ns").sum() / 1e9
    counted = log.cells.select(tokens_generated=_TOKENS)
    rates = log.rated.select(
        elapsed_s=log.elapsed_s,
        storage_io_s=io_s,
        wall_clock_tok_s=_TOKENS / log.elapsed_s,
        storage_tok_s=_TOKENS / io_s,
        cache_io_tokens_per_sec=_TOKENS / io_s,
        mean_inflight=io_s / log.elapsed_s,
    )
    return pl.concat([counted, rates, _begun(log), _drained(log)], how="horizontal")


def _begun(log: Log) -> pl.LazyFrame:
    begin, end = log.window or (0, 0)
    begun = pl.col("start_ns").is_between(begin, end).sum()
    return log.requests.select(requests_per_s=begun / log.elapsed_s)


def _drained(log: Log) -> pl.LazyFrame:
    if log.cut_ns is None or log.span is None or log.span[1] <= log.cut_ns:
        return pl.LazyFrame({"drained_bytes": 0.0, "drained_tokens": 0.0})
    moved = pl.sum_horizontal(
        SIZE.filter(SIDES[f"{tier}_{side}"]).sum() for tier in TIERS for side in ("read", "write")
    )
    return log.within(log.cut_ns, log.span[1]).select(drained_bytes=moved, drained_tokens=_TOKENS)


def steady(log: Log) -> pl.LazyFrame:
    """The same without ramp and drain: from the end of the warm-up to the cut, else to the last start.

    steady_s: that end − end of the warm-up (where there was none, the first start).
    steady_tok_s: Σ new_tokens × share of start … end within / steady_s; moves of the warm-up that end later count, too.
    steady_decode_read_gib_s: bytes of decode hits × that share / steady_s, in GiB.
    steady_nvme_read_gib_s, steady_nvme_write_gib_s: bytes that nvme read or wrote × that share / steady_s, in GiB.
    """
    sizes = {
        "steady_decode_read_gib_s": OK & SERVED & (pl.col("phase") == "decode"),
        **{f"steady_nvme_{side}_gib_s": SIDES[f"nvme_{side}"] for side in TOUCHES},
    }
    if log.window is None:  # all of it is warm-up
        return pl.LazyFrame(schema=dict.fromkeys(("steady_s", "steady_tok_s", *sizes), pl.Float64)).clear(1)
    begin, end = log.window
    if log.cut_ns is None:
        begin = begin if log.warm_end_ns is None else log.warm_end_ns
        end = log.cells.select(pl.col("last_start_ns").max()).collect().item()
    seconds = (end - begin) / 1e9
    rates = {name: SIZE.filter(which).sum() / GIB / seconds for name, which in sizes.items()}
    return log.within(begin, end).select(
        pl.lit(seconds).alias("steady_s"), (_TOKENS / seconds).alias("steady_tok_s"), **rates
    )
