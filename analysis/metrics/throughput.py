"""Tokens per second, by the wall clock and by time spent in storage."""

import polars as pl

from analysis.log import ELAPSED_S


def throughput(log: pl.LazyFrame) -> pl.LazyFrame:
    """tokens_generated = Σ new_tokens; elapsed_s = last end − first start; storage_io_s = Σ (end − start).

    wall_clock_tok_s divides by elapsed_s, storage_tok_s by storage_io_s, which leaves out making and checking bytes.
    It is per unit of concurrency, so it is read beside mean_inflight = storage_io_s / elapsed_s;
    cache_io_tokens_per_sec is kv-cache.py's name for it.
    """
    return log.select(
        tokens_generated=pl.col("new_tokens").cast(pl.Int64).sum(),
        elapsed_s=ELAPSED_S,
        storage_io_s=(pl.col("end_ns") - pl.col("start_ns")).sum() / 1e9,
    ).with_columns(
        wall_clock_tok_s=pl.col("tokens_generated") / pl.col("elapsed_s"),
        storage_tok_s=pl.col("tokens_generated") / pl.col("storage_io_s"),
        cache_io_tokens_per_sec=pl.col("tokens_generated") / pl.col("storage_io_s"),
        mean_inflight=pl.col("storage_io_s") / pl.col("elapsed_s"),
    )
