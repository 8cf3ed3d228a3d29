"""Percentiles of too few samples, which people see in brackets."""

from collections.abc import Iterable
from typing import Any, Final

from analysis.log.quantiles import QUANTILES
from analysis.metrics.catalogue import describe

_TAIL: Final = 0.95
NOTE: Final = "(…): a percentile of too few samples, fewer than 100 for P95, 500 for P99."


def is_thin(metric: str, summary: dict[str, Any]) -> bool:
    """Return whether a metric is a P95 or higher of fewer samples than it needs."""
    described = describe(metric)
    if QUANTILES.get(described.percentile or "", 0) < _TAIL or described.counted_by is None:
        return False
    samples = summary.get(described.counted_by)
    if summary.get(metric) is None or samples is None:
        return False
    return bool(samples < described.least_samples)


def bracketed(metric: str, summary: dict[str, Any], text: str) -> str:
    """Return the text of a metric's value, in brackets if it is a percentile of too few samples."""
    return f"({text})" if is_thin(metric, summary) else text


def note(metrics: Iterable[str], summaries: Iterable[dict[str, Any]]) -> list[str]:
    """Return NOTE if any of these metrics is in brackets."""
    names = list(metrics)
    return [NOTE] if any(is_thin(name, summary) for summary in summaries for name in names) else []
