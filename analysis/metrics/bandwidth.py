"""GiB per second and tier."""

import polars as pl

from analysis.log import ELAPSED_S, GIB, SIDES, SIZE


def bandwidth(log: pl.LazyFrame) -> pl.LazyFrame:
    """{tier}_{read,write}_gib_s = bytes over elapsed_s; …_busy_gib_s over the union of the intervals of such moves."""
    over_elapsed = log.select(
        (SIZE.filter(rows).sum() / GIB / ELAPSED_S).alias(f"{side}_gib_s") for side, rows in SIDES.items()
    )
    return pl.concat([over_elapsed, *(_busy(log.filter(rows), side) for side, rows in SIDES.items())], how="horizontal")


def _busy(rows: pl.LazyFrame, side: str) -> pl.LazyFrame:
    latest = pl.col("end_ns").cum_max().shift(1)
    new = (pl.col("end_ns") - pl.max_horizontal("start_ns", latest)).clip(0)
    busy_s = new.sum() / 1e9
    return rows.sort("start_ns").select(pl.when(busy_s > 0).then(SIZE.sum() / GIB / busy_s).alias(f"{side}_busy_gib_s"))
