"""How long reading and writing an object takes, per tier."""

from itertools import product

import polars as pl

from analysis.log.columns import SIDES
from analysis.log.log import Log
from analysis.log.quantiles import STATS

SPLIT_OF = {
    "": ("total", "all"),
    "_device": ("device", "all"),
    "_host": ("host", "all"),
    "_queue": ("queue", "all"),
    "_foreground": ("total", "foreground"),
    "_eviction": ("total", "eviction"),
}


def latency(log: Log) -> pl.LazyFrame:
    """Times of whole objects, waiting and verification excluded; null where the tier saw no such move.

    {tier}_{side}_{stat}_ms: total, from opening the object to its last byte.
    {tier}_{side}_device_{stat}_ms: the part inside system calls that move data, or memory copies.
    {tier}_{side}_host_{stat}_ms: the rest of the total; 0 where a GPU's clock says more than the host's.
    {tier}_{side}_queue_{stat}_ms: before it, start − ready: no worker, buffer or permit was free.
    {tier}_{side}_foreground_{stat}_ms: total, without demotions.
    {tier}_{side}_eviction_{stat}_ms: total, of demotions only.
    """
    found: dict[tuple[str, ...], dict[str, float]] = {
        (row["tier"], row["side"], row["clock"], row["group"]): row
        for row in log.latency.filter(pl.col("split").is_in(["all", "cause"])).iter_rows(named=True)
    }
    values = {
        f"{side}{split}_{stat}_ms": found.get((*side.split("_"), *chosen), {}).get(f"{stat}_ms")
        for side, (split, chosen), stat in product(SIDES, SPLIT_OF.items(), STATS)
    }
    return pl.LazyFrame({name: [value] for name, value in values.items()}, schema=dict.fromkeys(values, pl.Float64))
