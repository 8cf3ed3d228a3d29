"""Systems compared: the forest of ratios with its table, and the spread of trials."""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl
from msgspec import structs

from analysis.comparison.answer import Row, list_rows, tabulate_rows
from analysis.comparison.compare import Comparison
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import (
    count_better,
    describe_verdict,
    format_ends,
    format_times,
)
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import CHARTED, heading
from analysis.report.data import DRAWN, Gathered
from views.answer import Axis, Chart, Rule, Table
from views.numbers import format_value

COMPARISON: Final = "Comparison at equal work"
_READING: Final = (
    "The dot is the ratio of the geometric means of trials, turned so that right is better, and the"
    " bar its 95% interval: a bar that touches the line at 1 shows no difference. Of several metrics"
    " one is called different only after Holm’s correction for their number; equal work is judged by"
    " itself."
)
_LEAST_REACH: Final = 0.01
"""The axis reaches at least this far from the mean, so that equal trials do not look unequal."""


def compare_in_charts(comparison: Comparison) -> tuple[list[Chart], list[Table]]:
    """Return the forest of ratios, the values behind it, and the trials; empty without ratios."""
    rows = list_rows(comparison)
    values = structs.replace(tabulate_rows(comparison), section=COMPARISON)
    if not rows and not values.notes:  # the sentence says why a single pair is not compared
        return [], []
    name = comparison.compared[0].name if len(comparison.compared) == 1 else "system"
    tones = {
        f"{name} is better": "cpu",
        f"{comparison.baseline} is better": "nvme",
        "no difference shown": "muted",
        "no verdict": "muted",
    }
    marks = [_make_mark(row, [*tones]) for row in rows]
    if not any(mark["x"] for mark in marks):
        return [], [values]
    forest = Chart(
        name="sides",
        title=values.title,
        caption=_READING,
        kind="intervals",
        rows=pl.DataFrame(marks, infer_schema_length=None),
        x=Axis(
            title=f"◀ {comparison.baseline} better    |    {name} better ▶",
            is_ratio=True,
        ),
        y=Axis(title="", order=[row.label for row in rows]),
        series=[*tones],
        colours=tones,
        rules=[Rule(label="1", x=1.0)],
        section=COMPARISON,
    )
    return [forest], [values]


def _make_mark(row: Row, tones: Sequence[str]) -> dict[str, str | float | None]:
    ratio = row.ratio
    at, low, high = turn(ratio)
    text = format_times(ratio) + (f" ({format_ends(ratio)})" if ratio.low is not None else "")
    tone = 2 if ratio.verdict == "not apart" else 3
    if ratio.verdict == "apart":
        tone = 0 if ratio.winner == ratio.a else 1
    return {
        "y": row.label,
        "x": at,
        "low": low,
        "high": high,
        "series": tones[tone],
        "text": text,
        "note": f"{row.label}: {text}: {describe_verdict(ratio)}",
    }


def turn(ratio: Ratio) -> tuple[float | None, float | None, float | None]:
    """Return how many times better a ratio and its ends are; None if it is not judged."""
    if ratio.ratio is None or ratio.better is None:
        return None, None, None
    at = count_better(ratio.ratio, ratio.better)
    if ratio.low is None or ratio.high is None:
        return at, None, None
    low, high = sorted(count_better(end, ratio.better) for end in (ratio.low, ratio.high))
    return at, low, high


def draw_spread(data: Gathered) -> Iterator[Chart]:
    """Yield how far valid trials are from the mean of their system, if a system has several."""
    rows = pl.DataFrame([*_list_deviations(data)], infer_schema_length=None)
    if rows.is_empty():
        return
    if rows["system"].n_unique() == 1:
        rows = rows.with_columns(y="metric", series="system")
    else:
        rows = rows.with_columns(panel="metric", y="system", series="system")
    reach = 1.1 * max(_LEAST_REACH, float(rows["x"].abs().max()))  # type: ignore[arg-type]
    yield Chart(
        name="trials",
        title="Spread of trials",
        caption="How well trials of one system repeat: each point is a valid trial, as its distance"
        " from the mean of its system. The bar is the 95% interval of the mean, the number at the"
        " right the mean with half of that interval.",
        kind="intervals",
        rows=rows,
        x=Axis(title="distance from the mean", is_share=True, domain=(-reach, reach)),
        y=Axis(title=""),
        series=[*data.trials],
        rules=[Rule(label="mean", x=0.0)],
        section="Trials",
    )


def _list_deviations(data: Gathered) -> Iterator[dict[str, object]]:
    for metric in CHARTED:
        for system in [*data.trials][:DRAWN]:
            trials = [run for run in data.trials[system] if run.summary.is_valid]
            stats = summarise_metric(metric, [run.summary for run in trials])
            if stats.n < 2 or not stats.mean:
                continue
            low, high = (end and end / stats.mean - 1 for end in (stats.low, stats.high))
            half = f" ±{(high - low) / 2:.1%}" if low is not None and high is not None else ""
            text = f"{format_value(stats.mean, describe(metric).unit)}{half}"
            for number, run in enumerate(trials):
                value = run.summary.metrics.get(metric)
                if value is not None:
                    ends = {"low": low, "high": high, "text": text} if not number else {}
                    off = value / stats.mean - 1
                    note = f"{run.name}: {format_value(value, describe(metric).unit)}, {off:+.1%}"
                    place = {"metric": heading(metric), "system": system, "x": off}
                    yield place | {"low": None, "high": None, "text": None} | ends | {"note": note}
