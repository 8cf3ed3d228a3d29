"""Trials of systems side by side, and times of QoS classes with their targets."""

from typing import Any

import altair as alt
import polars as pl

from analysis.comparison.intervals import summarise_metric
from analysis.metrics.headlines import CHARTED, heading
from analysis.report.bar_charts import stack_panels
from analysis.report.chart_kinds import ROWS, Axis, Plot, measure_labels
from analysis.report.charts import LEAST_MS, add_notes, arrange_bars
from analysis.report.data import Gathered
from analysis.report.svg import INK, get_colour
from analysis.report.text import format_number


def draw_qos(data: Gathered, width: int) -> Plot | None:
    """Draw P50 to P99 of the time to first byte, with the P95 and its target."""
    rows = arrange_bars(data, "requests", pl.col("qos"))
    rows = rows.filter((pl.col("measure") == "ttfb") & (pl.col("qos") != "all") & (pl.col("p99_ms") > 0))
    if rows.is_empty():
        return None
    rows = rows.with_columns(
        pl.col("p50_ms", "p95_ms", "p99_ms").clip(LEAST_MS),
        target=pl.col("qos").replace_strict(data.targets.qos_ms, return_dtype=pl.Float64),
    )
    rows = add_notes(
        rows,
        lambda row: (
            f"{row['run']}, {row['qos']}: P50 {format_number(row['p50_ms'])}, P95 {format_number(row['p95_ms'])} ms"
        ),
    )
    ys, panels = (rows[name].unique(maintain_order=True).to_list() for name in ("y", "panel"))
    inner = width - measure_labels(max(map(len, ys))) - 30
    y = alt.Y("y:N", sort=ys, title=None, axis=alt.Axis(domain=False, ticks=False))
    first_byte = Axis("time to first byte, ms (log scale)", log=True)
    axis = first_byte.axis(5, pl.concat([rows["p50_ms"], rows["p99_ms"], rows["target"]]))
    x = alt.X("p50_ms:Q", scale=first_byte.scale(), title=first_byte.title, axis=axis)
    base = alt.Chart(ROWS).encode(y=y, x=x, description="note:N")
    marks = alt.Scale(
        domain=["P50 to P99", "P95", "target for P95"],
        range=[get_colour("cyan"), get_colour("blue"), INK],
    )
    shapes = alt.Scale(domain=marks.domain, range=["stroke", "circle", "M0,-2V2"])
    legend = alt.Legend(columns=3, symbolSize=80)

    def encode(word: str) -> dict[str, Any]:
        return {
            "color": alt.Color(datum=word, scale=marks, legend=legend),
            "shape": alt.Shape(datum=word, scale=shapes, legend=legend),
        }

    chart = alt.layer(
        base.mark_rule(strokeWidth=5).encode(x2="p99_ms:Q", color=encode("P50 to P99")["color"]),
        base.mark_point(filled=True, size=70, opacity=1).encode(x="p95_ms:Q", **encode("P95")),
        base.mark_tick(thickness=2.5, size=20).encode(x="target:Q", color=encode("target for P95")["color"]),
    ).properties(width=inner, height=alt.Step(32))
    return Plot(stack_panels(chart, panels), rows)


def compare_trials(data: Gathered) -> pl.DataFrame:
    """Return each trial's value by metric and system, with the mean of the valid trials.

    The mean has its 95% interval.
    """
    found = []
    for metric in CHARTED:
        for system in data.systems:
            trials = [run for run in data.trials(system) if run.summary.metrics.get(metric) is not None]
            stats = summarise_metric(metric, [run.summary for run in data.trials(system) if run.summary.is_valid])
            spread = {"trials": stats.n, "mean": stats.mean, "low": stats.low, "high": stats.high}
            found += [
                {
                    "metric": metric,
                    "panel": heading(metric),
                    "system": system,
                    "run": run.name,
                    "valid": run.summary.is_valid,
                    "predicted": run.summary.prediction is not None,
                    "value": run.summary.metrics[metric],
                    **spread,
                }
                for run in trials
            ]
    return pl.DataFrame(found, infer_schema_length=None)
