"""Moves of each kind, what they moved, what failed, and what they leave in the tiers."""

from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import OK, SIDES, SIZE, TOUCHES, is_move
from analysis.log.log import Log
from analysis.metrics.metric import MOVE_COUNTS, Declared, Metric, divide
from replayer.schema import MOVES, TIERS

_ROWS = col("rows")


def moves(log: Log) -> pl.LazyFrame:
    """Counts of the rows in the log.

    {moves}: rows of that kind of move.
    {tier}_{direction}s: moves that read or wrote the tier, including evictions
        and copies.
    {tier}_{direction}_bytes: Σ bytes of the same moves.
    logged_ops: ops, counted by their first rows.
    evictions: demotes + drops.
    read_write_ratio: Σ bytes read from all tiers / Σ bytes written to all tiers.
    recomputed_tokens: Σ tokens of misses and bypasses, each op once.
    failed_moves: rows of status error.
    upstream_moves: rows of status upstream: given up because an earlier move of the same object
        failed.
    """
    read, written = (
        pl.sum_horizontal(SIZE.filter(SIDES[f"{tier}_{direction}"]).sum() for tier in TIERS) for direction in TOUCHES
    )
    first_bypass = is_move("bypass") & col("first")
    recomputed = is_move("miss") | first_bypass
    return log.cells.select(
        **{MOVE_COUNTS[kind]: _ROWS.filter(col("move") == kind).sum() for kind in MOVES},
        **{f"{touched}s": _ROWS.filter(rows).sum() for touched, rows in SIDES.items()},
        **{f"{touched}_bytes": SIZE.filter(rows).sum() for touched, rows in SIDES.items()},
        logged_ops=_ROWS.filter("first").sum(),
        evictions=_ROWS.filter(is_move("demote", "drop")).sum(),
        read_write_ratio=divide(read, written),
        recomputed_tokens=col("tokens").filter(recomputed).sum(),
        failed_moves=_ROWS.filter(col("status") == "error").sum(),
        upstream_moves=_ROWS.filter(col("status") == "upstream").sum(),
    )


def contents(log: Log) -> pl.LazyFrame:
    """Objects that each tier holds after the last move, including what the warm-up left there.

    {tier}_left_objects: moves into the tier (stores, demotes, copies) − moves out of it (demotes,
        drops, promotes, deletes), without failed moves.
    {tier}_left_bytes: Σ bytes of the same moves, in − out.
    {tier}_left_share: left_objects / left_objects of all tiers; null if no tier holds an object.
    """
    moves_in = is_move("store", "demote", "copy")
    moves_out = is_move("demote", "drop", "promote", "delete")

    def remaining(value: pl.Expr, tier: str) -> pl.Expr:
        entered = moves_in & (col("to_tier") == tier)
        left = moves_out & (col("from_tier") == tier)
        return value.filter(OK & entered).sum() - value.filter(OK & left).sum()

    totals = log.every_cell.select(
        **{f"{tier}_left_objects": remaining(_ROWS, tier) for tier in TIERS},
        **{f"{tier}_left_bytes": remaining(SIZE, tier) for tier in TIERS},
    )
    objects = pl.sum_horizontal(f"{tier}_left_objects" for tier in TIERS)
    return totals.with_columns(
        divide(col(f"{tier}_left_objects"), objects).alias(f"{tier}_left_share") for tier in TIERS
    )


METRICS: Final[Declared] = {
    moves: (
        Metric("{moves}", "moves", "work", "{moves}"),
        Metric("{tier}_{direction}s", "moves", "work", "{tier} {direction}s"),
        Metric("{tier}_{direction}_bytes", "bytes", "work", "{tier} {direction}s"),
        Metric("logged_ops", "ops", "work", "ops in the log"),
        Metric("evictions", "moves", "work", "evictions"),
        Metric("read_write_ratio", "ratio", "work", "bytes read / bytes written"),
        Metric("recomputed_tokens", "tokens", "work", "tokens recomputed"),
        Metric("failed_moves", "moves", "work", "failed moves"),
        Metric("upstream_moves", "moves", "work", "moves given up after a failed one"),
    ),
    contents: (
        Metric("{tier}_left_objects", "objects", "work", "objects left in {tier}"),
        Metric("{tier}_left_bytes", "bytes", "work", "left in {tier}"),
        Metric("{tier}_left_share", "share", "work", "objects left in {tier}, share of all"),
    ),
}
