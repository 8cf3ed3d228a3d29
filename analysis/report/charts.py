"""The charts of a report: the ratios of systems, and what runs measured.

A report of one run has a panel for each direction or tier, with tiers as series; a report of several
has a panel for each tier and direction, with runs as series.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import polars as pl
from msgspec.structs import replace

from analysis.comparison.answer import SECTION, list_rows, name_comparison
from analysis.comparison.compare import Comparison
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import format_span
from analysis.report.systems import Gathered
from replayer.schema import TIERS
from tracegen.schema import ENUMS
from views.answer import Axis, Chart, Rule

# Most systems in a chart over time: more lines hide one another, and make a page heavy.
_OVER_TIME: Final = 4
_PARTS: Final = {"device": "blue", "host": "purple", "queue": "yellow", "eviction": "grey", "copy": "brown"}
_SOURCES: Final = dict(zip(ENUMS["source"], ("blue", "cyan", "green", "yellow", "red"), strict=True))
_TIME: Final = Axis(title="time since the first move, s")
_MS: Final = Axis(title="ms (log scale)", is_log=True)
_LEAST_MS: Final = 1e-4  # a logarithmic scale has no 0
_SPEED: Final = "Throughput and latency"
_BYTES: Final = "Bytes and hits"
_CAUSES: Final = "Where time goes"
CHARTED: Final = (_SPEED, _CAUSES, _BYTES)
"""The parts of a page that charts and their tables fill, in their order."""
_READING: Final = (
    "The dot is the ratio of the geometric means of trials, turned so that right is better, and the"
    " bar its 95% interval: a bar that touches the line at 1 shows no difference. Of several metrics"
    " one is called different only after Holm’s correction for their number; equal work is judged by"
    " itself."
)
_QUARTERS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
# Shares of the distribution that have a point.
_NOTED: Final = (0.5, 0.9, 0.99, 0.999)
_DIRECTION: Final = pl.format("{} {}s", "tier", "side")


def draw_ratios(comparison: Comparison) -> Iterator[Chart]:
    """Yield the forest of the ratios that were judged, if there are any."""
    rows = [row for row in list_rows(comparison) if row.ratio.better and row.ratio.ratio is not None]
    if not rows:
        return
    name = comparison.compared[0].name if len(comparison.compared) == 1 else "system"
    better, worse, neither = (f"{name} is better", f"{comparison.baseline} is better", "no difference or no verdict")
    marks = []
    for row in rows:
        ratio = row.ratio
        series = neither if ratio.verdict != "apart" else better if ratio.winner == ratio.a else worse
        marks.append((row.label, *turn(ratio), series, format_span(ratio)))
    types = {"y": pl.String, **dict.fromkeys(("x", "low", "high"), pl.Float64), "series": pl.String, "text": pl.String}
    yield Chart(
        name="sides",
        title=name_comparison(comparison),
        caption=_READING,
        kind="intervals",
        rows=pl.DataFrame(marks, types, orient="row"),
        x=Axis(title=f"◀ {comparison.baseline} better    |    {name} better ▶", is_ratio=True),
        y=Axis(title="", order=[row.label for row in rows]),
        series=[better, worse, neither],
        colours={better: "cpu", worse: "nvme", neither: "muted"},
        rules=[Rule(label="1", x=1.0)],
        section=SECTION,
    )


def turn(ratio: Ratio) -> list[float | None]:
    """Return how many times better a ratio and its ends are: inverses if lower values are better."""
    if ratio.better != "lower":
        return [ratio.ratio, ratio.low, ratio.high]
    # The inverse of the upper end is the lower one.
    return [end and 1 / end for end in (ratio.ratio, ratio.high, ratio.low)]


def list_run_charts(data: Gathered) -> list[Chart]:
    """Return the charts for which the runs have data."""
    if not data.shown:
        return []
    charts = [*_list_over_time(data), *_list_distributions(data), *_list_causes(data)]
    return [chart for chart in charts if not chart.rows.is_empty()]


def _split(data: Gathered, name: str, panel: pl.Expr = _DIRECTION) -> pl.DataFrame:
    """Return a table with series and panels.

    Several runs are the series, in a panel by tier and direction; of a single run the tiers are, in `panel`.
    """
    is_single = len(data.shown) == 1
    series = pl.col("tier" if is_single else "run")
    return data.table(name).with_columns(panel=panel if is_single else _DIRECTION, series=series)


def _style(data: Gathered, rows: pl.DataFrame) -> Any:
    """Return the series, which are systems, or of a single run tiers; and those that are dashed."""
    # All systems are listed, so that each has one colour in every chart.
    series = [*data.trials] if len(data.shown) > 1 else ()
    predicted = data.predicted if series else {*rows["series"]} if data.predicted else ()
    return {"series": series, "dashed": frozenset(predicted)}


def _list_over_time(data: Gathered) -> Iterator[Chart]:
    shown = drawn = [*data.shown]
    remark = ""
    if len(shown) > _OVER_TIME:
        # Spread over all systems, so that each side of a comparison has some.
        drawn = [shown[step * len(shown) // _OVER_TIME] for step in range(_OVER_TIME)]
        left_out = "; ".join(name for name in shown if name not in drawn)
        remark = f" Drawn are {len(drawn)} of {len(shown)} systems, without {left_out}."
    chart = partial(Chart, x=_TIME, rules=[*_list_moments(data, drawn)], section=_SPEED)
    rows = _split(data, "bandwidth_over_time").filter(pl.col("run").is_in(drawn))
    yield chart(
        rows=rows.rename({"t_s": "x", "gib_s": "y"}),
        name="bandwidth",
        title="Throughput over time",
        caption="Look for dips and bursts of a tier. Each value is the bytes of all moves that ended"
        f" in an interval, evictions included, divided by its length.{remark}",
        kind="steps",
        y=Axis(title="GiB/s"),
        **_style(data, rows),
    )
    is_alone = len(shown) == 1
    rows = _split(data, "latency_over_time").filter(pl.col("run").is_in(drawn))
    rows = rows.rename({"t_s": "x"}).with_columns(y=pl.col("p95_ms").clip(_LEAST_MS))
    if is_alone:
        rows = rows.with_columns(low=pl.col("p50_ms").clip(_LEAST_MS), high=pl.col("y"))
    yield chart(
        rows=rows,
        name="latency",
        title="Latency over time",
        caption="Look for stalls, and for a drift after the warm-up. Each value is of the moves that"
        f" ended in an interval: the P95, and for a single run the band down to the P50.{remark}",
        kind="bands",
        y=Axis(title=f"{'P50 to ' if is_alone else ''}P95, ms (log scale)", is_log=True),
        **_style(data, rows),
    )


def _list_moments(data: Gathered, names: Iterable[str]) -> Iterator[Rule]:
    """Yield the moments of some runs; equal ones of several runs once, others with their run's name."""
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for name in names:
        for moment, seconds in data.shown[name].moments.items():
            found.setdefault((moment, f"{seconds:.2g}"), (name, seconds))
    counts = Counter(moment for moment, _ in found)
    for (moment, _), (name, seconds) in found.items():
        yield Rule(label=moment if counts[moment] == 1 else f"{moment}, {name}", x=seconds)


