"""The charts of a report; each function draws one at a width in pixels, or returns None without data.

Colour means the tier if one run is shown. If several are shown, colour and dashes mean the run, and each
tier and direction has its own panel. If predicted runs are shown, dashes mean them alone.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import polars as pl

from analysis.report.bar_charts import Bars, draw_bars
from analysis.report.chart_kinds import Axis, Lines, Look, Plot, draw_lines
from analysis.report.data import Gathered
from analysis.report.text import format_number
from replayer.schema import TIERS
from tracegen.schema import ENUMS

Row = dict[str, Any]

SYSTEMS: Final = ("blue", "red", "green", "purple", "yellow", "cyan", "brown", "grey")
PARTS: Final = {"device": "blue", "host": "purple", "queue": "yellow", "eviction": "grey"}
COPIES: Final = {"copy": "brown"}
SOURCES: Final = dict(zip(ENUMS["source"], ("blue", "cyan", "green", "yellow", "red"), strict=True))
TIME: Final = Axis("time since the first move, s")
MS: Final = Axis("time per object, ms (log scale)", log=True)
_SIZES: Final = Axis("objects of at least … and less than four times that")
_DEPTHS: Final = Axis("moves in flight: at least … and less than twice that")
_LEAST: Final = {"p95_ms": 100, "p99_ms": 500}
"""Fewest moves of a percentile in a chart; tables have all."""
LEAST_MS: Final = 1e-4
_DIRECTIONS: Final = pl.format("{} {}s", "tier", "side")


def choose_system_look(data: Gathered) -> Look:
    """Return the appearance of the runs shown."""
    colours = dict(zip(data.systems, SYSTEMS, strict=False))  # the same in every chart
    words = {name: colours.get(name, SYSTEMS[0]) for name in data.shown}
    return Look(words, dashed=True, predicted=data.predicted)


def dash_prediction(data: Gathered, look: Look) -> Look:
    """Return the appearance of a single run's lines, all dashed if it was predicted."""
    return replace(look, dashed=True, predicted=frozenset(look.words)) if data.predicted else look


def choose_tier_look(data: Gathered, rows: pl.DataFrame) -> Look:
    """Return the appearance of the tiers in some rows of a single run."""
    present = set(rows["tier"])
    return dash_prediction(data, Look({tier: tier for tier in TIERS if tier in present}))


def _split(data: Gathered, rows: pl.DataFrame, panel: pl.Expr, whole: pl.Expr) -> tuple[pl.DataFrame, Look]:
    """Split rows into panels and series.

    A single run has panels of `panel` with a series for each tier; several runs have panels of `whole`
    with a series for each run.
    """
    if len(data.shown) == 1:
        return rows.with_columns(panel=panel, series=pl.col("tier")), choose_tier_look(data, rows)
    return rows.with_columns(panel=whole, series=pl.col("run")), choose_system_look(data)


def _note_values(rows: pl.DataFrame, unit: str) -> pl.DataFrame:
    """Add a tooltip with all values of a panel at each x, to the first row of that x."""
    by_x: dict[tuple[str, float], list[str]] = {}
    for row in rows.iter_rows(named=True):
        by_x.setdefault((row["panel"], row["x"]), []).append(f"{row['series']} {format_number(row['y'])}".strip())
    notes = [
        f"{format_number(row['x'])} s: {', '.join(values)} {unit}"
        if (values := by_x.pop((row["panel"], row["x"]), []))
        else None
        for row in rows.iter_rows(named=True)
    ]
    return rows.with_columns(pl.Series("note", notes, pl.String))


def add_notes(rows: pl.DataFrame, describe: Callable[[Row], str | None]) -> pl.DataFrame:
    """Add a tooltip to each row; None for rows without one."""
    return rows.with_columns(pl.Series("note", [describe(row) for row in rows.iter_rows(named=True)], pl.String))


def _format_percent(share: float) -> str:
    return f"{format_number(round(share * 100, 4))}%"


def _choose_series(data: Gathered, rows: pl.DataFrame) -> tuple[pl.DataFrame, Look]:
    """Add a series: the tier of a single run, else the run."""
    if len(data.shown) == 1:
        return rows.with_columns(series=pl.col("tier")), choose_tier_look(data, rows)
    return rows.with_columns(series=pl.col("run")), choose_system_look(data)


