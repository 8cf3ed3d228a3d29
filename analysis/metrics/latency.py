"""Time to read and to write an object, per tier."""

from itertools import product
from typing import Final

import polars as pl

from analysis.log.columns import SIDES
from analysis.log.log import Log
from analysis.log.quantiles import STATS
from analysis.metrics.metric import Declared, Metric

_CLOCKS: Final = {"": "total", "_device": "device"}
"""The clock in the table of latencies, by the middle part of a name."""


def latency(log: Log) -> pl.LazyFrame:
    """Times of whole objects without waiting and verification; null if the tier had no such move.

    {tier}_{direction}_{stat}_ms: total time, from opening the object to its last byte.
    {tier}_{direction}_device_{stat}_ms: the part of the total inside system calls that move data,
        or memory copies.
    """
    rows: dict[tuple[str, ...], dict[str, float]] = {
        (row["tier"], row["side"], row["clock"]): row for row in log.latency.filter(split="all").iter_rows(named=True)
    }
    values = {
        f"{touched}{middle}_{stat}_ms": rows.get((*touched.split("_"), clock), {}).get(f"{stat}_ms")
        for touched, (middle, clock), stat in product(SIDES, _CLOCKS.items(), STATS)
    }
    return pl.LazyFrame(
        {name: [value] for name, value in values.items()},
        schema=dict.fromkeys(values, pl.Float64),
    )


def _declare(clock: str, label: str, *, short: str = "") -> Metric:
    """Describe the times of a tier's moves by one clock."""
    return Metric(
        f"{{tier}}_{{direction}}_{clock}{{stat}}_ms",
        "ms",
        "speed",
        f"{{tier}} {{direction}}s, {{stat}} {label}",
        "lower",
        short=short,
        counted_by="{tier}_{direction}s",
    )


METRICS: Final[Declared] = {
    latency: (
        _declare("", "per object"),
        _declare("device_", "in the device per object", short="{direction} {stat} ms"),
    ),
}
