"""What does not fit one number: distributions, shares and courses over time, a row per mark of a chart."""

from collections.abc import Callable
from typing import Final

import polars as pl

from analysis.log.columns import GIB, OK, READS, SERVED, SIZE, TOUCHES
from analysis.log.log import SPLITS, Log
from analysis.log.quantiles import sort
from replayer.schema import TIERS

BINS: Final = 120
_NICE_S: Final = [m * 10.0**e for e in range(-3, 6) for m in (1, 2, 5)]


def latency(log: Log) -> pl.DataFrame:
    """Times per object: per tier, side, clock (total, device, host, queue), split, group; count, mean_ms … max_ms."""
    return log.latency


def curves(log: Log) -> pl.DataFrame:
    """Distribution of total times per tier and side: `share` of the moves took `ms` or less."""
    return log.curves


def requests(log: Log) -> pl.DataFrame:
    """Times per request: per measure (asap: generation alone) and qos (all, or a class); count, mean_ms … max_ms."""
    return log.waits


def traffic(log: Log) -> pl.DataFrame:
    """What went where and why: per tier, side, source and cause (foreground, eviction); moves, gib, tokens."""
    eviction = pl.when(pl.col("move") == "demote").then(pl.lit("eviction")).otherwise(pl.lit("foreground"))
    found = [
        log.cells.filter(touching)
        .group_by(pl.col(tier).alias("tier"), pl.lit(side).alias("side"), "source", eviction.alias("cause"))
        .agg(moves=pl.col("rows").sum(), gib=SIZE.sum() / GIB, tokens=pl.col("tokens").sum())
        for side, (tier, touching) in TOUCHES.items()
    ]
    return pl.concat(found).sort("side", "tier", "source", "cause").collect()


def hits(log: Log) -> pl.DataFrame:
    """Who served reads: per source and served_by (a tier, or recomputed); reads, tokens, share of the source."""
    served_by = pl.when(OK & SERVED).then("from_tier").otherwise(pl.lit("recomputed"))
    found = log.cells.filter(READS).group_by("source", served_by.alias("served_by"))
    counted = found.agg(reads=pl.col("rows").sum(), tokens=pl.col("tokens").sum())
    share = pl.col("reads") / pl.col("reads").sum().over("source")
    return counted.with_columns(share=share).sort("source", "served_by").collect()


def sizes(log: Log) -> pl.DataFrame:
    """Sizes of the objects moved: per tier, side and size (lower bound of the class, which ends at four times that)."""
    found = [
        log.cells.filter(touching)
        .group_by(pl.col(tier).alias("tier"), pl.lit(side).alias("side"), "size_class")
        .agg(moves=pl.col("rows").sum(), gib=SIZE.sum() / GIB)
        for side, (tier, touching) in TOUCHES.items()
    ]
    return pl.concat(found).sort("side", "tier", "size_class").with_columns(_size_name()).collect()


def break_even(log: Log) -> pl.DataFrame:
    """Prefill speed above which recomputing beats reading: per tier and size; hits, break_even_tok_s."""
    served = log.cells.filter(OK & SERVED).group_by(pl.col("from_tier").alias("tier"), "size_class")
    seconds = pl.col("read_ns").sum() / 1e9
    speed = pl.when(seconds > 0).then(pl.col("tokens").sum() / seconds)
    found = served.agg(hits=pl.col("rows").sum(), break_even_tok_s=speed).sort("tier", "size_class")
    return found.with_columns(_size_name()).collect()