def _mark_moments(data: Gathered, rows: pl.DataFrame) -> pl.DataFrame:
    """Add rows to a chart over time that mark the end of the warm-up, and the cut."""
    moments = list_moments(data)
    panels = rows.select("panel").unique(maintain_order=True)
    marks = pl.DataFrame(moments, {"mark": pl.String, "x": pl.Float64}, orient="row")
    return pl.concat([rows, panels.join(marks, how="cross")], how="diagonal") if moments else rows


def list_moments(data: Gathered) -> list[tuple[str, float]]:
    """List the moments to mark, by name and time in s; equal ones of several runs once."""
    found: dict[tuple[str, str], str] = {}
    for name, run in data.shown.items():
        for moment, seconds in run.moments.items():
            found.setdefault((moment, f"{seconds:.2g}"), name)
    names = [moment for moment, _ in found]
    return [
        (moment if names.count(moment) == 1 else f"{moment}, {run}", data.shown[run].moments[moment])
        for (moment, _), run in found.items()
    ]


def draw_bandwidth(data: Gathered, width: int) -> Plot | None:
    """Draw the throughput over time, with a panel for each tier and direction."""
    rows = data.table("bandwidth_over_time").rename({"t_s": "x", "gib_s": "y"})
    rows, look = _choose_series(data, rows.with_columns(panel=_DIRECTIONS))
    how = Lines(TIME, Axis("GiB/s"), look, step=True, legend=len(data.shown) > 1)
    return draw_lines(_mark_moments(data, _note_values(rows, "GiB/s")), how, width)


def draw_latency(data: Gathered, width: int) -> Plot | None:
    """Draw a band from P50 to P95 of the latency over time; of several systems the P95."""
    rows = data.table("latency_over_time").rename({"t_s": "x", "p95_ms": "y"})
    rows = rows.with_columns(pl.col("y", "p50_ms").clip(LEAST_MS), panel=_DIRECTIONS)
    rows, look = _choose_series(data, rows)
    if len(data.shown) == 1:
        axis = Axis("P50 to P95, ms (log scale)", log=True)
        rows = add_notes(rows.with_columns(low=pl.col("p50_ms")), _describe_band)
    else:
        axis = Axis("P95, ms (log scale)", log=True)
        rows = _note_values(rows, "ms")
    how = Lines(TIME, axis, look, shared=True, legend=len(data.shown) > 1)
    return draw_lines(_mark_moments(data, rows), how, width)


def _describe_band(row: Row) -> str:
    low, high = format_number(row["low"]), format_number(row["y"])
    return f"{format_number(row['x'])} s: P50 {low}, P95 {high} ms, {row['count']:,} moves"


def draw_distribution(data: Gathered, width: int) -> Plot | None:
    """Draw the distribution of times per object."""
    rows = data.table("curves").with_columns(x=pl.col("ms").clip(LEAST_MS), y=pl.col("share"))
    rows, look = _split(data, rows, pl.format("{}s", "side"), _DIRECTIONS)
    y = Axis("share of moves", format="%", domain=[0, 1], values=[0, 0.25, 0.5, 0.75, 1])
    rows = add_notes(
        rows,
        lambda row: _describe_point(row, row["share"], "within") if row["share"] in (0.5, 0.9, 0.99, 0.999) else None,
    )
    return draw_lines(rows, Lines(MS, y, look, points=True), width)


def draw_tail(data: Gathered, width: int) -> Plot | None:
    """Draw the share of moves that take longer than a time."""
    rows = data.table("curves").filter(pl.col("share").is_between(0.5, 0.9999))
    rows = rows.with_columns(x=pl.col("ms").clip(LEAST_MS), y=1 - pl.col("share"))
    rows, look = _split(data, rows, pl.format("{}s", "side"), _DIRECTIONS)
    y = Axis(
        "slower than this (log scale)",
        log=True,
        format="~%",
        domain=[1e-4, 0.5],
        values=[1e-4, 1e-3, 0.01, 0.1],
    )
    rows = add_notes(
        rows,
        lambda row: (
            _describe_point(row, row["y"], "not within") if row["share"] in (0.9, 0.99, 0.999, 0.9999) else None
        ),
    )
    return draw_lines(rows, Lines(MS, y, look, points=True), width)


def _describe_point(row: Row, share: float, how: str) -> str:
    return f"{row['run']}, {row['tier']} {row['side']}s: {_format_percent(share)} {how} {format_number(row['ms'])} ms"


