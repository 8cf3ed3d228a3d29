"""Ratios, quantiles, unions of intervals and groups, in plain Python."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests.analysis.metric_oracle.facts import QUANTILES, Numbers, Row, Rows


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if whole and part is not None else None


def quantile(values: Iterable[int], share: int) -> float | None:
    """Linear interpolation between order statistics, at share / 10,000 × (n − 1), in whole numbers."""
    ordered = sorted(values)
    if not ordered:
        return None
    low, rest = divmod(share * (len(ordered) - 1), 10_000)
    return ordered[low] + ((ordered[low + 1] - ordered[low]) * rest / 10_000 if rest else 0)


def stats_ms(values: list[int]) -> Numbers:
    """mean, p50 … max of ns, in ms."""
    found = {"mean": ratio(sum(values), len(values))} | {name: quantile(values, q) for name, q in QUANTILES.items()}
    return {name: None if value is None else value / 1e6 for name, value in found.items()}


def spread(values: list[int], name: str) -> Numbers:
    return {f"{name}_{stat}_ms": value for stat, value in stats_ms(values).items()}


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """How long at least one of them lasts."""
    covered, reached = 0, None
    for start, end in sorted(intervals):
        begin = start if reached is None else max(start, reached)
        covered += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return covered


def size_of(rows: Iterable[Row]) -> int:
    return sum(row["size_bytes"] for row in rows)


def total(rows: Iterable[Row], *names: str) -> int:
    return sum(row[name] for row in rows for name in names)


def grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
