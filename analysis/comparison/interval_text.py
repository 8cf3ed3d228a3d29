"""Predicted systems as text: their figures with intervals, next to each other."""

from typing import Final

from analysis.comparison.compare import Comparison
from analysis.comparison.matching import Configuration
from analysis.comparison.tables import align_columns, format_figure
from analysis.metrics.catalogue import CATALOGUE
from analysis.summary.run_summary import Interval

OVERLAPS: Final = "~"
"""The mark of a figure whose interval overlaps that of the best."""


def find_intervals(comparison: Comparison) -> Configuration | None:
    """Return the only configuration if each of its systems is one prediction with bounds."""
    if len(comparison.configurations) != 1:
        return None
    (one,) = comparison.configurations
    for trials in one.summaries.values():
        predictions = [summary.prediction for summary in trials]
        if len(predictions) != 1 or predictions[0] is None or not predictions[0].intervals:
            return None
    return one


def render_intervals(configuration: Configuration, metrics: list[str]) -> list[str]:
    """Return the table of predicted systems: a row for each metric, a column for each system.

    Args:
        configuration: the one that `find_intervals` returned.
        metrics: the metrics to show.
    """
    rows = [["", *configuration.summaries]]
    rows += [[metric, *_render_cells(configuration, metric)] for metric in metrics]
    lines = ["", *align_columns(rows)]
    lines.append("[ .. ]: the range of the prediction and its bounds.")
    if any(cell.endswith(OVERLAPS) for row in rows for cell in row):
        lines.append(f"{OVERLAPS} overlaps the range of the best: the prediction does not tell them apart.")
    return lines


def _render_cells(configuration: Configuration, metric: str) -> list[str]:
    """Return each system's figure of a metric."""
    values = [configuration.values(system, metric)[0] for system in configuration.summaries]
    ranges = [_find_range(configuration, system, metric) for system in configuration.summaries]
    best = _find_best(metric, values)
    top = None if best is None else ranges[best]
    cells = []
    for value, ends in zip(values, ranges, strict=True):
        is_best = best is not None and value == values[best]
        mark = OVERLAPS if not is_best and _overlap(ends, top) else " "
        cells.append(f"{format_figure(value)}{_format_range(ends)} {mark}")
    return cells


def _overlap(ends: Interval | None, others: Interval | None) -> bool:
    """Return whether two ranges have a value in common."""
    return bool(ends and others and ends[0] <= others[1] and others[0] <= ends[1])


def _find_best(metric: str, values: list[float | None]) -> int | None:
    """Return the number of the system with the best value; None if no value is better."""
    better = CATALOGUE[metric].better if metric in CATALOGUE else None
    known = {number: value for number, value in enumerate(values) if value is not None}
    if better is None or not known:
        return None
    choose = max if better == "higher" else min
    return choose(known, key=lambda number: known[number])


def _find_range(configuration: Configuration, system: str, metric: str) -> Interval | None:
    """Return the interval of a system's metric."""
    prediction = configuration.summaries[system][0].prediction
    return None if prediction is None else prediction.intervals.get(metric)


def _format_range(ends: Interval | None) -> str:
    if ends is None:
        return ""
    low, high = map(format_figure, ends)
    return "" if low == high else f" [{low} .. {high}]"
