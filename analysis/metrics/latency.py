"""Time to read and to write an object, and GiB per second, per tier."""

from itertools import product
from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import GIB, SIDES, SIZE, TOUCHES
from analysis.log.log import Log
from analysis.log.quantiles import STATS, covered_ns
from analysis.metrics.metric import Declared, Metric, make_row
from replayer.schema import TIERS

# The clock in the table of latencies, by the middle part of a name.
_CLOCKS: Final = {"": "total", "_device": "device"}


def latency(log: Log) -> pl.LazyFrame:
    """Times of whole objects without waiting and verification; null if the tier had no such move.

    {tier}_{direction}_{stat}_ms: total time, from opening the object to its last byte.
    {tier}_{direction}_device_{stat}_ms: the part of the total inside system calls that move data,
        or memory copies.
    """
    table = log.latency.filter(split="all").select("tier", "side", "clock", pl.selectors.ends_with("_ms"))
    rows = {row[:3]: row[3:] for row in table.iter_rows()}
    unknown = [None] * len(STATS)
    values = {
        f"{touched}{middle}_{stat}_ms": value
        for touched, (middle, clock) in product(SIDES, _CLOCKS.items())
        for stat, value in zip(STATS, rows.get((*touched.split("_"), clock), unknown), strict=True)
    }
    return make_row(values)


def _declare_time(clock: str, label: str) -> Metric:
    """Describe the times of a tier's moves by one clock."""
    return Metric(
        f"{{tier}}_{{direction}}_{clock}{{stat}}_ms",
        "ms",
        "speed",
        f"{{tier}} {{direction}}s, {{stat}} {label}",
        "lower",
        counted_by="{tier}_{direction}s",
    )


def bandwidth(log: Log) -> pl.LazyFrame:
    """Bytes divided by one of several times; each answers another question.

    {tier}_{direction}_gib_s: Σ bytes / elapsed_s: what the run got.
    {tier}_{direction}_busy_gib_s: Σ bytes / the union of start … end of such moves: the bandwidth
        while there was something to move.
    {tier}_{direction}_efficiency: busy_gib_s / the bandwidth stated for the tier (`tier_gib_s`);
        null if none is stated.
    """
    rates = log.rated.select(
        **{f"{touched}_gib_s": SIZE.filter(rows).sum() / GIB / log.elapsed_s for touched, rows in SIDES.items()}
    )
    frames = [rates, *(_busy(log, direction) for direction in TOUCHES)]
    return pl.concat(frames, how="horizontal").with_columns(**_efficiencies(log))


def _efficiencies(log: Log) -> dict[str, pl.Expr]:
    """Divide each busy bandwidth by the one that was stated for its tier."""
    stated = {tier: log.targets.tier_gib_s.get(tier, (None, None)) for tier in TIERS}
    return {
        f"{tier}_{direction}_efficiency": col(f"{tier}_{direction}_busy_gib_s") / pl.lit(gib_s, pl.Float64)
        for tier, rates in stated.items()
        for direction, gib_s in zip(TOUCHES, rates, strict=True)
    }


def _busy(log: Log, direction: str) -> pl.LazyFrame:
    """Compute the bandwidth of each tier over the union of its moves' intervals."""
    column, touching = TOUCHES[direction]
    rows = (stretch.filter(touching).select(column, "start_ns", "end_ns") for stretch in log.stretches)
    stamps = pl.concat(stretch.collect(engine="streaming") for stretch in rows)
    sizes = dict(log.cells.filter(touching).group_by(column).agg(SIZE.sum()).collect().iter_rows())
    values = {}
    for tier in TIERS:  # one by one: moves of several tiers overlap
        busy_ns = covered_ns(stamps.filter(col(column) == tier))
        values[f"{tier}_{direction}_busy_gib_s"] = sizes[tier] / GIB / (busy_ns / 1e9) if busy_ns else None
    return make_row(values)


def _declare_rate(ending: str, label: str, *, unit: str = "GiB/s") -> Metric:
    """Describe a bandwidth of each tier in each direction."""
    return Metric(f"{{tier}}_{{direction}}_{ending}", unit, "speed", f"{{tier}} {{direction}}s{label}", "higher")


METRICS: Final[Declared] = {
    latency: (_declare_time("", "per object"), _declare_time("device_", "in the device per object")),
    bandwidth: (
        _declare_rate("gib_s", ""),
        _declare_rate("busy_gib_s", " while busy"),
        _declare_rate("efficiency", ", share of the stated bandwidth", unit="share"),
    ),
}
