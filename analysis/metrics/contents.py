"""What lies in the tiers when a run has ended."""

import polars as pl

from analysis.log.columns import OK, SIZE
from analysis.log.log import Log
from replayer.schema import TIERS

_ROWS = pl.col("rows")


def contents(log: Log) -> pl.LazyFrame:
    """What lies in each tier after the last move, what the warm-up left included.

    {tier}_left_objects: moves into the tier (stores, demotions) − moves out of it (demotions, drops, promotions,
        deletes), of those that did not fail.
    {tier}_left_bytes: the same in bytes.
    {tier}_left_share: left_objects / those of all tiers; null where nothing lies in any.
    """
    into, out = pl.col("move").is_in(["store", "demote"]), pl.col("move").is_in(["demote", "drop", "promote", "delete"])

    def left(value: pl.Expr, tier: str) -> pl.Expr:
        entered, gone = into & (pl.col("to_tier") == tier), out & (pl.col("from_tier") == tier)
        return value.filter(OK & entered).sum() - value.filter(OK & gone).sum()

    counted = log.every_cell.select(
        **{f"{tier}_left_objects": left(_ROWS, tier) for tier in TIERS},
        **{f"{tier}_left_bytes": left(SIZE, tier) for tier in TIERS},
    )
    every = pl.sum_horizontal(f"{tier}_left_objects" for tier in TIERS)
    return counted.with_columns(
        pl.when(every > 0).then(pl.col(f"{tier}_left_objects") / every).alias(f"{tier}_left_share") for tier in TIERS
    )
