"""The charts. Each takes what was gathered and a width in pixels, and returns an Altair chart, or None without data.

One rule of colour: where one run is shown, colour is the tier; where several are, colour and dashes are the run, and
each tier and side has a panel of its own.
"""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from analysis.report.chart_kinds import Axis, Bars, Lines, Look, Plot, bars, lines
from analysis.report.data import Gathered
from analysis.report.text import number
from replayer.schema import TIERS
from tracegen.schema import ENUMS

Row = dict[str, Any]

SYSTEMS: Final = ("blue", "red", "green", "purple", "yellow", "cyan", "brown", "grey")
PARTS: Final = {"device": "blue", "host": "purple", "queue": "yellow", "eviction": "grey"}
SOURCES: Final = dict(zip(ENUMS["source"], ("blue", "cyan", "green", "yellow", "red"), strict=True))
TIME: Final = Axis("time since the first move, s")
MS: Final = Axis("time per object, ms (log scale)", log=True)
LEAST_MS: Final = 1e-4
_SIDES: Final = pl.format("{} {}s", "tier", "side")


def systems(data: Gathered) -> Look:
    """How the runs shown look."""
    return Look(dict(zip(data.shown, SYSTEMS, strict=False)), dashed=True)


def tiers(rows: pl.DataFrame) -> Look:
    """How the tiers that there are look."""
    there = set(rows["tier"])
    return Look({tier: tier for tier in TIERS if tier in there}, dashed=False)


def _split(data: Gathered, rows: pl.DataFrame, panel: pl.Expr, whole: pl.Expr) -> tuple[pl.DataFrame, Look]:
    """One run: panels of `panel`, a series per tier. Several: panels of `whole`, a series per run."""
    if len(data.shown) == 1:
        return rows.with_columns(panel=panel, series=pl.col("tier")), tiers(rows)
    return rows.with_columns(panel=whole, series=pl.col("run")), systems(data)


def _tell(rows: pl.DataFrame, unit: str) -> pl.DataFrame:
    """A note for every x of a panel that tells all its values, on the first of its rows."""
    found: dict[tuple[str, float], list[str]] = {}
    for row in rows.iter_rows(named=True):
        found.setdefault((row["panel"], row["x"]), []).append(f"{row['series']} {number(row['y'])}".strip())
    notes = [
        f"{number(row['x'])} s: {', '.join(values)} {unit}"
        if (values := found.pop((row["panel"], row["x"]), []))
        else None
        for row in rows.iter_rows(named=True)
    ]
    return rows.with_columns(pl.Series("note", notes, pl.String))


def noted(rows: pl.DataFrame, tell: Callable[[Row], str | None]) -> pl.DataFrame:
    """Rows with what a pointer is told on them."""
    return rows.with_columns(pl.Series("note", [tell(row) for row in rows.iter_rows(named=True)], pl.String))


def _percent(share: float) -> str:
    return f"{number(round(share * 100, 4))}%"


def bandwidth(data: Gathered, width: int) -> Plot | None:
    """GiB/s over time."""
    rows = data.table("bandwidth_over_time").rename({"t_s": "x", "gib_s": "y"})
    rows, look = _split(data, rows, pl.format("{}s", "side"), _SIDES)
    return lines(_tell(rows, "GiB/s"), Lines(TIME, Axis("GiB/s"), look, step=True), width)


def latency(data: Gathered, width: int) -> Plot | None:
    """P50 and P95 over time; of several systems the P95."""
    rows = data.table("latency_over_time").rename({"t_s": "x"}).with_columns(panel=_SIDES)
    if len(data.shown) == 1:
        rows = rows.unpivot(["p95_ms", "p50_ms"], index=["run", "panel", "x"], variable_name="series", value_name="y")
        rows = rows.with_columns(series=pl.col("series").str.strip_suffix("_ms").str.to_uppercase())
        look = Look({"P95": "red", "P50": "blue"}, dashed=True)
    else:
        rows = rows.with_columns(series=pl.col("run"), y=pl.col("p95_ms"))
        look = systems(data)
    rows = rows.with_columns(pl.col("y").clip(LEAST_MS))
    how = Lines(TIME, Axis("ms (log scale)" if len(data.shown) == 1 else "P95, ms (log scale)", log=True),
                look, shared=True, height=100)  # fmt: skip
    return lines(_tell(rows, "ms"), how, width)