def _list_distributions(data: Gathered) -> Iterator[Chart]:
    rows = _split(data, "curves", pl.format("{}s", "side"))
    words = pl.format("{}, {} {}s: {}% within {} ms", "run", "tier", "side", pl.col("share") * 100, "ms")
    noted = pl.when(pl.col("share").is_in(_NOTED)).then(words)
    yield Chart(
        rows=rows.with_columns(x=pl.col("ms").clip(_LEAST_MS), y=pl.col("share"), note=noted),
        name="distribution",
        title="Latency distribution",
        caption="The share of moves that take a time or less, evictions included and waiting"
        " excluded. Points mark P50, P90, P99 and P99.9.",
        kind="lines",
        x=replace(_MS, title="time per object, ms (log scale)"),
        y=Axis(title="share of moves", is_share=True, domain=(0.0, 1.0), ticks=_QUARTERS),
        section=_SPEED,
        **_style(data, rows),
    )
    targets = dict(data.targets.qos_ms)
    rows = _arrange(data, "requests", pl.col("qos"))
    is_timed = (pl.col("measure") == "ttfb") & pl.col("qos").is_in([*targets])
    rows = rows.filter(is_timed & (pl.col("p99_ms") > 0))
    places = {"x": "p95_ms", "low": "p50_ms", "high": "p99_ms"}
    rows = rows.with_columns(
        *(pl.col(column).clip(_LEAST_MS).alias(name) for name, column in places.items()),
        pl.col("qos").replace_strict(targets, return_dtype=pl.Float64).alias("target"),
    )
    yield Chart(
        name="qos",
        title="Time to first byte against its targets",
        caption="A dot to the right of the black mark misses the target, which 95% of the requests of"
        " a class must meet. The time runs from when a request is due until its decoding can begin;"
        " the dot is its P95, the bar reaches from P50 to P99.",
        kind="dots",
        rows=rows,
        x=replace(_MS, title="time to first byte, ms (log scale)"),
        y=Axis(title=""),
        section=_SPEED,
    )


