"""Times of moves by the depth of their tier's queue."""

from typing import Final

import numpy as np
import polars as pl

from analysis.log.columns import TOUCHES
from analysis.log.log import Log
from analysis.log.quantiles import Ints, ascending, sort
from replayer.schema import TIERS

_CLASSES: Final = 32
_COLUMNS: Final = ("count", "p50_ms", "p95_ms", "p99_ms")


def latency_by_depth(log: Log) -> pl.DataFrame:
    """Total times by the moves in flight on a tier when a move started, itself included.

    By tier, side and depth (from this number up to twice it): count, p50_ms, p95_ms, p99_ms.
    """
    tables = []
    for tier in TIERS:
        on_tier = {side: touching & (pl.col(end) == tier) for side, (end, touching) in TOUCHES.items()}
        flights = log.every_move.filter(pl.any_horizontal(on_tier.values()))
        stamps = flights.select("start_ns", "end_ns").collect(engine="streaming")
        starts, ends = ascending(stamps["start_ns"]), ascending(stamps["end_ns"])
        depth = _classify_depth(starts, ends)
        for side, touching in on_tier.items():
            rows = [stretch.filter(touching) for stretch in log.stretches]
            times = {side: pl.col(f"{side}_ns")}
            ((_, values),) = sort(rows, {"depth": (depth, _CLASSES)}, times)
            spread = values.spread(["depth"]).select("depth", *_COLUMNS)
            names = (pl.lit(tier).alias("tier"), pl.lit(side).alias("side"))
            least = (2 ** pl.col("depth")).cast(pl.Int64).alias("depth")
            tables.append(spread.select(*names, least, *_COLUMNS))
    return pl.concat(tables).sort("side", "tier", "depth")


def _classify_depth(starts: Ints, ends: Ints) -> pl.Expr:
    """Return the class n of a move: from 2^n to 2^(n+1) − 1 intervals contain its start.

    Args:
        starts: the starts of all intervals, ascending.
        ends: their ends, ascending; an interval does not contain its end.
    """

    def classify(stamps: pl.Series) -> pl.Series:
        begun, ended = (np.searchsorted(side, stamps.to_numpy(), "right") for side in (starts, ends))
        # A move that took no time contains no moment, but is in flight.
        return pl.Series(np.frexp(np.maximum(begun - ended, 1))[1] - 1)

    return pl.col("start_ns").map_batches(classify, return_dtype=pl.Int32, is_elementwise=True)
