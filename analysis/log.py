"""What the columns of the log mean: the few terms that the metrics are written in."""

from pathlib import Path
from typing import Any, Final

import polars as pl

from replayer.schema import LOG_ENUMS, TIERS, parts

GIB: Final = 2**30
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}

OK: Final = pl.col("status") == "ok"
SIZE: Final = pl.col("size_bytes")
SERVED: Final = pl.col("move").is_in(["hit", "promote"])  # a read that found its KV
READS: Final = pl.col("move").is_in(["hit", "promote", "miss"])
STORED: Final = pl.col("move") == "store"
EVICTION: Final = pl.col("move") == "demote"
ELAPSED_S: Final = (pl.col("end_ns").max() - pl.col("start_ns").min()) / 1e9

SIDES: Final = {
    f"{tier}_{side}": OK & (pl.col(column) == tier) & pl.col("move").is_in(kinds)
    for tier in TIERS
    for side, column, kinds in (
        ("read", "from_tier", ["hit", "promote", "demote"]),
        ("write", "to_tier", ["store", "demote"]),
    )
}
"""Rows that read or write a tier, evictions included."""


def scan(run: Path, info: dict[str, Any], shift_ns: int = 0) -> pl.LazyFrame:
    """The log of one rank's run, with generation_ns: how long generating took after each op.

    Args:
        run: its run directory.
        info: what its run.json says.
        shift_ns: its time 0 on the clock of the first rank's log.

    Raises:
        InputError: the run has no log, or a part is unreadable.
    """
    words = pl.col(list(LOG_ENUMS)).cast(pl.String)
    times = pl.col("due_ns", "ready_ns", "start_ns", "end_ns") + shift_ns
    token_ns = round(info["conditions"].get("token_ms", 0) * 1e6)
    generation = (pl.col("new_tokens").cast(pl.Int64) * token_ns).alias("generation_ns")
    return pl.scan_parquet(parts(run), glob=False).with_columns(words, times, generation)
