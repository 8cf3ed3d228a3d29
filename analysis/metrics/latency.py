"""Time to read and to write an object, per tier."""

from itertools import product
from typing import Final

import polars as pl

from analysis.log.columns import SIDES
from analysis.log.log import Log
from analysis.log.quantiles import STATS
from analysis.metrics.metric import Declared, Metric

_CLOCKS: Final = {
    "": ("total", "all"),
    "_device": ("device", "all"),
    "_host": ("host", "all"),
    "_queue": ("queue", "all"),
    "_foreground": ("total", "foreground"),
    "_eviction": ("total", "eviction"),
}
"""The clock and the group of moves in the table of latencies, by the middle part of a name."""


def latency(log: Log) -> pl.LazyFrame:
    """Times of whole objects without waiting and verification; null if the tier had no such move.

    {tier}_{direction}_{stat}_ms: total time, from opening the object to its last byte.
    {tier}_{direction}_device_{stat}_ms: the part of the total inside system calls that move data,
        or memory copies.
    {tier}_{direction}_host_{stat}_ms: total − device; 0 if a GPU's clock shows more than the
        host's.
    {tier}_{direction}_queue_{stat}_ms: start − ready, before the total: no worker, buffer or permit
        was free.
    {tier}_{direction}_foreground_{stat}_ms: total time of moves that are neither demotes nor
        copies.
    {tier}_{direction}_eviction_{stat}_ms: total time of demotes.
    """
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (row["tier"], row["side"], row["clock"], row["group"]): row
        for row in log.latency.filter(pl.col("split").is_in(["all", "cause"])).iter_rows(named=True)
    }
    values = {
        f"{touched}{middle}_{stat}_ms": rows.get((*touched.split("_"), *clock), {}).get(
            f"{stat}_ms",
        )
        for touched, (middle, clock), stat in product(SIDES, _CLOCKS.items(), STATS)
    }
    return pl.LazyFrame(
        {name: [value] for name, value in values.items()},
        schema=dict.fromkeys(values, pl.Float64),
    )


def _declare(clock: str, label: str, *, short: str = "", counted: bool = True) -> Metric:
    """Describe the times of a tier's moves by one clock."""
    return Metric(
        f"{{tier}}_{{direction}}_{clock}{{stat}}_ms",
        "ms",
        "speed",
        f"{{tier}} {{direction}}s, {{stat}} {label}",
        "lower",
        short=short,
        counted_by="{tier}_{direction}s" if counted else None,
    )


METRICS: Final[Declared] = {
    latency: (
        _declare("", "per object"),
        _declare("device_", "in the device per object", short="{direction} {stat} ms"),
        _declare("host_", "in the host per object"),
        _declare("queue_", "in the queue per object"),
        _declare("foreground_", "per object, evictions and copies left out", counted=False),
        _declare("eviction_", "per evicted object", counted=False),
    ),
}
