"""Tokens per second, by the wall clock and by time spent in storage."""

import polars as pl

from analysis.log import Log
from analysis.terms import ELAPSED_S, GIB, IO, OK, SERVED, SIDES, SIZE, TOUCHES


def throughput(log: Log) -> pl.LazyFrame:
    """How much was generated, and how fast.

    tokens_generated: Σ new_tokens of executed ops.
    elapsed_s: last end − first start, drain included.
    storage_io_s: Σ (end − start) over moves; waiting, making and checking bytes excluded, evictions included.
    wall_clock_tok_s: tokens_generated / elapsed_s.
    storage_tok_s, cache_io_tokens_per_sec: tokens_generated / storage_io_s; per unit of concurrency, so read it beside
        mean_inflight. kv-cache.py's storage throughput and its name for it.
    mean_inflight: storage_io_s / elapsed_s.
    """
    tokens, io_s = pl.col("new_tokens").sum(), pl.col("io_ns").sum() / 1e9
    return log.cells.select(
        tokens_generated=tokens,
        elapsed_s=ELAPSED_S,
        storage_io_s=io_s,
        wall_clock_tok_s=tokens / ELAPSED_S,
        storage_tok_s=tokens / io_s,
        cache_io_tokens_per_sec=tokens / io_s,
        mean_inflight=io_s / ELAPSED_S,
    )


def steady(log: Log) -> pl.LazyFrame:
    """The same without ramp and drain: from the end of the warm-up to the last issue, moves that straddle it prorated.

    steady_s: last start − end of the warm-up (where there was none, the first start).
    steady_tok_s: Σ new_tokens × share of start … end within / steady_s; moves of the warm-up that end later count, too.
    steady_decode_read_gib_s: bytes of decode hits × that share / steady_s, in GiB.
    steady_nvme_read_gib_s, steady_nvme_write_gib_s: bytes that nvme read or wrote × that share / steady_s, in GiB.
    """
    first, last = log.cells.select(pl.col("start_ns").min(), pl.col("last_start_ns").max()).collect().row(0)
    sizes = {
        "steady_decode_read_gib_s": OK & SERVED & (pl.col("phase") == "decode"),
        **{f"steady_nvme_{side}_gib_s": SIDES[f"nvme_{side}"] for side in TOUCHES},
    }
    if last is None:  # all of it is warm-up
        return pl.LazyFrame(schema=dict.fromkeys(("steady_s", "steady_tok_s", *sizes), pl.Float64)).clear(1)
    begin = first if log.warm_end_ns is None else log.warm_end_ns
    inside = (pl.min_horizontal("end_ns", last) - pl.max_horizontal("start_ns", begin)).clip(0)
    share = pl.when(IO > 0).then(inside / IO).otherwise(pl.col("start_ns").is_between(begin, last).cast(pl.Float64))
    # Few moves straddle the edges: only theirs is taken off the sums, and added where it is of the warm-up.
    steady, straddling = ~pl.col("warmup"), (pl.col("end_ns") > last) | (pl.col("start_ns") < begin)
    late = pl.col("warmup") & (pl.col("end_ns") >= begin)
    edges = log.every_move.filter((steady & straddling) | late).with_columns(more=share - steady.cast(pl.Float64))
    values = {
        "steady_tok_s": (pl.col("new_tokens"), pl.lit(True)),
        **{name: (SIZE / GIB, m) for name, m in sizes.items()},
    }
    sums = log.cells.select(**{name: value.filter(which).sum() for name, (value, which) in values.items()})
    more = edges.select(
        **{f"{n}_more": (value * pl.col("more")).filter(which).sum() for n, (value, which) in values.items()}
    )
    seconds = pl.lit((last - begin) / 1e9)
    rates = {name: (pl.col(name) + pl.col(f"{name}_more")) / seconds for name in values}
    return pl.concat([sums, more], how="horizontal").select(steady_s=seconds, **rates)