def distribution(data: Gathered, width: int) -> Plot | None:
    """CDFs of times per object."""
    rows = data.table("curves").with_columns(x=pl.col("ms").clip(LEAST_MS), y=pl.col("share"))
    rows, look = _split(data, rows, pl.format("{}s", "side"), _SIDES)
    y = Axis("share of moves", format="%", domain=[0, 1], values=[0, 0.25, 0.5, 0.75, 1])
    rows = noted(
        rows, lambda row: _at(row, row["share"], "within") if row["share"] in (0.5, 0.9, 0.99, 0.999) else None
    )
    return lines(rows, Lines(MS, y, look, points=True), width)


def tail(data: Gathered, width: int) -> Plot | None:
    """The same from above: what share takes longer."""
    rows = data.table("curves").filter(pl.col("share").is_between(0.5, 0.9999))
    rows = rows.with_columns(x=pl.col("ms").clip(LEAST_MS), y=1 - pl.col("share"))
    rows, look = _split(data, rows, pl.format("{}s", "side"), _SIDES)
    y = Axis("slower than this (log scale)", log=True, format="~%", domain=[1e-4, 0.5], values=[1e-4, 1e-3, 0.01, 0.1])
    rows = noted(
        rows, lambda row: _at(row, row["y"], "not within") if row["share"] in (0.9, 0.99, 0.999, 0.9999) else None
    )
    return lines(rows, Lines(MS, y, look, points=True), width)


def _at(row: Row, share: float, how: str) -> str:
    return f"{row['run']}, {row['tier']} {row['side']}s: {_percent(share)} {how} {number(row['ms'])} ms"


def by_size(data: Gathered, width: int) -> Plot | None:
    """P95 per class of sizes."""
    rows = data.table("latency").filter((pl.col("split") == "size") & (pl.col("clock") == "total"))
    rows = rows.with_columns(x=pl.col("group"), y=pl.col("p95_ms").clip(LEAST_MS))
    return _sized(data, rows, Axis("P95, ms (log scale)", log=True), "ms", sides=True, width=width)


def break_even(data: Gathered, width: int) -> Plot | None:
    """Tokens per second that reading is worth, per class of sizes."""
    rows = data.table("break_even").with_columns(x=pl.col("size"), y=pl.col("break_even_tok_s")).drop_nulls("y")
    return _sized(data, rows, Axis("tok/s (log scale)", log=True), "tok/s", sides=False, width=width)


def _sized(data: Gathered, rows: pl.DataFrame, y: Axis, unit: str, *, sides: bool, width: int) -> Plot | None:
    per_tier = pl.format("reads from {}", "tier")
    rows, look = _split(
        data, rows, pl.format("{}s", "side") if sides else pl.lit("reads"), _SIDES if sides else per_tier
    )
    order = sorted(rows["x"].unique(), key=_bytes)
    how = Lines(Axis("objects of at least … and less than four times that"), y, look, points=True, order=order)
    return lines(
        noted(rows, lambda row: f"{row['run']}, {row['series']}, objects from {row['x']}: {number(row['y'])} {unit}"),
        how,
        width,
    )


def _bytes(size: str) -> int:
    count, unit = size.split()
    return int(count) << 10 * ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)


def depth(data: Gathered, width: int) -> Plot | None:
    """Moves under way and waiting."""
    rows = data.table("depth_over_time").unpivot(
        ["in_flight", "waiting"], index=["run", "t_s"], variable_name="panel", value_name="y"
    )
    names = {"in_flight": "moves in flight", "waiting": "moves waiting for a worker, a buffer or a permit"}
    rows = rows.rename({"t_s": "x"}).with_columns(pl.col("panel").replace(names))
    rows, look = _of_systems(data, rows, "blue")
    rows = _tell(rows, "")
    return lines(rows, Lines(TIME, Axis("moves, mean"), look, step=True, height=90), width)


def _of_systems(data: Gathered, rows: pl.DataFrame, alone: str) -> tuple[pl.DataFrame, Look]:
    look = systems(data) if len(data.shown) > 1 else Look(dict.fromkeys(data.shown, alone))
    return rows.with_columns(series=pl.col("run")), look


