"""The report's figures in their order: what each is called, how to read it, its chart, and the tables behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import polars as pl

from analysis.report import charts
from analysis.report import comparison_charts as against
from analysis.report.chart_kinds import Draw
from analysis.report.data import Gathered

Tables = dict[str, pl.DataFrame]
"""By caption."""


def behind(name: str, **chosen: str) -> Callable[[Gathered], Tables]:
    """A table of this name per run shown, one where all are alike; a column per tier and side where time or shares run.

    Args:
        name: one of TABLES.
        chosen: values of columns, as split="size"; such rows, without that column.
    """

    def tables(data: Gathered) -> Tables:
        found = {}
        for run, whole in data.table(name).group_by("run", maintain_order=True):
            own = whole.filter(**chosen) if chosen else whole
            whose = "each run" if data.alike(name) and len(data.shown) > 1 else run[0]
            found[f"{whose}: {name.replace('_', ' ')}"] = _spread(own.drop("run", *chosen))
        return found

    return tables


def _spread(table: pl.DataFrame) -> pl.DataFrame:
    index = next((name for name in ("t_s", "share") if name in table.columns[:3] and "tier" in table.columns), None)
    if index is None or "source" in table.columns:
        return table
    words = [name for name in ("tier", "side") if name in table.columns]
    values = [name for name in table.columns if name not in (index, "count", "room_gib", *words)]
    keyed = table.with_columns(pl.concat_str(words, separator=" ").alias("of"))
    wide = keyed.pivot("of", index=index, values=values, maintain_order=True).sort(index)
    return wide.rename({name: f"{name} {values[0]}" for name in wide.columns[1:]}) if len(values) == 1 else wide


@dataclass(frozen=True)
class Figure:
    """A chart and what belongs to it.

    Attributes:
        name: its id in the page.
        title: what it shows.
        reading: what to read from it, and how it is computed.
        draw: the chart at a width; None where the runs have nothing to show.
        tables: what it is drawn from.
    """

    name: str
    title: str
    reading: str
    draw: Draw
    tables: Callable[[Gathered], Tables]


def _compared(data: Gathered) -> Tables:
    return {"trials, their mean and its 95% interval": against.compared(data).drop("panel")}


SECTIONS: Final[dict[str, tuple[Figure, ...]]] = {
    "Side by side": (
        Figure(
            "comparison",
            "Headline metrics",
            "Bars: mean of the valid trials; line: its 95% bootstrap interval, where there are two or more; marks: the"
            " trials, a cross where one is not valid. Where intervals overlap, the order may be chance. Rates in one"
            " proportion, as the work is equal, have one panel; the table names them.",
            against.comparison,
            _compared,
        ),
    ),
    "Throughput and latency": (
        Figure(
            "bandwidth",
            "Throughput over time",
            "Dips and bursts of each tier. Bytes of the moves that ended in an interval, evictions included, over its"
            " length.",
            charts.bandwidth,
            behind("bandwidth_over_time"),
        ),
        Figure(
            "latency",
            "Latency over time",
            "Drift is caches and buffers filling up, or heat. Time per object of the moves that ended in an interval,"
            " waiting excluded; intervals without a move are bridged.",
            charts.latency,
            behind("latency_over_time"),
        ),
        Figure(
            "distribution",
            "Latency distribution",
            "The share of moves that took so long or less: steps are kinds of objects, or caches. Evictions included,"
            " waiting excluded; points at P50, P90, P99 and P99.9.",
            charts.distribution,
            behind("curves"),
        ),
        Figure(
            "tail",
            "Latency tail",
            "The share of moves that took longer: a line that runs flat to the right is a heavy tail. Points at P90,"
            " P99, P99.9 and P99.99.",
            charts.tail,
            behind("latency", split="all"),
        ),
        Figure(
            "by_size",
            "Latency by size of the object",
            "Flat: each request costs the same; rising: bandwidth bounds it. P95 per class of sizes.",
            charts.by_size,
            behind("latency", split="size"),
        ),
        Figure(
            "depth",
            "Moves in flight and waiting",
            "A queue that grows is a system behind its load. Means over each interval; waiting: all the plan asks for"
            " was done, but no worker, buffer or permit was free.",
            charts.depth,
            behind("depth_over_time"),
        ),
    ),
    "Where time goes": (
        Figure(
            "time_spent",
            "Where moves spent their time",
            "Device: system calls that move data, and memory copies; host: opening, closing, the interpreter; queue:"
            " waiting for a worker, a buffer or a permit; eviction: making room. Summed over moves, hence more than"
            " the run's length.",
            charts.time_spent,
            behind("time_spent"),
        ),
        Figure(
            "break_even",
            "What reading is worth",
            "A prefill that computes more tokens per second than this, for one request, is quicker than reading them."
            " Tokens of hits over the sum of their read times, per class of sizes.",
            charts.break_even,
            behind("break_even"),
        ),
        Figure(
            "qos",
            "Time to first byte against its targets",
            "A dot right of the black mark misses the target: 95% of a class's requests are to keep it. From when a"
            " request is due till decoding can begin.",
            against.qos,
            behind("requests"),
        ),
        Figure(
            "lateness",
            "Lateness",
            "How late requests began after the time the trace gave them: a line that rises is a system that cannot"
            " keep up. P95 of the requests due in an interval.",
            charts.lateness,
            behind("lateness_over_time"),
        ),
    ),
    "Bytes and hits": (
        Figure(
            "traffic",
            "Bytes by tier and source",
            "What the workload asks of each tier, and why; evictions read the tier above and write the one below."
            " Equal for all runs of one plan.",
            charts.traffic,
            behind("traffic"),
        ),
        Figure(
            "hits",
            "Hit rate by source",
            "Which tier served the reads of each kind of reuse; recomputed: no tier had it. user: decode reads of a"
            " request's own object, which hit by construction.",
            charts.hits,
            behind("hits"),
        ),
        Figure(
            "occupancy",
            "Occupancy of the tiers",
            "What lay in each tier at the end of an interval, warm-up included; dashed: what it may hold.",
            charts.occupancy,
            behind("occupancy_over_time"),
        ),
    ),
    "The machine at work": (
        Figure(
            "device",
            "The kernel's counters",
            "What the device under the cache did, and how many cores the replayer kept busy: an idle device with busy"
            " cores measures the replayer. Samples of a second; ranks have a line each.",
            charts.device,
            behind("device_over_time"),
        ),
    ),
}