def draw_by_size(data: Gathered, width: int) -> Plot | None:
    """Draw percentiles by size of the object."""
    rows = data.table("latency").filter((pl.col("split") == "size") & (pl.col("clock") == "total"))
    rows = rows.with_columns(x=pl.col("group"))
    return _draw_percentiles(data, rows, _SIZES, sorted(rows["x"].unique(), key=_bytes), width)


def draw_by_depth(data: Gathered, width: int) -> Plot | None:
    """Draw percentiles by the moves in flight; none if the depth never changed."""
    rows = data.table("latency_by_depth")
    depths = sorted(rows["depth"].unique())
    if len(depths) < 2:
        return None
    rows = rows.with_columns(x=pl.col("depth").cast(pl.String))
    return _draw_percentiles(data, rows, _DEPTHS, list(map(str, depths)), width)


def _draw_percentiles(
    data: Gathered,
    rows: pl.DataFrame,
    x: Axis,
    order: list[str],
    width: int,
) -> Plot | None:
    """Draw P50, P95 and P99 of a single run, and the P95 of several, by words on the x axis."""
    rows = rows.with_columns(
        (pl.when(pl.col("count") >= least).then(name).alias(name) for name, least in _LEAST.items()),
        panel=_DIRECTIONS,
    )
    index = ["run", "panel", "x", "count"]
    stats = ["p99_ms", "p95_ms", "p50_ms"]
    if len(data.shown) == 1:
        words = {"P99": "red", "P95": "purple", "P50": "blue"}
        axis = Axis("ms (log scale)", log=True)
        rows = rows.unpivot(stats, index=index, variable_name="series", value_name="y")
        rows = rows.with_columns(series=pl.col("series").str.strip_suffix("_ms").str.to_uppercase())
        present = set(rows.drop_nulls("y")["series"])
        shown = Look({word: name for word, name in words.items() if word in present})
        look = dash_prediction(data, shown)
    else:
        look, axis = choose_system_look(data), Axis("P95, ms (log scale)", log=True)
        rows = rows.select(*index, series="run", y="p95_ms")
    rows = add_notes(
        rows.drop_nulls("y").with_columns(pl.col("y").clip(LEAST_MS)),
        lambda row: (
            f"{row['run']}, from {row['x']}: {row['series']} {format_number(row['y'])} ms, {row['count']:,} moves"
        ),
    )
    return draw_lines(rows, Lines(x, axis, look, points=True, order=order), width)


def draw_break_even(data: Gathered, width: int) -> Plot | None:
    """Draw the prefill speed that reading beats, by size of the object."""
    rows = data.table("break_even").with_columns(x=pl.col("size"), y=pl.col("break_even_tok_s")).drop_nulls("y")
    rows, look = _split(data, rows, pl.lit("reads"), pl.format("reads from {}", "tier"))
    order = sorted(rows["x"].unique(), key=_bytes)
    how = Lines(_SIZES, Axis("tok/s (log scale)", log=True), look, points=True, order=order)
    rows = add_notes(
        rows,
        lambda row: f"{row['run']}, {row['series']}, objects from {row['x']}: {format_number(row['y'])} tok/s",
    )
    return draw_lines(rows, how, width)


def _bytes(size: str) -> int:
    count, unit = size.split()
    return int(count) << 10 * ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)


def draw_depth(data: Gathered, width: int) -> Plot | None:
    """Draw the moves in flight and waiting over time."""
    rows = data.table("depth_over_time").unpivot(
        ["in_flight", "waiting"], index=["run", "t_s"], variable_name="panel", value_name="y"
    )
    names = {
        "in_flight": "moves in flight",
        "waiting": "moves waiting for a worker, a buffer or a permit",
    }
    rows = rows.rename({"t_s": "x"}).with_columns(pl.col("panel").replace(names))
    rows, look = _split_systems(data, rows, "blue")
    rows = _mark_moments(data, _note_values(rows, ""))
    return draw_lines(rows, Lines(TIME, Axis("moves, mean"), look, step=True, height=140), width)


def _split_systems(data: Gathered, rows: pl.DataFrame, alone: str) -> tuple[pl.DataFrame, Look]:
    look = choose_system_look(data)
    if len(data.shown) == 1:
        look = dash_prediction(data, Look(dict.fromkeys(data.shown, alone)))
    return rows.with_columns(series=pl.col("run")), look