def occupancy(data: Gathered, width: int) -> Plot | None:
    """GiB in each tier, and its room."""
    rows = data.table("occupancy_over_time").rename({"t_s": "x", "gib": "y", "room_gib": "room"})
    rows, look = _split(data, rows, pl.col("tier"), pl.col("tier"))
    return lines(_tell(rows, "GiB"), Lines(TIME, Axis("GiB"), look, height=90), width)


def lateness(data: Gathered, width: int) -> Plot | None:
    """How late requests began, where there was a schedule."""
    paced = {run.name for run in data.runs if run.summary.provenance.conditions.pace == "open"}
    rows = data.table("lateness_over_time").filter(pl.col("run").is_in(paced)).rename({"t_s": "x", "p95_ms": "y"})
    rows, look = _of_systems(data, rows.with_columns(panel=pl.lit("P95 of lateness")), "blue")
    return lines(_tell(rows, "ms"), Lines(TIME, Axis("ms"), look), width)


def device(data: Gathered, width: int) -> Plot | None:
    """The kernel's counters."""
    names = {
        "read_gib_s": "device reads, GiB/s",
        "written_gib_s": "device writes, GiB/s",
        "utilisation": "device busy, share of the time",
        "cores_busy": "processor, cores kept busy",
    }
    rows = data.table("device_over_time").unpivot(
        list(names), index=["run", "rank", "t_s"], variable_name="panel", value_name="y"
    )
    rows = rows.rename({"t_s": "x"}).drop_nulls("y").with_columns(pl.col("panel").replace(names))
    rows, look = _of_systems(data, rows, "blue")
    rows = rows.with_columns(run=pl.format("{} {}", "run", "rank"))  # a line per rank
    return lines(_tell(rows, ""), Lines(TIME, Axis(""), look, step=True, height=90), width)


def bar_rows(data: Gathered, name: str, what: pl.Expr) -> pl.DataFrame:
    """One run, or all alike: a bar per `what`. Several: a panel per `what`, with a bar per run."""
    rows = data.table(name)
    if len(data.shown) == 1:
        return rows.with_columns(panel=pl.lit(""), y=what)
    if data.alike(name):
        first = next(iter(data.shown))
        return rows.filter(pl.col("run") == first).with_columns(panel=pl.lit(""), y=what, run=pl.lit("each"))
    return rows.with_columns(panel=what, y=pl.col("run"))


def time_spent(data: Gathered, width: int) -> Plot | None:
    """Seconds of moves, by tier and part."""
    rows = bar_rows(data, "time_spent", pl.col("tier")).rename({"seconds": "value"})
    rows = noted(rows, lambda row: f"{row['run']}, {row['tier']}: {number(row['value'])} s {row['part']}").filter(
        pl.col("value") > 0
    )
    return bars(rows, Bars(Axis("seconds, summed over moves"), Look(PARTS)), width)


def traffic(data: Gathered, width: int) -> Plot | None:
    """GiB by tier, side and source; evictions apart."""
    part = pl.when(pl.col("cause") == "eviction").then(pl.lit("eviction")).otherwise("source").alias("part")
    found = bar_rows(data, "traffic", _SIDES)
    rows = found.group_by("run", "tier", "side", "panel", "y", part, maintain_order=True).agg(value=pl.col("gib").sum())
    rows = noted(
        rows, lambda row: f"{row['run']}, {row['tier']} {row['side']}s: {number(row['value'])} GiB {row['part']}"
    )
    return bars(rows, Bars(Axis("GiB"), _there(rows, SOURCES | {"eviction": "grey"})), width)


def hits(data: Gathered, width: int) -> Plot | None:
    """Who served the reads of each source."""
    rows = bar_rows(data, "hits", pl.col("source")).rename({"served_by": "part", "reads": "value"})
    rows = noted(
        rows,
        lambda row: (
            f"{row['run']}, {row['source']}: {number(row['value'])} reads, {_percent(row['share'])}, {row['part']}"
        ),
    )
    look = _there(rows, {tier: tier for tier in TIERS} | {"recomputed": "grey"})
    return bars(rows, Bars(Axis("share of reads", format="%"), look, shares=True), width)


def _there(rows: pl.DataFrame, words: dict[str, str]) -> Look:
    there = set(rows["part"])
    return Look({word: name for word, name in words.items() if word in there})