def time_spent(log: Log) -> pl.DataFrame:
    """Where moves spent their time: per tier touched first, and part (queue, host, device, eviction); seconds."""
    work = pl.col("read_ns") + pl.col("write_ns")
    device = pl.col("device_read_ns") + pl.col("device_write_ns")
    own = pl.col("move") != "demote"
    parts = {
        "queue": pl.col("queue_ns").filter(own).sum(),
        "host": (work - device).filter(own).sum().clip(0),
        "device": device.filter(own).sum(),
        "eviction": work.filter(~own).sum(),
    }
    tier = pl.coalesce("from_tier", "to_tier").alias("tier")
    rows = log.cells.filter(OK & pl.col("move").is_in(["hit", "promote", "store", "demote"]))
    found = rows.group_by(tier).agg(**{name: value / 1e9 for name, value in parts.items()})
    return found.unpivot(index="tier", variable_name="part", value_name="seconds").sort("tier", "part").collect()


def bandwidth_over_time(log: Log) -> pl.DataFrame:
    """Bytes of the moves that ended in each interval: per t_s (its begin), tier and side; gib_s."""
    width, count = _bins(log)
    found = [
        log.moves.filter(touching)
        .group_by(_bin(log, "end_ns"), pl.col(tier).cast(pl.String).alias("tier"), pl.lit(side).alias("side"))
        .agg(gib_s=SIZE.sum() / GIB / width)
        for side, (tier, touching) in TOUCHES.items()
    ]
    return _timed(_dense(pl.concat(found).collect(engine="streaming"), count, "side", "tier"), width)


def latency_over_time(log: Log) -> pl.DataFrame:
    """Total times of the moves that ended in each interval: per t_s, tier and side; count, p50_ms, p95_ms, p99_ms."""
    width, count = _bins(log)
    found = []
    for side, (tier, touching) in TOUCHES.items():
        rows = [stretch.filter(touching) for stretch in log.stretches]
        classes = {"tier": (pl.col(tier).to_physical(), len(TIERS)), "bin": (_bin(log, "end_ns"), count)}
        ((_, values),) = sort(rows, classes, {side: pl.col(f"{side}_ns")})
        spread = values.spread(["tier", "bin"])
        found.append(spread.select("tier", "bin", pl.lit(side).alias("side"), "count", "p50_ms", "p95_ms", "p99_ms"))
    named = pl.concat(found).with_columns(_named("tier", dict(enumerate(TIERS))))
    return _timed(named, width).sort("side", "tier", "t_s")


def depth_over_time(log: Log) -> pl.DataFrame:
    """How many moves were under way: per t_s; in_flight and waiting (ready, not started), means over the interval."""
    width, count = _bins(log)
    bins = pl.DataFrame({"bin": range(count)}, schema={"bin": pl.Int64})
    for stamp in ("ready_ns", "start_ns", "end_ns"):
        at = _bin(log, stamp).clip(0)  # what was ready before the first start waits from then on
        late = (at + 1) * width - _seconds(log, stamp).clip(0)
        counted = log.moves.group_by(at).agg(n=pl.len().cast(pl.Int64), late=late.sum())
        area = pl.col("n").cum_sum().shift(1, fill_value=0) * width + pl.col("late")
        joined = bins.select("bin").join(counted.collect(engine="streaming"), on="bin", how="left").fill_null(0)
        bins = bins.with_columns(joined.sort("bin").select(area.alias(stamp)))
    depth = bins.select(
        "bin",
        in_flight=(pl.col("start_ns") - pl.col("end_ns")) / width,
        waiting=(pl.col("ready_ns") - pl.col("start_ns")) / width,
    )
    return _timed(depth, width)


def occupancy_over_time(log: Log) -> pl.DataFrame:
    """What lay in a tier at the end of each interval, warm-up included: per t_s and tier; gib."""
    width, count = _bins(log)
    flows = [
        log.every_move.filter(OK & pl.col("move").is_in(kinds) & pl.col(tier).is_not_null())
        .group_by(_bin(log, "end_ns").clip(0, count - 1), pl.col(tier).cast(pl.String).alias("tier"))
        .agg(gib=SIZE.sum() * sign / GIB)
        for tier, kinds, sign in (
            ("to_tier", ["store", "demote"], 1),
            ("from_tier", ["demote", "drop", "promote", "delete"], -1),
        )
    ]
    flow = pl.concat(flows).group_by("bin", "tier").agg(pl.col("gib").sum()).collect(engine="streaming")
    return _timed(_dense(flow, count, "tier").with_columns(pl.col("gib").cum_sum().over("tier")), width)


