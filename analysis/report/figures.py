"""Figures of a report in their order: titles, how to read them, charts, and tables of their data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from analysis.report import charts, comparison_charts
from analysis.report.between_runs import load_chart, predicted_chart, trials_chart
from analysis.report.chart_kinds import Draw
from analysis.report.data import DRAWN, Gathered

Tables = dict[str, pl.DataFrame]
"""Tables by caption."""


def tables_of(name: str, **values: str) -> Callable[[Gathered], Tables]:
    """Return a function that makes the tables of a figure: one per run shown, or one if all are equal.

    Tables over time or shares have a column for each tier and direction.

    Args:
        name: name of a table in TABLES.
        values: values of columns, as split="size"; other rows and these columns are left out.
    """

    def make(data: Gathered) -> Tables:
        tables = {}
        is_shared = data.is_equal(name) and len(data.shown) > 1
        for (run,), whole in data.table(name).group_by("run", maintain_order=True):
            own = whole.filter(**values) if values else whole
            caption = f"{'each run' if is_shared else run}: {name.replace('_', ' ')}"
            tables[caption] = _widen(own.drop("run", *values))
        return tables

    return make


def _widen(table: pl.DataFrame) -> pl.DataFrame:
    """Give a table over time or shares a column for each tier and direction."""
    first = table.columns[:3]
    index = next((name for name in ("t_s", "share") if name in first and "tier" in table.columns), None)
    if index is None or "source" in table.columns:
        return table
    words = [name for name in ("tier", "side") if name in table.columns]
    skipped = (index, "count", "room_gib", *words)
    values = [name for name in table.columns if name not in skipped]
    keyed = table.with_columns(pl.concat_str(words, separator=" ").alias("key"))
    wide = keyed.pivot("key", index=index, values=values, maintain_order=True).sort(index)
    if len(values) > 1:
        return wide
    return wide.rename({name: f"{name} {values[0]}" for name in wide.columns[1:]})


@dataclass(frozen=True)
class Figure:
    """A chart with its title, explanation and data.

    To add one, write a function that draws it and one that makes its tables, and a line in SECTIONS.

    Attributes:
        name: its id in the page, and the name of its files.
        title: its heading.
        reading: how to read it, and how it is computed.
        draw: draws the chart at a width in pixels; returns None if the runs have nothing to show.
        tables: makes the tables of its data.
        most: most systems in it; more lines over time hide one another, and make a page heavy.
    """

    name: str
    title: str
    reading: str
    draw: Draw
    tables: Callable[[Gathered], Tables]
    most: int = DRAWN


def limit_systems(figure: Figure, data: Gathered) -> tuple[Figure, Gathered]:
    """Return a figure and the runs for it; how to read it names the systems left out.

    The systems drawn are spread over all, so that each side of a comparison has some.
    """
    shown = list(data.shown)
    if len(shown) <= figure.most:
        return figure, data
    drawn = {shown[step * len(shown) // figure.most] for step in range(figure.most)}
    left_out = "; ".join(name for name in shown if name not in drawn)
    reading = f"{figure.reading} Drawn are {len(drawn)} of {len(shown)} systems, without {left_out}."
    runs = [run if run.system in drawn else replace(run, tables={}) for run in data.runs]
    return replace(figure, reading=reading), replace(data, runs=runs)


_OVER_TIME: Final = 4
"""Most systems in a chart over time."""
LEADING: Final = "Load"
"""The section that comes before the table of headline figures."""
SECTIONS: Final[dict[str, tuple[Figure, ...]]] = {
    LEADING: (
        Figure(
            "load",
            "Latency against load",
            "Find the highest load at which the P95 is below its dashed target. Each point is the"
            " mean of the valid trials at one load, the line through it its 95% interval."
            " Where a point is hollow, the system fell behind its schedule: requests queue, and"
            " latencies there also depend on how long the run lasts. If the requests/s achieved stop"
            " growing with the load, the system is saturated.",
            load_chart.draw_load,
            load_chart.tabulate_load,
        ),
    ),
    "Comparison": (
        Figure(
            "trials",
            "Spread of trials",
            "How well trials of one system repeat: each point is a valid trial, in their order from"
            " top to bottom, as its distance from the mean of its system. The bar is the 95%"
            " interval of the mean, the number at the right the mean with half of that interval."
            " A trend from top to bottom means that the system changed between trials.",
            trials_chart.draw_trials,
            trials_chart.tabulate_spread,
        ),
        Figure(
            "predicted",
            "Measured beside predicted",
            "How far predictions are from replays of the same work: measured values are the median"
            " of the trials with their range, all as distances from the measured median. The error"
            " is predicted ÷ measured − 1.",
            predicted_chart.draw_predicted,
            predicted_chart.tabulate_errors,
        ),
    ),
    "Throughput and latency": (
        Figure(
            "bandwidth",
            "Throughput over time",
            "Look for dips and bursts of a tier. Each value is the bytes of all moves that ended in an interval,"
            " evictions included, divided by the length of the interval.",
            charts.draw_bandwidth,
            tables_of("bandwidth_over_time"),
            _OVER_TIME,
        ),
        Figure(
            "latency",
            "Latency over time",
            "A drift means that caches or buffers fill up, or that the device gets hot. The line is the"
            " median of the moves that ended in an interval, and the band reaches to their P95; of"
            " several systems the line is the P95. Waiting is not included.",
            charts.draw_latency,
            tables_of("latency_over_time"),
            _OVER_TIME,
        ),
        Figure(
            "distribution",
            "Latency distribution",
            "Each point on a line is the share of moves that took at most this time. Steps separate kinds of objects,"
            " or cached from uncached reads. Evictions are included, waiting is not. Points mark P50, P90, P99 and"
            " P99.9.",
            charts.draw_distribution,
            tables_of("curves"),
        ),
        Figure(
            "tail",
            "Latency tail",
            "Each point on a line is the share of moves that took longer than this time. A line that runs flat to the"
            " right is a heavy tail. Points mark P90, P99, P99.9 and P99.99.",
            charts.draw_tail,
            tables_of("latency", split="all", clock="total"),
        ),
        Figure(
            "by_size",
            "Latency by object size",
            "A flat line means a fixed cost per request, a rising line a limit by bandwidth. A P95 has"
            " at least 100 moves, a P99 500.",
            charts.draw_by_size,
            tables_of("latency", split="size", clock="total"),
        ),
        Figure(
            "by_depth",
            "Latency by queue depth",
            "If latency rises in proportion to the depth, the tier is saturated: more moves in flight"
            " bring waiting, not throughput. The depth of a move is the number of moves that read or"
            " wrote the tier when it started, itself included. A P95 has at least 100 moves, a P99 500.",
            charts.draw_by_depth,
            tables_of("latency_by_depth"),
        ),
        Figure(
            "depth",
            "Moves in flight and waiting",
            "If the queue keeps growing, the system cannot keep up with its load. Values are means over each interval."
            " A move is waiting if the plan allows it to start, but no worker, buffer or permit is free.",
            charts.draw_depth,
            tables_of("depth_over_time"),
            _OVER_TIME,
        ),
    ),
    "Where time goes": (
        Figure(
            "time_spent",
            "Time of moves by cause",
            "Device: system calls that move data, and memory copies. Host: opening, closing and the interpreter."
            " Queue: waiting for a worker, a buffer or a permit. Eviction: making room. Times are summed over"
            " concurrent moves, so the sum is larger than the length of the run.",
            charts.draw_time_spent,
            tables_of("time_spent"),
        ),
        Figure(
            "break_even",
            "Break-even: reading or recomputing",
            "Recomputing is faster than reading if prefill computes more tokens per second for one request than shown"
            " here. Each value is the tokens of all hits divided by the sum of their read times, per size class.",
            charts.draw_break_even,
            tables_of("break_even"),
        ),
        Figure(
            "qos",
            "Time to first byte against its targets",
            "A dot to the right of the black mark misses the target, which 95% of the requests of a class must meet."
            " The time runs from when a request is due until its decoding can begin.",
            comparison_charts.draw_qos,
            tables_of("requests"),
        ),
        Figure(
            "lateness",
            "Lateness",
            "How much later than in the trace requests began. If the line rises, the system cannot keep up. Each value"
            " is the P95 of the requests that were due in an interval.",
            charts.draw_lateness,
            tables_of("lateness_over_time"),
            _OVER_TIME,
        ),
    ),
    "Bytes and hits": (
        Figure(
            "traffic",
            "Bytes by tier and source",
            "What the workload asks of each tier, and why. An eviction reads the upper tier and writes the lower one."
            " All runs of one plan are equal here.",
            charts.draw_traffic,
            tables_of("traffic"),
        ),
        Figure(
            "hits",
            "Hit rate by source",
            "Which tier served the reads of each kind of reuse; recomputed means that no tier had the object. The"
            " source user is the decode reads of a request's own object, which always hit.",
            charts.draw_hits,
            tables_of("hits"),
        ),
        Figure(
            "occupancy",
            "Occupancy of the tiers",
            "Contents of each tier at the end of an interval, including the warm-up. The thin grey"
            " line is the capacity.",
            charts.draw_occupancy,
            tables_of("occupancy_over_time"),
            _OVER_TIME,
        ),
    ),
    "Device and processor": (
        Figure(
            "device",
            "Kernel counters",
            "Activity of the device under the cache, and the number of cores that the replayer kept busy. If the device"
            " is idle while cores are busy, the run measured the replayer. Each rank has its own line, with a sample"
            " per second.",
            charts.draw_device,
            tables_of("device_over_time"),
            _OVER_TIME,
        ),
    ),
}
