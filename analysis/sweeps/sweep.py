"""A sweep as curves over the capacity of one tier; their shapes, the best cells and rules, the front."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from replayer.schema import FUTURE, SimulationInfo, read_simulation

CAPACITIES: Final = {"gpu_mem_gb": "gpu", "cpu_mem_gb": "cpu", "storage_capacity_gb": "nvme"}
"""Tiers by the column of their capacity."""
RATE: Final = "hit_rate_tokens"
MEMORY: Final = {"gpu": "GPU memory", "cpu": "DRAM", "nvme": "drive"}
"""What a tier's capacity is called in sentences."""
LABELS: Final = {
    "model": "models",
    "arrangement": "arrangements",
    "policy": "policies",
    "ttl_s": "TTLs",
    "chunk_tokens": "chunk sizes",
}
"""Settings that a curve has besides capacities, with the noun for several."""
_UNITS: Final = {"ttl_s": "TTL {} s", "chunk_tokens": "chunks of {}"}
# Rise of the hit rate from which a curve can have a knee: a flat one has none.
LEAST_RISE: Final = 0.05
# A knee is at least this share of the curve's height above the straight line between its ends.
KNEE_RISE: Final = 0.1
# Share of the bound from which a cell hits enough.
ENOUGH: Final = 0.9
# Hit rates that differ by less are called alike: half a percentage point.
ALIKE: Final = 0.005

Row = dict[str, object]


class Point(NamedTuple):
    """A capacity of a tier in GiB, and its hit rate."""

    gib: float
    rate: float


@dataclass(frozen=True)
class Curve:
    """Hit rates over the capacity of a tier.

    Attributes:
        tier: gpu, cpu or nvme.
        label: arrangement, policy and other rules.
        beside: the capacities of the other tiers; empty if they are the same in all cells.
        planned: a point per finite capacity, by capacity; 0 is the cell without the tier.
        bound: the rate with unlimited memory; None if nothing was asked.
    """

    tier: str
    label: str
    beside: str
    planned: tuple[Point, ...]
    bound: float | None

    @property
    def points(self) -> tuple[Point, ...]:
        """The points with the tier."""
        return tuple(point for point in self.planned if point.gib)

    @property
    def name(self) -> str:
        """Label and capacities of the other tiers."""
        return f"{self.label}, {self.beside}" if self.beside else self.label


@dataclass(frozen=True)
class SweepTable:
    """The table that `replayer simulate` wrote.

    Attributes:
        cells: a row each.
        info: what the table records about itself.
    """

    cells: pl.DataFrame
    info: SimulationInfo

    @property
    def axes(self) -> list[str]:
        """Names of the capacities that differ between cells."""
        return [name for name in CAPACITIES if self.cells[name].n_unique() > 1]

    @property
    def labels(self) -> list[str]:
        """Names of the other settings that differ; the arrangement alone if none does."""
        differing = [name for name in LABELS if self._differs(name)]
        return differing or ["arrangement"]

    @property
    def rules(self) -> str:
        """The noun for what labels tell apart, as `policies`."""
        return LABELS[self.labels[0]] if len(self.labels) == 1 else "combinations of rules"

    def _differs(self, name: str) -> bool:
        if name in ("arrangement", "model"):
            return self.cells[name].n_unique() > 1
        # What follows from the arrangement and its tiers says nothing more.
        tiers = [pl.col(capacity).eq_missing(0).alias(f"no {capacity}") for capacity in CAPACITIES]
        alike = self.cells.group_by("arrangement", *tiers).agg(pl.col(name).n_unique())
        return bool((alike[name] > 1).any())

    def label(self, row: dict[str, object]) -> str:
        """Return the settings of a cell that differ between cells, apart from capacities."""
        words = (_UNITS.get(name, "{}").format(_plain(row[name])) for name in self.labels)
        return ", ".join(words)

    def name(self, row: dict[str, object]) -> str:
        """Return the name of a cell: its capacities that differ, and its label."""
        return ", ".join(filter(None, [self.label(row), describe_sizes(row, self.axes)]))

    def curves(self, axis: str) -> list[Curve]:
        """Return a curve for each combination of the other settings, over a capacity of `axes`."""
        others = [name for name in self.axes if name != axis]
        curves = []
        for _, rows in self.cells.group_by([*others, *self.labels], maintain_order=True):
            # The first cell of a capacity is the best, where cells differ in nothing that is named.
            known = rows.drop_nulls([axis, RATE]).sort(axis, -pl.col(RATE), "cell")
            best = known.unique(axis, keep="first", maintain_order=True)
            points = tuple(Point(*row) for row in best.select(axis, RATE).iter_rows())
            first = rows.row(0, named=True)
            beside = describe_sizes(first, others)
            if any(point.gib for point in points):
                bound = rows["bound_tokens"].max()
                curves.append(Curve(CAPACITIES[axis], self.label(first), beside, points, bound))  # type: ignore[arg-type]
        return curves


def describe_sizes(row: dict[str, object], names: Sequence[str]) -> str:
    """Return the capacities of these names in words."""
    return ", ".join(describe_size(CAPACITIES[name], row[name]) for name in names)