def lateness_over_time(log: Log) -> pl.DataFrame:
    """How late requests began, by when they were due: per t_s; requests, p50_ms, p95_ms. None under pace asap."""
    width, count = _bins(log)
    requests = log.requests.filter(log.timed)
    due = _bin(log, "due_ns").clip(0, max(0, count - 1))
    ((_, late),) = sort([requests], {"bin": (due, count)}, {"late": pl.col("start_ns") - pl.col("due_ns")})
    return _timed(late.spread(["bin"]).select("bin", pl.col("count").alias("requests"), "p50_ms", "p95_ms"), width)


def device_over_time(log: Log) -> pl.DataFrame:
    """The kernel's counters: per t_s and rank; read_gib_s, written_gib_s, utilisation, cores busy with replaying."""
    seconds = pl.col("interval_ns") / 1e9
    return log.device.select(
        t_s=_seconds(log, "time_ns") - seconds,
        rank="rank",
        read_gib_s=pl.col("read_bytes") / GIB / seconds,
        written_gib_s=pl.col("written_bytes") / GIB / seconds,
        utilisation="utilisation",
        cores_busy="process_cpu",
    ).collect()


TABLES: Final[dict[str, Callable[[Log], pl.DataFrame]]] = {
    "latency": latency,
    "curves": curves,
    "requests": requests,
    "traffic": traffic,
    "hits": hits,
    "sizes": sizes,
    "break_even": break_even,
    "time_spent": time_spent,
    "bandwidth_over_time": bandwidth_over_time,
    "latency_over_time": latency_over_time,
    "depth_over_time": depth_over_time,
    "occupancy_over_time": occupancy_over_time,
    "lateness_over_time": lateness_over_time,
    "device_over_time": device_over_time,
}


def _named(column: str, words: dict[int, str]) -> pl.Expr:
    named: pl.Expr = pl.col(column).replace_strict(words, default=None, return_dtype=pl.String)
    return named


def _size_name() -> pl.Expr:
    return _named("size_class", SPLITS["size"]).alias("size")


def _bins(log: Log) -> tuple[float, int]:
    """Width in s and number of intervals: the least nice width that gives at most BINS."""
    first, last = log.cells.select(pl.col("start_ns").min(), pl.col("end_ns").max()).collect().row(0)
    if first is None:
        return _NICE_S[0], 0
    width = next((width for width in _NICE_S if (last - first) // round(width * 1e9) < BINS), _NICE_S[-1])
    return width, (last - first) // round(width * 1e9) + 1


def _seconds(log: Log, stamp: str) -> pl.Expr:
    """Since the first start."""
    first = log.cells.select(pl.col("start_ns").min()).collect().item() or 0
    since: pl.Expr = (pl.col(stamp) - first) / 1e9
    return since


def _bin(log: Log, stamp: str) -> pl.Expr:
    width, _ = _bins(log)
    first = log.cells.select(pl.col("start_ns").min()).collect().item() or 0
    return ((pl.col(stamp) - first) // round(width * 1e9)).alias("bin")


def _dense(table: pl.DataFrame, count: int, *by: str) -> pl.DataFrame:
    """A row for every interval, zero where there was none, sorted."""
    bins = pl.DataFrame({"bin": range(count)}, schema={"bin": pl.Int64})
    return (
        table.select(by)
        .unique()
        .join(bins, how="cross")
        .join(table, on=[*by, "bin"], how="left")
        .fill_null(0)
        .sort(*by, "bin")
    )


def _timed(table: pl.DataFrame, width: float) -> pl.DataFrame:
    return (
        table.with_columns(t_s=(pl.col("bin") * width).round(6)).drop("bin").select("t_s", ~pl.selectors.by_name("t_s"))
    )
