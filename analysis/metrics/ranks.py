"""What MLPerf reports of several clients: sums and maxima over ranks, beside the pooled figures."""

from collections.abc import Iterator

import polars as pl

from analysis.log import Log
from analysis.terms import ELAPSED_S, GIB, SIDES, SIZE


def ranks(log: Log) -> pl.LazyFrame:
    """Each rank judged alone, then summed or the worst taken; null where there is one. All else pools the ranks.

    rank_sum_wall_clock_tok_s: Σ over ranks of its tokens / its own elapsed time.
    {tier}_{side}_rank_sum_gib_s: Σ over ranks of its bytes / its own elapsed time.
    {tier}_{side}_rank_max_p95_ms: the largest P95 of a rank, of total times.
    {tier}_{side}_device_rank_max_p95_ms: the same of device times, what MLPerf's rules name.
    """
    if log.ranks < 2:
        return pl.LazyFrame(schema=dict.fromkeys(_names(), pl.Float64)).clear(1)
    each = log.moves.group_by("rank").agg(
        (pl.col("new_tokens").sum() / ELAPSED_S).alias("rank_sum_wall_clock_tok_s"),
        *((SIZE.filter(rows).sum() / GIB / ELAPSED_S).alias(f"{side}_rank_sum_gib_s") for side, rows in SIDES.items()),
        *(
            (pl.col(f"{clock}{side.split('_')[1]}_ns").filter(rows).quantile(0.95, "linear") / 1e6).alias(
                f"{side}_{clock}rank_max_p95_ms"
            )
            for side, rows in SIDES.items()
            for clock in ("", "device_")
        ),
    )
    return each.select(pl.col(name).max() if name.endswith("_ms") else pl.col(name).sum() for name in _names())


def _names() -> Iterator[str]:
    yield "rank_sum_wall_clock_tok_s"
    for side in SIDES:
        yield from (f"{side}_rank_sum_gib_s", f"{side}_rank_max_p95_ms", f"{side}_device_rank_max_p95_ms")