def _arrange(data: Gathered, name: str, what: pl.Expr) -> pl.DataFrame:
    """Return a table for bars.

    A single run, or several equal ones, have a bar for each `what`; unequal runs have a panel for
    each `what` with a bar for each run.
    """
    rows = data.table(name)
    # Runs of one plan have equal counts: one panel shows them all.
    if len(data.shown) > 1 and not data.is_equal(name):
        return rows.with_columns(panel=what, y=pl.col("run"))
    first = next(iter(data.shown))
    return rows.filter(pl.col("run") == first).with_columns(panel=pl.lit(""), y=what)


def _list_causes(data: Gathered) -> Iterator[Chart]:
    rows = _arrange(data, "time_spent", pl.col("tier")).filter(pl.col("seconds") > 0)
    bars = partial(Chart, kind="bars", y=Axis(title=""))
    yield bars(
        name="time_spent",
        title="Time of moves by cause",
        caption="Device: system calls that move data, and memory copies. Host: opening, closing and"
        " the interpreter. Queue: waiting for a worker, a buffer or a permit. Eviction: making room."
        " Times are summed over concurrent moves, so the sum is larger than the length of the run.",
        rows=rows.rename({"part": "series", "seconds": "x"}),
        x=Axis(title="seconds, summed over moves"),
        series=[*_PARTS],
        colours=_PARTS,
        section=_CAUSES,
    )
    # Bytes that a tier moves for itself have no source in the workload.
    source = pl.when(pl.col("cause") == "foreground").then("source").otherwise("cause")
    rows = _arrange(data, "traffic", _DIRECTION).with_columns(source.alias("series"))
    groups = rows.group_by("panel", "y", "series", maintain_order=True)
    yield bars(
        name="traffic",
        title="Bytes by tier and source",
        caption="What the workload asks of each tier, and why. An eviction reads the upper tier and"
        " writes the lower one. All runs of one plan are equal here.",
        rows=groups.agg(x=pl.col("gib").sum()),
        x=Axis(title="GiB"),
        series=[*_SOURCES, "eviction", "copy"],
        colours=_SOURCES | _PARTS,
        section=_BYTES,
    )
    yield bars(
        name="hits",
        title="Hit rate by source",
        caption="Which tier served the reads of each kind of reuse; recomputed means that no tier had"
        " the object. The source user is the decode reads of a request's own object, which always"
        " hit.",
        rows=_arrange(data, "hits", pl.col("source")).rename({"served_by": "series", "share": "x"}),
        x=Axis(title="share of reads", is_share=True),
        series=[*TIERS, "recomputed"],
        colours={"recomputed": "grey"},
        section=_BYTES,
    )
