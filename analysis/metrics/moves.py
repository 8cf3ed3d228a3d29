"""Moves of each kind, what they moved, what failed, and what they leave in the tiers."""

import polars as pl

from analysis.log.columns import OK, SERVED, SIDES, SIZE
from analysis.log.log import Log
from replayer.schema import MOVES, TIERS

NAMES = {kind: {"miss": "misses", "bypass": "bypasses"}.get(kind, f"{kind}s") for kind in MOVES}
_ROWS = pl.col("rows")


def moves(log: Log) -> pl.LazyFrame:
    """Counts of the log.

    {moves}: rows of that kind.
    {tier}_hits: hits and promotions that the tier served.
    {tier}_{side}s: moves that read or wrote the tier, evictions included.
    {tier}_{side}_bytes: bytes of those.
    logged_ops: ops, counted by their first rows.
    evictions: demotions + drops.
    read_write_ratio: bytes read / bytes written, all tiers.
    recomputed_tokens: tokens of misses and bypasses, an op counted once.
    failed_moves: rows of status error.
    upstream_moves: rows given up because an earlier move on their key had failed.
    """
    return _counts(log.cells)


def logged(log: Log) -> pl.LazyFrame:
    """The same of every row, warm-up included, which is what the plan counts."""
    return _counts(log.every_cell)


def _counts(cells: pl.LazyFrame) -> pl.LazyFrame:
    read, written = (
        pl.sum_horizontal(SIZE.filter(SIDES[f"{tier}_{side}"]).sum() for tier in TIERS) for side in ("read", "write")
    )
    bypass = pl.col("move") == "bypass"
    return cells.select(
        **{NAMES[kind]: _ROWS.filter(pl.col("move") == kind).sum() for kind in MOVES},
        **{f"{tier}_hits": _ROWS.filter(OK & SERVED & (pl.col("from_tier") == tier)).sum() for tier in TIERS},
        **{f"{side}s": _ROWS.filter(rows).sum() for side, rows in SIDES.items()},
        **{f"{side}_bytes": SIZE.filter(rows).sum() for side, rows in SIDES.items()},
        logged_ops=_ROWS.filter("first").sum(),
        evictions=_ROWS.filter(pl.col("move").is_in(["demote", "drop"])).sum(),
        read_write_ratio=pl.when(written > 0).then(read / written),
        recomputed_tokens=pl.col("tokens").filter((pl.col("move") == "miss") | (bypass & pl.col("first"))).sum(),
        failed_moves=_ROWS.filter(pl.col("status") == "error").sum(),
        upstream_moves=_ROWS.filter(pl.col("status") == "upstream").sum(),
    )


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
