"""The choices among a sweep's cells: the best, the least memory, and which rules hit more."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from analysis.sweeps.sweep import CAPACITIES, Curve, Point, SweepTable

ENOUGH: Final = 0.9
"""Share of the bound from which a cell hits enough."""
ALIKE: Final = 0.005
"""Hit rates that differ by less are called alike: half a percentage point."""
FUTURE: Final = "belady"
"""A policy that knows the future: no engine has it, so its cells are never chosen."""

Row = dict[str, object]


def list_possible(sweep: SweepTable) -> pl.DataFrame:
    """Return the cells with prompts whose policy an engine could have."""
    cells = sweep.cells.drop_nulls("hit_rate_tokens")
    possible = cells.filter(~pl.col("policy").str.contains(FUTURE, literal=True))
    return cells if possible.is_empty() else possible


def find_best(sweep: SweepTable) -> Row | None:
    """Return the cell that hits the most; of several that with the fewest bytes written."""
    order = [-pl.col("hit_rate_tokens"), pl.col("write_bytes_nvme"), *_by_size(), pl.col("cell")]
    return _first(list_possible(sweep).sort(order))


def find_least(sweep: SweepTable, *, drive: bool = True) -> Row | None:
    """Return the cell with the least memory that hits ENOUGH of what unlimited memory hits.

    GPU memory counts before DRAM, and DRAM before the drive. Of the cells of that size it is the
    one that hits the most.

    Args:
        sweep: the cells.
        drive: whether the cell may have a drive.
    """
    is_enough = pl.col("hit_rate_tokens") >= ENOUGH * pl.col("bound_tokens")
    cells = list_possible(sweep).filter(is_enough)
    if not drive:
        cells = cells.filter(pl.col("storage_capacity_gb") == 0)
    return _first(cells.sort([*_by_size(), -pl.col("hit_rate_tokens"), pl.col("cell")]))


def find_main_curve(sweep: SweepTable, label: str) -> Curve | None:
    """Return the curve of a label on which memory matters the most; None without any.

    It is the one that rises the most, from no memory of its tier where that was planned.
    """
    curves = [
        curve
        for axis in sweep.axes
        for curve in sweep.curves(axis, "tokens")
        if curve.label == label and len(curve.points) + (curve.without is not None) > 1
    ]
    return max(curves, key=_measure_rise, default=None)


def find_plateau(curve: Curve) -> Point:
    """Return the smallest point from which no larger one hits ALIKE more."""
    points = curve.points
    tops = [max(later.rate for later in points[at:]) for at in range(len(points))]
    return next(point for point, top in zip(points, tops, strict=True) if top - point.rate < ALIKE)


def _measure_rise(curve: Curve) -> float:
    first = curve.without or curve.points[0]
    return max(point.rate for point in curve.points) - first.rate


def _by_size() -> Iterator[pl.Expr]:
    return (pl.col(name).fill_null(float("inf")) for name in CAPACITIES)


def _first(cells: pl.DataFrame) -> Row | None:
    return None if cells.is_empty() else cells.row(0, named=True)


@dataclass(frozen=True)
class LabelSpread:
    """The differences between labels in cells of equal sizes.

    Attributes:
        best: the label that hits the most on average over the sizes that all labels have.
        labels: how many there are.
        points: percentage points by which the best is ahead of another where it is most ahead.
        other: that label.
        row: a cell of that size.
        widest: percentage points between any two labels where they differ the most.
    """

    best: str
    labels: int
    points: float
    other: str
    row: Row
    widest: float

    @property
    def is_alike(self) -> bool:
        """Whether no two labels differ by ALIKE at any size."""
        return self.widest < 100 * ALIKE


def compare_labels(sweep: SweepTable) -> LabelSpread | None:
    """Compare the labels at equal sizes; None if there is one, or no size that all of them have."""
    cells = list_possible(sweep)
    rows = cells.with_columns(label=pl.Series(map(sweep.label, cells.iter_rows(named=True))))
    labels = rows["label"].unique(maintain_order=True).to_list()
    if len(labels) < 2:
        return None
    rates: list[tuple[Row, dict[str, float]]] = []
    for _, group in rows.group_by(*CAPACITIES, maintain_order=True):
        best = group.group_by("label", maintain_order=True).agg(pl.col("hit_rate_tokens").max())
        if len(best) == len(labels):
            rates.append((group.row(0, named=True), dict(best.iter_rows())))
    if not rates:
        return None
    best_label = max(labels, key=lambda label: sum(one[label] for _, one in rates))
    row, one = max(rates, key=lambda pair: pair[1][best_label] - min(pair[1].values()))
    other = min(one, key=lambda label: one[label])
    widest = max(max(one.values()) - min(one.values()) for _, one in rates)
    points = 100 * (one[best_label] - one[other])
    return LabelSpread(best_label, len(labels), points, other, row, 100 * widest)
