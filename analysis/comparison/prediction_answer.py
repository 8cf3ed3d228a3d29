"""The answer of `analysis compare` for predictions against measurements of the same work."""

from collections.abc import Iterator
from typing import Final

import msgspec
import polars as pl

from analysis.comparison.predictions import (
    Accuracy,
    PredictedPair,
    PredictionCheck,
    PredictionError,
)
from analysis.comparison.warnings import abbreviate_runs, list_doubt_kinds
from analysis.doubts.predictions import describe_profile
from analysis.metrics.catalogue import CATALOGUE
from analysis.summary.percentiles import NOTE
from tracegen.errors import format_count
from views.answer import Answer, Column, Table
from views.numbers import ABSENT, format_alike, format_number

COLUMNS: Final = (
    "wall_clock_tok_s",
    "nvme_read_gib_s",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
)
"""The metrics that have a column if there are several pairs, unless others are asked for."""


def answer_check(check: PredictionCheck, *, every_metric: bool = False) -> Answer:
    """Make the answer of a check.

    Args:
        check: predictions against measurements.
        every_metric: whether all its metrics have a column if there are several pairs.
    """
    single = len(check.pairs) == 1
    table = _tabulate_pair(check) if single else _tabulate_pairs(check, every_metric=every_metric)
    notes = [*table.notes, *(f"WARNING: {warning}" for warning in check.warnings)]
    if check.doubts:
        notes.append(list_doubt_kinds(check.doubts, sum(map(len, check.runs.values()))))
    return Answer(
        title="Predictions against measurements",
        subject=list(_list_runs(check)),
        sentence="error: predicted ÷ median of the measured trials − 1",
        tables=[msgspec.structs.replace(table, notes=notes)],
        records=_list_records(check),
        data=msgspec.to_builtins(check),
    )


def _list_runs(check: PredictionCheck) -> Iterator[str]:
    """Yield the runs, the profiles, and all that was left out."""
    for side, runs in check.runs.items():
        yield f"{side}: {format_count(len(runs), 'run')}: {abbreviate_runs(runs)}"
    profiles = dict.fromkeys(describe_profile(pair.prediction) for pair in check.pairs)
    yield f"PREDICTED with {' and '.join(profiles)}"
    yield from (f"LEFT OUT: {path}: {why}" for path, why in check.left_out.items())
    yield from (f"UNMATCHED: {why}" for why in check.unmatched)


def _tabulate_pair(check: PredictionCheck) -> Table:
    """Return the table of a single pair: a row for each metric."""
    (pair,) = check.pairs
    trials = format_count(len(pair.measured), "trial")
    heads = ("", "measured", "range", "predicted", "error")
    return Table(
        name="errors",
        title=f"{pair.name}; trace {pair.trace_fingerprint[:12]}, {trials}",
        columns=[Column(head) for head in heads],
        rows=[[metric, *_format_error(error)] for metric, error in pair.errors.items()],
        notes=[NOTE] if any(one.is_thin for one in pair.errors.values()) else [],
    )


def _format_error(error: PredictionError) -> list[str]:
    low, high = (format_number(value) for value in (error.low, error.high))
    figures = [format_number(value) for value in (error.measured, error.predicted)]
    measured, predicted = (f"({one})" if error.is_thin else one for one in figures)
    span = f"{low} .. {high}" if error.trials > 1 else ""
    return [measured, span, predicted, _format_signed(error.error)]


def _format_signed(error: float | None) -> str:
    return ABSENT if error is None else f"{error:+.1%}"


def _tabulate_pairs(check: PredictionCheck, *, every_metric: bool) -> Table:
    """Return the table of several pairs: a row for each, and rows for quantiles of all."""
    metrics = check.metrics
    if not every_metric:
        metrics = [name for name in COLUMNS if name in metrics] or metrics[: len(COLUMNS)]
    found = [check.accuracy[metric] for metric in metrics]
    hidden = len(check.metrics) - len(metrics)
    more = [f"JSON and CSV have {format_count(hidden, 'more metric')}."] if hidden else []
    return Table(
        name="errors",
        title=f"error of {len(check.pairs)} predictions",
        columns=[Column(""), *map(Column, metrics)],
        rows=[*(_list_errors(pair, metrics) for pair in check.pairs), *_list_quantiles(found)],
        notes=more,
    )


def _list_errors(pair: PredictedPair, metrics: list[str]) -> list[str]:
    return [pair.name, *(_format_signed(pair.errors[metric].error) for metric in metrics)]


def _list_quantiles(found: list[Accuracy]) -> list[list[str]]:
    return [
        ["median", *(_format_signed(one.median_error) for one in found)],
        ["median of |error|", *format_alike((one.median for one in found), "share")],
        ["P90 of |error|", *format_alike((one.p90 for one in found), "share")],
    ]


def _list_records(check: PredictionCheck) -> pl.DataFrame:
    """Return a row for each pair and metric."""
    rows = [
        {
            "pair": pair.name,
            "predicted_run": pair.predicted,
            "profile": pair.prediction.profile,
            "metric": metric,
            "unit": CATALOGUE[metric].unit if metric in CATALOGUE else "",
            "trials": one.trials,
            "measured": one.measured,
            "measured_low": one.low,
            "measured_high": one.high,
            "predicted": one.predicted,
            "error": one.error,
        }
        for pair in check.pairs
        for metric, one in pair.errors.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)
