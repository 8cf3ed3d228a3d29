"""A sweep as curves: hit rates over the capacity of one tier, everything else the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from replayer.schema import SimulationInfo, read_simulation

CAPACITIES: Final = {"gpu_mem_gb": "gpu", "cpu_mem_gb": "cpu", "storage_capacity_gb": "nvme"}
"""Tiers by the column of their capacity."""
RATES: Final = {"ops": "reads", "tokens": "prompt tokens", "requests": "requests"}
"""What each hit rate counts, by the suffix of its column."""
_LABELS: Final = ("model", "arrangement", "policy", "ttl_s", "chunk_tokens")
_UNITS: Final = {"ttl_s": "TTL {} s", "chunk_tokens": "chunks of {}"}


@dataclass(frozen=True)
class Point:
    """One cell on a curve.

    Attributes:
        gib: capacity of the tier.
        rate: hit rate.
        cell: number of the cell.
    """

    gib: float
    rate: float
    cell: int


@dataclass(frozen=True)
class Curve:
    """Hit rates over the capacity of a tier.

    Attributes:
        tier: gpu, cpu or nvme.
        by: what the rate counts, a key of RATES.
        label: arrangement, policy and other rules.
        beside: the capacities of the other tiers; empty if they are the same in all cells.
        points: by capacity, without cells in which it is unlimited or 0.
        bound: the rate with unlimited memory; None if nothing was asked.
    """

    tier: str
    by: str
    label: str
    beside: str
    points: tuple[Point, ...]
    bound: float | None

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
        differing = [name for name in _LABELS if self._differs(name)]
        return differing or ["arrangement"]

    def _differs(self, name: str) -> bool:
        if name in ("arrangement", "model"):
            return self.cells[name].n_unique() > 1
        # What follows from the arrangement says nothing more.
        by_arrangement = self.cells.group_by("arrangement").agg(pl.col(name).n_unique())
        return bool((by_arrangement[name] > 1).any())

    def label(self, row: dict[str, object]) -> str:
        """Return the settings of a cell that differ between cells, apart from capacities."""
        words = (_UNITS.get(name, "{}").format(_plain(row[name])) for name in self.labels)
        return ", ".join(words)

    def name(self, row: dict[str, object]) -> str:
        """Return the name of a cell: its capacities that differ, and its label."""
        capacities = (_describe(name, row[name]) for name in self.axes)
        return ", ".join([self.label(row), *capacities])

    def curves(self, axis: str, by: str) -> list[Curve]:
        """Return a curve for each combination of the other settings.

        Args:
            axis: column of the capacity, one of `axes`.
            by: what the rate counts, a key of RATES.
        """
        others = [name for name in self.axes if name != axis]
        keys = [*others, *self.labels]
        rate, bound = f"hit_rate_{by}", f"bound_{by}"
        curves = []
        for _, rows in self.cells.group_by(keys, maintain_order=True):
            drawn = rows.filter(pl.col(axis) > 0).drop_nulls([axis, rate]).sort(axis, "cell")
            points = (Point(*row) for row in drawn.select(axis, rate, "cell").iter_rows())
            first = rows.row(0, named=True)
            curves.append(
                Curve(
                    CAPACITIES[axis],
                    by,
                    self.label(first),
                    ", ".join(_describe(name, first[name]) for name in others),
                    tuple(_best_of_each(points)),
                    rows[bound].max(),  # type: ignore[arg-type]  # a float, or None
                )
            )
        return [curve for curve in curves if curve.points]


def _best_of_each(points: Iterator[Point]) -> Iterator[Point]:
    """Yield one point per capacity: the best, where cells differ in nothing that is named."""
    best: dict[float, Point] = {}
    for point in points:
        if point.gib not in best or point.rate > best[point.gib].rate:
            best[point.gib] = point
    yield from best.values()


def _describe(name: str, gib: object) -> str:
    return f"{CAPACITIES[name]} {'unlimited' if gib is None else f'{_plain(gib)} GiB'}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def open_sweep(path: Path) -> SweepTable:
    """Read the table that `replayer simulate` wrote.

    Raises:
        InputError: the file is no such table.
    """
    table, info = read_simulation(path)
    return SweepTable(path, pl.DataFrame(table), info)


def is_sweep(path: Path) -> bool:
    """Return whether a path is a file: a run is a directory."""
    return path.is_file()
