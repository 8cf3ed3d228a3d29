"""Ratios, quantiles and unions of intervals."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tests.analysis.metric_oracle.facts import Numbers

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999, "max": 1.0}


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if whole and part is not None else None


def in_ms(values: Sequence[int] | pl.Series) -> Numbers:
    """mean, p50 … max of ns, in ms: linear between order statistics, at q × (n − 1)."""
    names = [f"{stat}_ms" for stat in ("mean", *QUANTILES)]
    if not len(values):
        return dict.fromkeys(names)
    times = np.asarray(values)
    found = [times.mean(), *np.quantile(times, [*QUANTILES.values()])]
    return {name: float(value) / 1e6 for name, value in zip(names, found, strict=True)}


def spread(values: Sequence[int] | pl.Series, name: str) -> Numbers:
    return {f"{name}_{stat}": value for stat, value in in_ms(values).items()}


def union_ns(rows: pl.DataFrame, since: str = "start_ns") -> int:
    """How long since … end of at least one row lasts: each adds what is past all ends before it."""
    if not len(rows):
        return 0
    begins, ends = rows.select(since, "end_ns").sort(since).to_numpy().T
    reached = np.maximum.accumulate(np.concatenate([begins[:1], ends[:-1]]))
    return int(np.clip(ends - np.maximum(begins, reached), 0, None).sum())