def describe_size(tier: str, gib: object) -> str:
    """Return a capacity in words: `64 GiB of DRAM`, `no drive`, `unlimited drive`."""
    memory = MEMORY[tier]
    if gib is None:
        return f"unlimited {memory}"
    return f"{_plain(gib)} GiB of {memory}" if gib else f"no {memory}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def open_sweep(path: Path) -> SweepTable:
    """Read the table that `replayer simulate` wrote.

    Raises:
        InputError: the file is no such table.
    """
    table, info = read_simulation(path)
    return SweepTable(pl.DataFrame(table), info)


def find_knee(curve: Curve) -> Point | None:
    """Return the point after which more memory brings less; None without one.

    Kneedle (Satopää et al., 2011): capacity (as a logarithm) and rate are scaled to 0 to 1; the
    knee is the point that is the furthest above the diagonal.
    """
    first, last = curve.points[0], curve.points[-1]
    if len(curve.points) < 3 or last.rate - first.rate < LEAST_RISE:
        return None

    def rise(point: Point) -> float:
        x = math.log2(point.gib / first.gib) / math.log2(last.gib / first.gib)
        return (point.rate - first.rate) / (last.rate - first.rate) - x

    knee = max(curve.points[1:-1], key=rise)
    return knee if rise(knee) >= KNEE_RISE else None


def find_plateau(curve: Curve) -> Point:
    """Return the smallest point from which no larger one hits ALIKE more."""
    points = curve.points
    tops = [max(later.rate for later in points[at:]) for at in range(len(points))]
    return next(point for point, top in zip(points, tops, strict=True) if top - point.rate < ALIKE)


def find_main_curve(sweep: SweepTable, label: str) -> Curve | None:
    """Return the curve of a label on which memory matters the most; None without any.

    It is the one that rises the most, from no memory of its tier where that was planned.
    """
    curves = [
        curve for axis in sweep.axes for curve in sweep.curves(axis) if curve.label == label and len(curve.planned) > 1
    ]
    return max(curves, key=_measure_rise, default=None)


def _measure_rise(curve: Curve) -> float:
    return max(point.rate for point in curve.points) - curve.planned[0].rate


def list_possible(sweep: SweepTable) -> pl.DataFrame:
    """Return the cells with prompts whose policy an engine could have."""
    cells = sweep.cells.drop_nulls("hit_rate_tokens")
    possible = cells.filter(~pl.col("policy").str.contains(FUTURE, literal=True))
    # A sweep of that policy alone is still worth a look.
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


def _by_size() -> Iterator[pl.Expr]:
    return (pl.col(name).fill_null(float("inf")) for name in CAPACITIES)


def _first(cells: pl.DataFrame) -> Row | None:
    return None if cells.is_empty() else cells.row(0, named=True)


class LabelSpread(NamedTuple):
    """The differences between labels in cells of equal sizes.

    Attributes:
        best: the label that hits the most on average over the sizes that all labels have.
        labels: how many there are.
        points: percentage points by which the best is ahead of another where it is most ahead.
        other: that label.
        row: the sizes there.
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
    named = cells.with_columns(label=pl.Series(map(sweep.label, cells.iter_rows(named=True)), dtype=pl.String))
    labels = named["label"].unique(maintain_order=True).to_list()
    sizes = named.pivot("label", index=[*CAPACITIES], values=RATE, aggregate_function="max").drop_nulls(labels)
    if len(labels) < 2 or sizes.is_empty():
        return None
    best = max(labels, key=lambda label: sizes[label].sum())
    least, most = (sizes.select(end).to_series() for end in (pl.min_horizontal(labels), pl.max_horizontal(labels)))
    lead = sizes[best] - least
    row = sizes.row(lead.arg_max() or 0, named=True)
    other = min(labels, key=lambda label: row[label])
    points = 100 * (row[best] - row[other])
    return LabelSpread(best, len(labels), points, other, row, 100 * max(most - least))


def find_front(sweep: SweepTable) -> pl.DataFrame:
    """Return bytes written to nvme against hits, a row per cell.

    A cell is on the front if no other hits as often with fewer bytes, or more often with as few.

    Returns:
        The columns name, gib (written to nvme), rate (of prompt tokens), cell, and front (a
        boolean), by rising gib; cells without prompts are left out. Empty if no cell has an nvme tier.
    """
    cells = sweep.cells.drop_nulls("hit_rate_tokens")
    if not (cells["write_bytes_nvme"] > 0).any():
        return pl.DataFrame()
    table = cells.select(
        pl.Series("name", map(sweep.name, cells.iter_rows(named=True))),
        (pl.col("write_bytes_nvme") / 2**30).alias("gib"),
        pl.col("hit_rate_tokens").alias("rate"),
        "cell",
    ).sort("gib", -pl.col("rate"), "cell")
    # By rising bytes, a cell is on the front if it hits more than all before it.
    is_best = table["rate"] > table["rate"].cum_max().shift(1).fill_null(-1.0)
    return table.with_columns(front=is_best)
