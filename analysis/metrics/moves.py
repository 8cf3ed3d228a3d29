"""How many moves of each kind, and what failed."""

import polars as pl

from analysis.log import OK, SERVED, SIDES, SIZE
from replayer.schema import MOVES, TIERS

_NAMES = {"miss": "misses", "bypass": "bypasses"}


def moves(log: pl.LazyFrame) -> pl.LazyFrame:
    """Counts per kind of move, and logged_ops by their first rows.

    evictions = demotions + drops; read_write_ratio = bytes read / bytes written, all tiers.
    failed_moves counts status error, upstream_moves those given up because an earlier move on their key had failed.
    """
    read, written = (
        pl.sum_horizontal(SIZE.filter(SIDES[f"{tier}_{side}"]).sum() for tier in TIERS) for side in ("read", "write")
    )
    return log.select(
        **{_NAMES.get(kind, f"{kind}s"): (pl.col("move") == kind).sum() for kind in MOVES},
        **{f"{tier}_hits": (OK & SERVED & (pl.col("from_tier") == tier)).sum() for tier in TIERS},
        **{f"{side}_bytes": SIZE.filter(rows).sum() for side, rows in SIDES.items()},
        logged_ops=(pl.col("seq") == 0).sum(),
        evictions=pl.col("move").is_in(["demote", "drop"]).sum(),
        read_write_ratio=pl.when(written > 0).then(read / written),
        failed_moves=(pl.col("status") == "error").sum(),
        upstream_moves=(pl.col("status") == "upstream").sum(),
    )
