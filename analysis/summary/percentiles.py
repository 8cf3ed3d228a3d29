"""Percentiles of too few samples: told in brackets wherever a person reads them."""

import re
from collections.abc import Iterable
from typing import Any, Final

from analysis.metrics.catalogue import counted_by, least_samples

_PERCENTILE: Final = re.compile(r".+_p(95|99|999|9999)_ms")
NOTE: Final = "(…): a percentile of too few samples, fewer than 100 for P95, 500 for P99."


def is_thin(metric: str, summary: dict[str, Any]) -> bool:
    """Whether a metric is a percentile of fewer samples than it needs."""
    count = counted_by(metric) if _PERCENTILE.fullmatch(metric) else None
    samples = None if count is None or summary.get(metric) is None else summary.get(count)
    return samples is not None and samples < least_samples(metric)


def bracketed(metric: str, summary: dict[str, Any], text: str) -> str:
    """A metric's value as text, in brackets where it is a percentile of too few samples."""
    return f"({text})" if is_thin(metric, summary) else text


def note(metrics: Iterable[str], summaries: Iterable[dict[str, Any]]) -> list[str]:
    """NOTE, where any of these is in brackets."""
    names = list(metrics)
    return [NOTE] if any(is_thin(name, summary) for summary in summaries for name in names) else []
