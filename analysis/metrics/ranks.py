"""What MLPerf reports of several clients: sums and maxima over ranks, beside the pooled figures."""

from collections.abc import Iterator

import polars as pl

from analysis.log.columns import GIB, SIDES, SIZE, share
from analysis.log.log import Log


def ranks(log: Log) -> pl.LazyFrame:
    """Each rank judged alone, then summed or the worst taken; null where there is one. All else pools the ranks.

    rank_sum_wall_clock_tok_s: Σ over ranks of its tokens / its own elapsed time, of a cut run elapsed_s.
    {tier}_{side}_rank_sum_gib_s: Σ over ranks of its bytes / that time.
    {tier}_{side}_rank_max_p95_ms: the largest P95 of a rank, of total times.
    {tier}_{side}_device_rank_max_p95_ms: the same of device times, what MLPerf's rules name.
    """
    if log.ranks < 2:
        return pl.LazyFrame(schema=dict.fromkeys(_names(), pl.Float64)).clear(1)
    counted, elapsed_s, weight = log.moves, (pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e9, pl.lit(1.0)
    if log.cut_ns is not None and log.window is not None:
        counted, elapsed_s, weight = log.every_move, log.elapsed_s, share(*log.window)
    each = counted.group_by("rank").agg(
        ((pl.col("new_tokens") * weight).sum() / elapsed_s).alias("rank_sum_wall_clock_tok_s"),
        *(
            ((SIZE * weight).filter(rows).sum() / GIB / elapsed_s).alias(f"{side}_rank_sum_gib_s")
            for side, rows in SIDES.items()
        ),
        *(
            (
                pl.col(f"{clock}{side.split('_')[1]}_ns").filter(rows & ~pl.col("warmup")).quantile(0.95, "linear")
                / 1e6
            ).alias(f"{side}_{clock}rank_max_p95_ms")
            for side, rows in SIDES.items()
            for clock in ("", "device_")
        ),
    )
    return each.select(pl.col(name).max() if name.endswith("_ms") else pl.col(name).sum() for name in _names())


def _names() -> Iterator[str]:
    yield "rank_sum_wall_clock_tok_s"
    for side in SIDES:
        yield from (f"{side}_rank_sum_gib_s", f"{side}_rank_max_p95_ms", f"{side}_device_rank_max_p95_ms")
