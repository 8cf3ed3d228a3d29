"""Distributions: tables for what does not fit one number, a row for each mark of a chart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import CAUSE, CAUSE_NAMES, GIB, OK, READS, SERVED, SIZE, TOUCHES, is_move
from analysis.log.log import Log
from analysis.log.quantiles import sort
from analysis.metrics.metric import PLACES
from replayer.schema import TIERS

BINS: Final = 120
_WIDTHS_NS: Final = [digit * 10**power for power in range(6, 15) for digit in (1, 2, 5)]
# The headings of columns with a unit; other columns are headed by their names.
HEADINGS: Final = {
    "t_s": "time, s",
    "gib": "GiB",
    "gib_s": "GiB/s",
    "read_gib_s": "read GiB/s",
    "written_gib_s": "written GiB/s",
    **{f"{stat}_ms": f"{label}, ms" for stat, label in PLACES["stat"].items()},
}


def latency(log: Log) -> pl.DataFrame:
    """Times per object.

    By tier, side, clock (total, device, host, queue), split and group: count, mean_ms … max_ms.
    """
    return log.latency


def curves(log: Log) -> pl.DataFrame:
    """Distributions of total times.

    By tier and side: the `share` of the moves that took `ms` or less.
    """
    return log.curves


def requests(log: Log) -> pl.DataFrame:
    """Times per request.

    By measure (under pace asap generation alone) and qos (all, or a class): count, mean_ms … max_ms.
    """
    return log.waits[0]


def traffic(log: Log) -> pl.DataFrame:
    """Data moved.

    By tier, side, source and cause (foreground, eviction, copy): moves, gib, tokens.
    """
    names = dict(enumerate(CAUSE_NAMES))
    cause = CAUSE.replace_strict(names, return_dtype=pl.String).alias("cause")
    tables = [
        log.cells.filter(touching)
        .group_by(col(tier).alias("tier"), pl.lit(direction).alias("side"), "source", cause)
        .agg(moves=col("rows").sum(), gib=SIZE.sum() / GIB, tokens=col("tokens").sum())
        for direction, (tier, touching) in TOUCHES.items()
    ]
    return pl.concat(tables).sort("side", "tier", "source", "cause").collect()


def hits(log: Log) -> pl.DataFrame:
    """Reads by what served them.

    By source and served_by (a tier, or recomputed): reads, tokens, share of the source.
    """
    served_by = pl.when(OK & SERVED).then("from_tier").otherwise(pl.lit("recomputed"))
    groups = log.cells.filter(READS).group_by("source", served_by.alias("served_by"))
    totals = groups.agg(reads=col("rows").sum(), tokens=col("tokens").sum())
    share = col("reads") / col("reads").sum().over("source")
    return totals.with_columns(share=share).sort("source", "served_by").collect()


def time_spent(log: Log) -> pl.DataFrame:
    """Time of the moves.

    By the tier touched first, and part (queue, host, device, eviction; copy if there are copies): seconds.
    """
    work = col("read_ns") + col("write_ns")
    device = col("device_read_ns") + col("device_write_ns")
    is_own = CAUSE == 0
    parts = {
        "queue": col("queue_ns").filter(is_own).sum(),
        "host": (work - device).filter(is_own).sum().clip(0),
        "device": device.filter(is_own).sum(),
        "eviction": work.filter(is_move("demote")).sum(),
        "copy": work.filter(is_move("copy")).sum(),
    }
    tier = pl.coalesce("from_tier", "to_tier").alias("tier")
    touching = pl.any_horizontal(which for _, which in TOUCHES.values())
    rows = log.cells.filter(touching)
    table = rows.group_by(tier).agg(**{name: value / 1e9 for name, value in parts.items()})
    long = table.unpivot(index="tier", variable_name="part", value_name="seconds")
    has_time = (col("part") != "copy") | (col("seconds") > 0)
    return long.filter(has_time).sort("tier", "part").collect()


def bandwidth_over_time(log: Log) -> pl.DataFrame:
    """Bandwidth of the moves that ended in each interval.

    By t_s (its begin), tier and side: gib_s.
    """
    grid = _make_grid(log)
    tables = [
        log.moves.filter(touching)
        .group_by(grid.number("end_ns"), col(tier).cast(pl.String).alias("tier"), pl.lit(direction).alias("side"))
        .agg(gib_s=SIZE.sum() / GIB / (grid.width_ns / 1e9))
        for direction, (tier, touching) in TOUCHES.items()
    ]
    return grid.add_time(grid.fill_gaps(pl.concat(tables).collect(engine="streaming"), "side", "tier"))


def latency_over_time(log: Log) -> pl.DataFrame:
    """Total times of the moves that ended in each interval.

    By t_s, tier and side: count, p50_ms, p95_ms, p99_ms.
    """
    grid = _make_grid(log)
    tables = []
    for direction, (tier, touching) in TOUCHES.items():
        rows = [stretch.filter(touching) for stretch in log.stretches]
        classes = {"tier": (col(tier).to_physical(), len(TIERS)), "bin": (grid.number("end_ns"), grid.count)}
        ((_, values),) = sort(rows, classes, {direction: col(f"{direction}_ns")})
        columns = ("count", "p50_ms", "p95_ms", "p99_ms")
        spread = values.spread(["tier", "bin"])
        tables.append(spread.select("tier", "bin", pl.lit(direction).alias("side"), *columns))
    table = pl.concat(tables).with_columns(_name_codes("tier", dict(enumerate(TIERS))))
    return grid.add_time(table).sort("side", "tier", "t_s")


def occupancy_over_time(log: Log) -> pl.DataFrame:
    """Data in each tier at the end of each interval, including the warm-up.

    By t_s and tier: gib.
    """
    grid = _make_grid(log)
    last = grid.count - 1  # the drain may end after it
    flows = [
        log.every_move.filter(OK & col("move").is_in(kinds) & col(tier).is_not_null())
        .group_by(grid.number("end_ns").clip(0, last), col(tier).cast(pl.String).alias("tier"))
        .agg(gib=SIZE.sum() * sign / GIB)
        for tier, kinds, sign in (
            ("to_tier", ["store", "demote", "copy"], 1),
            ("from_tier", ["demote", "drop", "promote", "delete"], -1),
        )
    ]
    flow = pl.concat(flows).group_by("bin", "tier").agg(col("gib").sum())
    table = grid.fill_gaps(flow.collect(engine="streaming"), "tier")
    return grid.add_time(table.with_columns(col("gib").cum_sum().over("tier")))


def device_over_time(log: Log) -> pl.DataFrame:
    """Counters of the kernel.

    By t_s and rank: read_gib_s, written_gib_s, utilisation, cores_busy (by the replayer).
    """
    seconds = col("interval_ns") / 1e9
    return log.device.select(
        t_s=(col("time_ns") - _make_grid(log).first_ns) / 1e9 - seconds,
        rank="rank",
        read_gib_s=col("read_bytes") / GIB / seconds,
        written_gib_s=col("written_bytes") / GIB / seconds,
        utilisation="utilisation",
        cores_busy="process_cpu",
    ).collect()


# All tables by their names; a new one is one function and one word.
TABLES: Final[dict[str, Callable[[Log], pl.DataFrame]]] = {
    table.__name__: table
    for table in (
        *(latency, curves, requests, traffic, hits, time_spent),
        *(bandwidth_over_time, latency_over_time, occupancy_over_time, device_over_time),
    )
}


def _name_codes(column: str, names: dict[int, str]) -> pl.Expr:
    """Replace the codes in a column by names."""
    named: pl.Expr = col(column).replace_strict(names, default=None, return_dtype=pl.String)
    return named


@dataclass(frozen=True)
class _Grid:
    """Intervals of one width, from the first start after the warm-up on.

    Attributes:
        first_ns: where the first one begins.
        width_ns: the least of 1, 2 or 5 × 10^n ms with at most BINS of them.
        count: their number.
    """

    first_ns: int
    width_ns: int
    count: int

    def number(self, stamp: str) -> pl.Expr:
        """Return the number of the interval that a stamp is in, as column `bin`."""
        return ((col(stamp) - self.first_ns) // self.width_ns).alias("bin")

    def fill_gaps(self, table: pl.DataFrame, *by: str) -> pl.DataFrame:
        """Add a row of zeros for every interval without one; sort."""
        bins = pl.DataFrame({"bin": range(self.count)}, schema={"bin": pl.Int64})
        whole = table.select(by).unique().join(bins, how="cross")
        return whole.join(table, on=[*by, "bin"], how="left").fill_null(0).sort(*by, "bin")

    def add_time(self, table: pl.DataFrame) -> pl.DataFrame:
        """Replace the number of the interval by its begin in s."""
        return table.select((col("bin") * self.width_ns / 1e9).alias("t_s"), pl.all().exclude("bin"))


def _make_grid(log: Log) -> _Grid:
    first, last = log.span or (0, -1)
    fitting = (width for width in _WIDTHS_NS if (last - first) // width < BINS)
    width = next(fitting, _WIDTHS_NS[-1])
    return _Grid(first, width, (last - first) // width + 1)