def draw_occupancy(data: Gathered, width: int) -> Plot | None:
    """Draw the contents of each tier over time, and its capacity."""
    rows = data.table("occupancy_over_time").rename({"t_s": "x", "gib": "y", "room_gib": "room"})
    rows, look = _split(data, rows, pl.col("tier"), pl.col("tier"))
    how = Lines(TIME, Axis("GiB"), look, height=140, legend=len(data.shown) > 1)
    return draw_lines(_note_values(rows, "GiB"), how, width)


def draw_lateness(data: Gathered, width: int) -> Plot | None:
    """Draw how late requests began over time, in runs that follow the times of the trace."""
    paced = [name for name, run in data.shown.items() if run.summary.provenance.conditions.pace == "open"]
    rows = data.table("lateness_over_time").filter(pl.col("run").is_in(paced)).rename({"t_s": "x", "p95_ms": "y"})
    rows, look = _split_systems(data, rows.with_columns(panel=pl.lit("P95 of lateness")), "blue")
    return draw_lines(_note_values(rows, "ms"), Lines(TIME, Axis("ms"), look), width)


def draw_device(data: Gathered, width: int) -> Plot | None:
    """Draw the counters of the kernel over time."""
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
    rows, look = _split_systems(data, rows, "blue")
    rows = rows.with_columns(run=pl.format("{} {}", "run", "rank"))  # a line per rank
    return draw_lines(_note_values(rows, ""), Lines(TIME, Axis(""), look, step=True, height=140), width)


def arrange_bars(data: Gathered, name: str, what: pl.Expr) -> pl.DataFrame:
    """Return the rows of a table for bars.

    A single run, or several equal ones, have a bar for each `what`; unequal runs have a panel for each
    `what` with a bar for each run.
    """
    rows = data.table(name)
    if len(data.shown) == 1:
        return rows.with_columns(panel=pl.lit(""), y=what)
    if data.is_equal(name):
        first = next(iter(data.shown))
        return rows.filter(pl.col("run") == first).with_columns(panel=pl.lit(""), y=what, run=pl.lit("each"))
    return rows.with_columns(panel=what, y=pl.col("run"))


def draw_time_spent(data: Gathered, width: int) -> Plot | None:
    """Draw the seconds of moves by tier and part."""
    rows = arrange_bars(data, "time_spent", pl.col("tier")).rename({"seconds": "value"})
    rows = add_notes(
        rows,
        lambda row: f"{row['run']}, {row['tier']}: {format_number(row['value'])} s {row['part']}",
    ).filter(pl.col("value") > 0)
    copies = COPIES if "copy" in set(rows["part"]) else {}
    return draw_bars(rows, Bars(Axis("seconds, summed over moves"), Look(PARTS | copies)), width)


def draw_traffic(data: Gathered, width: int) -> Plot | None:
    """Draw GiB by tier, direction and source, with evictions and copies as parts of their own."""
    part = pl.when(pl.col("cause") == "foreground").then("source").otherwise("cause").alias("part")
    found = arrange_bars(data, "traffic", _DIRECTIONS)
    rows = found.group_by("run", "tier", "side", "panel", "y", part, maintain_order=True).agg(value=pl.col("gib").sum())
    rows = add_notes(
        rows,
        lambda row: f"{row['run']}, {row['tier']} {row['side']}s: {format_number(row['value'])} GiB {row['part']}",
    )
    look = _select_look(rows, SOURCES | {"eviction": "grey"} | COPIES)
    return draw_bars(rows, Bars(Axis("GiB"), look), width)


def draw_hits(data: Gathered, width: int) -> Plot | None:
    """Draw which tier served the reads of each source."""
    rows = arrange_bars(data, "hits", pl.col("source")).rename({"served_by": "part", "reads": "value"})
    rows = add_notes(rows, _describe_reads)
    look = _select_look(rows, {tier: tier for tier in TIERS} | {"recomputed": "grey"})
    return draw_bars(rows, Bars(Axis("share of reads", format="%"), look, shares=True), width)


def _describe_reads(row: Row) -> str:
    share = _format_percent(row["share"])
    reads = format_number(row["value"])
    return f"{row['run']}, {row['source']}: {reads} reads, {share}, {row['part']}"


def _select_look(rows: pl.DataFrame, words: dict[str, str]) -> Look:
    present = set(rows["part"])
    return Look({word: name for word, name in words.items() if word in present})
