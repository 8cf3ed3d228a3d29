"""Predictions against measurements as text, as JSON and as a table for CSV."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import polars as pl

from analysis.comparison.predicted.accuracy import Accuracy, PredictionError
from analysis.comparison.predicted.predictions import (
    MEASURED,
    PREDICTED,
    PredictedPair,
    PredictionCheck,
    name_profiles,
)
from analysis.comparison.tables import (
    abbreviate_runs,
    align_columns,
    format_figure,
    list_doubt_kinds,
)
from analysis.metrics.catalogue import CATALOGUE
from analysis.summary.percentiles import NOTE
from replayer.schema import to_plain
from tracegen.errors import format_count

COLUMNS: Final = (
    "wall_clock_tok_s",
    "nvme_read_gib_s",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
)
"""The metrics that have a column if there are several pairs, unless others are asked for."""


def render_check(check: PredictionCheck, *, every_metric: bool = False) -> str:
    """Return predictions against measurements as text, without a newline at its end.

    Args:
        check: the comparison.
        every_metric: whether all its metrics have a column if there are several pairs.
    """
    single = len(check.pairs) == 1
    body = _render_pair(check) if single else _render_pairs(check, every_metric=every_metric)
    foot = []
    if check.doubts:
        foot = [list_doubt_kinds(check.doubts, sum(map(len, check.runs.values())))]
    return "\n".join([*_render_head(check), *body, *foot])


def _render_head(check: PredictionCheck) -> list[str]:
    """Return the runs, the profiles, and all that was left out."""
    width = max(map(len, check.runs))
    lines = [
        f"{side:{width}}  {format_count(len(runs), 'run')}: {abbreviate_runs(runs)}"
        for side, runs in check.runs.items()
    ]
    lines.append(f"PREDICTED with {' and '.join(name_profiles(check.pairs))}")
    lines += [f"LEFT OUT: {path}: {why}" for path, why in check.left_out.items()]
    lines += [f"UNMATCHED: {why}" for why in check.unmatched]
    return [*lines, *(f"WARNING: {warning}" for warning in check.warnings), ""]


def _render_pair(check: PredictionCheck) -> list[str]:
    """Return the table of a single pair: a row for each metric."""
    (pair,) = check.pairs
    trials = format_count(len(pair.measured), "trial")
    rows = [["", "measured", "range", "predicted", "error"]]
    for metric in check.metrics:
        one = pair.errors[metric]
        span = "" if one.trials < 2 else _format_ends(one.low, one.high)
        figures = [_bracket(one, value) for value in (one.measured, one.predicted)]
        rows.append([metric, figures[0], span, figures[1], _format_error(one.error)])
    lines = [f"{pair.name}; trace {pair.trace[:12]}, {trials}", "", *align_columns(rows), ""]
    lines.append("measured: the median of the trials; error: predicted / measured - 1.")
    return [*lines, NOTE] if any(one.is_thin for one in pair.errors.values()) else lines


def _render_pairs(check: PredictionCheck, *, every_metric: bool) -> list[str]:
    """Return the table of several pairs: rows for each and for quantiles of all."""
    metrics = check.metrics
    if not every_metric:
        metrics = [name for name in COLUMNS if name in metrics] or metrics[: len(COLUMNS)]
    rows = [[f"error of {len(check.pairs)} predictions", *metrics]]
    rows += [
        [
            f"  {pair.name}",
            *(_format_error(pair.errors[metric].error) for metric in metrics),
        ]
        for pair in check.pairs
    ]
    last: dict[str, Callable[[Accuracy], str]] = {
        "median": lambda one: _format_error(one.median_error),
        "median of |error|": lambda one: _format_size(one.median),
        "P90 of |error|": lambda one: _format_size(one.p90),
    }
    for label, form in last.items():
        rows.append([label, *(form(check.accuracy[metric]) for metric in metrics)])
    lines = [
        *align_columns(rows, left=(0,)),
        "",
        "error: predicted / median of the measured trials - 1.",
    ]
    hidden = len(check.metrics) - len(metrics)
    if hidden:
        lines.append(f"JSON and CSV have {format_count(hidden, 'more metric')}.")
    return lines


def _bracket(error: PredictionError, value: float | None) -> str:
    return f"({format_figure(value)})" if error.is_thin else format_figure(value)


def _format_ends(low: float | None, high: float | None) -> str:
    return f"{format_figure(low)} .. {format_figure(high)}"


def _format_error(error: float | None) -> str:
    return "-" if error is None else f"{error:+.1%}"


def _format_size(size: float | None) -> str:
    return "-" if size is None else f"{size:.1%}"


def check_to_json(check: PredictionCheck) -> dict[str, object]:
    """Return predictions against measurements in plain JSON."""
    return {
        "runs": check.runs,
        "left_out": check.left_out,
        "unmatched": check.unmatched,
        "warnings": check.warnings,
        "doubts": check.doubts,
        "metrics": check.metrics,
        "pairs": [
            {
                "name": pair.name,
                "trace_fingerprint": pair.trace,
                MEASURED: pair.measured,
                PREDICTED: pair.predicted,
                "prediction": to_plain(pair.prediction),
                "errors": {metric: _error_to_json(one) for metric, one in pair.errors.items()},
            }
            for pair in check.pairs
        ],
        "accuracy": {metric: asdict(one) for metric, one in check.accuracy.items()},
    }


def _error_to_json(error: PredictionError) -> dict[str, object]:
    return asdict(error) | {"error": error.error}


def tabulate_check(check: PredictionCheck) -> pl.DataFrame:
    """Return a row for each pair and metric."""
    rows = [_tabulate_error(pair, metric) for pair in check.pairs for metric in check.metrics]
    return pl.DataFrame(rows, infer_schema_length=None)


def _tabulate_error(pair: PredictedPair, metric: str) -> dict[str, object]:
    one = pair.errors[metric]
    return {
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
