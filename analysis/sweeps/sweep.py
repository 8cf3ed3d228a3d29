"""A sweep as curves: hit rates over the capacity of one tier, everything else the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from analysis.metrics.catalogue import describe
from replayer.schema import SimulationInfo, read_simulation

CAPACITIES: Final = {"gpu_mem_gb": "gpu", "cpu_mem_gb": "cpu", "storage_capacity_gb": "nvme"}
"""Tiers by the column of their capacity."""
RATE: Final = "hit_rate_tokens"
CURVES: Final = {
    RATE: "prompt tokens that hit",
    "wall_clock_tok_s": "tokens/s, predicted",
    "ttfb_p95_ms": "storage part of the time to first token, P95, ms, predicted",
}
"""Columns that have curves: the hit rate, and what a profile predicts."""
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


class Point(NamedTuple):
    """A capacity of a tier in GiB, and its hit rate or predicted value."""

    gib: float
    rate: float


@dataclass(frozen=True)
class Curve:
    """Hit rates, or predicted values, over the capacity of a tier.

    Attributes:
        tier: gpu, cpu or nvme.
        by: the column of its rates, a key of CURVES.
        label: arrangement, policy and other rules.
        beside: the capacities of the other tiers; empty if they are the same in all cells.
        planned: a point per finite capacity, by capacity; 0 is the cell without the tier.
        bound: the rate with unlimited memory; None if nothing was asked, and of predicted values.
    """

    tier: str
    by: str
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
        path: the file.
        cells: a row each.
        info: what the table records about itself.
    """

    path: Path
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

    def curves(self, axis: str, by: str = RATE) -> list[Curve]:
        """Return a curve of a column for each combination of the other settings, over a capacity of `axes`."""
        others = [name for name in self.axes if name != axis]
        # The first cell of a capacity is the best, where cells differ in nothing that is named.
        order = [axis, get_direction(by) * -pl.col(by), "cell"]
        curves = []
        for _, rows in self.cells.group_by([*others, *self.labels], maintain_order=True):
            best = rows.drop_nulls([axis, by]).sort(order).unique(axis, keep="first", maintain_order=True)
            points = tuple(Point(*row) for row in best.select(axis, by).iter_rows())
            bound = rows["bound_tokens"].max() if by == RATE else None
            first = rows.row(0, named=True)
            beside = describe_sizes(first, others)
            if any(point.gib for point in points):
                curves.append(Curve(CAPACITIES[axis], by, self.label(first), beside, points, bound))  # type: ignore[arg-type]
        return curves


def get_direction(by: str) -> int:
    """Return 1 if a higher rate of a curve is better, -1 if a lower one is."""
    return -1 if describe(by).better == "lower" else 1


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
    return SweepTable(path, pl.DataFrame(table), info)
