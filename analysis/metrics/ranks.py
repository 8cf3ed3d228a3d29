"""Sums and maxima over ranks, which MLPerf reports, next to the pooled metrics."""

from typing import Final

import polars as pl

from analysis.log.columns import GIB, SIDES, SIZE, share
from analysis.log.log import Log
from analysis.metrics.metric import Declared, Metric


def ranks(log: Log) -> pl.LazyFrame:
    """Sums and maxima over ranks measured alone; null for one rank. Other metrics pool ranks.

    rank_sum_wall_clock_tok_s: Σ over ranks of new_tokens / the rank's own elapsed time, elapsed_s
        in a cut run.
    {tier}_{direction}_rank_sum_gib_s: Σ over ranks of bytes / the same time.
    {tier}_{direction}_rank_max_p95_ms: largest P95 of a rank, of total times.
    {tier}_{direction}_device_rank_max_p95_ms: largest P95 of a rank, of device times, which
        MLPerf's rules name.
    """
    if log.ranks < 2:
        names = [pooled.meta.output_name() for pooled in _pool_ranks()]
        return pl.LazyFrame(schema=dict.fromkeys(names, pl.Float64)).clear(1)
    moves = log.moves
    elapsed_s = (pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e9
    weight = pl.lit(1.0)
    if log.cut_ns is not None and log.window is not None:
        moves = log.every_move
        elapsed_s = log.elapsed_s
        weight = share(*log.window)
    per_rank = moves.group_by("rank").agg(
        ((pl.col("new_tokens") * weight).sum() / elapsed_s).alias("rank_sum_wall_clock_tok_s"),
        *(
            ((SIZE * weight).filter(rows).sum() / GIB / elapsed_s).alias(
                f"{touched}_rank_sum_gib_s",
            )
            for touched, rows in SIDES.items()
        ),
        *(
            _p95_ms(f"{clock}{touched.split('_')[1]}_ns", rows).alias(
                f"{touched}_{clock}rank_max_p95_ms",
            )
            for touched, rows in SIDES.items()
            for clock in ("", "device_")
        ),
    )
    return per_rank.select(_pool_ranks())


def _p95_ms(column: str, rows: pl.Expr) -> pl.Expr:
    """Compute the P95 of a column in ns over rows that are not warm-up."""
    return pl.col(column).filter(rows & ~pl.col("warmup")).quantile(0.95, "linear") / 1e6


def _pool_ranks() -> list[pl.Expr]:
    """Add up the rates of the ranks, and take their largest times."""
    pooled = [pl.col("rank_sum_wall_clock_tok_s").sum()]
    for touched in SIDES:
        pooled.append(pl.col(f"{touched}_rank_sum_gib_s").sum())
        pooled.append(pl.col(f"{touched}_rank_max_p95_ms").max())
        pooled.append(pl.col(f"{touched}_device_rank_max_p95_ms").max())
    return pooled


METRICS: Final[Declared] = {
    ranks: (
        Metric(
            "rank_sum_wall_clock_tok_s",
            "tok/s",
            "speed",
            "throughput by the wall clock, sum over ranks",
            "higher",
        ),
        Metric(
            "{tier}_{direction}_rank_sum_gib_s",
            "GiB/s",
            "speed",
            "{tier} {direction}s, sum over ranks",
            "higher",
        ),
        Metric(
            "{tier}_{direction}_rank_max_p95_ms",
            "ms",
            "speed",
            "{tier} {direction}s, P95 per object of the worst rank",
            "lower",
            percentile="p95",
        ),
        Metric(
            "{tier}_{direction}_device_rank_max_p95_ms",
            "ms",
            "speed",
            "{tier} {direction}s, P95 in the device per object of the worst rank",
            "lower",
            percentile="p95",
        ),
    ),
}
