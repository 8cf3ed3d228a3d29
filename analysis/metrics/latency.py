"""How long reading and writing an object takes, per tier."""

import polars as pl

from analysis.log import EVICTION, QUANTILES, SIDES


def latency(log: pl.LazyFrame) -> pl.LazyFrame:
    """{tier}_{read,write}_{mean,p50,p95,p99,p999,max}_ms of whole objects, waiting and verification excluded.

    Host time, from opening the object to its last byte; `_device` is the part inside system calls or memory copies,
    `_foreground` leaves out demotions, `_eviction` has only them. Null where the tier saw no such move.
    """
    everything = pl.lit(True)
    splits = {
        "": ("", everything),
        "_device": ("device_", everything),
        "_foreground": ("", ~EVICTION),
        "_eviction": ("", EVICTION),
    }
    return log.select(
        value.alias(f"{side}{split}_{name}_ms")
        for side, rows in SIDES.items()
        for split, (clock, kept) in splits.items()
        for name, value in _spread(pl.col(f"{clock}{side.split('_')[1]}_ns").filter(rows & kept) / 1e6).items()
    )


def _spread(times: pl.Expr) -> dict[str, pl.Expr]:
    quantiles = {name: times.quantile(q, interpolation="linear") for name, q in QUANTILES.items()}
    return {"mean": times.mean(), **quantiles, "max": times.max()}
