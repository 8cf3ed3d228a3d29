"""Systems compared, the spread of trials, and predictions beside measured runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl
from msgspec import structs

from analysis.comparison.answer import Row, list_rows, tabulate_rows
from analysis.comparison.compare import Comparison
from analysis.comparison.conditions import find_differing, write_conditions
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.prediction_answer import COLUMNS
from analysis.comparison.predictions import ACCEPTED, OF_DEVICES, PredictionError, compute_error
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
from analysis.summary.run_summary import Summary
from views.answer import Axis, Chart, Column, Rule, Table
from views.numbers import format_number, format_value
from views.sentences import say_values

COMPARISON: Final = "Comparison at equal work"
PREDICTED: Final = "Measured beside predicted"
_WORDS: Final = {
    "wall_clock_tok_s": "tokens/s",
    "ttfb_p95_ms": "the P95 of the storage part of TTFT",
}
"""The metrics that the sentence names."""


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


@dataclass(frozen=True)
class PredictedSystem:
    """A prediction beside the measured trials of its work.

    Attributes:
        name: the predicted run's system.
        errors: by metric; only metrics that are above 0 on both sides.
    """

    name: str
    errors: dict[str, PredictionError]


def find_predicted(data: Gathered) -> list[PredictedSystem]:
    """Find the predictions that have measured trials of their work in the report."""
    measured = [one for one in data.summaries if one.prediction is None and _is_accepted(one)]
    found = []
    for run in data.runs:
        if run.summary.prediction is not None:
            trials = [one for one in measured if _is_same_work(one, run.summary)]
            each = {name: compute_error(trials, run.summary, name) for name in COLUMNS}
            errors = {name: error for name, error in each.items() if error.error is not None}
            if errors:
                found.append(PredictedSystem(run.system, errors))
    return found


def _is_accepted(summary: Summary) -> bool:
    """Return whether a run is valid as a measurement of the model, if not of a drive."""
    return all(doubt.kind in ACCEPTED for doubt in summary.doubts if doubt.invalidates)


def _is_same_work(measured: Summary, predicted: Summary) -> bool:
    """Return whether two runs replayed one load and plan; runs that were cut executed parts of it.

    Conditions of tiers do not count: a prediction has them from its profile.
    """
    one, other = measured.provenance, predicted.provenance
    conditions = (write_conditions(each.conditions) for each in (one, other))
    is_load = {*OF_DEVICES} >= {*find_differing(*conditions)}
    is_plan = one.is_cut or other.is_cut or one.plan_fingerprint == other.plan_fingerprint
    return one.trace_fingerprint == other.trace_fingerprint and is_load and is_plan


def describe_predicted(data: Gathered) -> str:
    """Describe the errors of predictions; empty without measured trials beside one."""
    said = []
    for system in find_predicted(data):
        errors = {name: one.error or 0.0 for name, one in system.errors.items()}
        most = f"no metric of {len(errors)} is off by more than {{}}"
        named = [
            (f"the prediction {system.name} is off by {{}} in {words}", _format_error(errors[name]))
            for name, words in _WORDS.items()
            if name in errors
        ]
        said.append(say_values([*named, (most, f"{max(map(abs, errors.values())):.1%}")]))
    return " ".join(said)


def _format_error(error: float) -> str:
    return f"{error:+.1%}".replace("-", "−")


def tabulate_errors(data: Gathered) -> list[Table]:
    """Return a table with a row for each metric of each prediction; none without predictions."""
    rows = [
        [system.name, heading(name), *_list_values(one)]
        for system in find_predicted(data)
        for name, one in system.errors.items()
    ]
    heads = ("prediction", "metric", "measured, median", "range of trials", "predicted", "error")
    note = "The error is predicted ÷ measured − 1; in brackets are percentiles of too few samples."
    columns = [Column(head) for head in heads]
    table = Table(
        name="predicted",
        title=PREDICTED,
        columns=columns,
        rows=rows,
        notes=[note],
    )
    return [table] if rows else []


def _list_values(one: PredictionError) -> list[str]:
    measured, predicted = (
        f"({format_number(value)})" if one.is_thin else format_number(value) for value in (one.measured, one.predicted)
    )
    span = "" if one.trials < 2 else f"{format_number(one.low)} to {format_number(one.high)}"
    return [measured, span, predicted, _format_error(one.error or 0.0)]
