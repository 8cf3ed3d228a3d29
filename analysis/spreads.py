"""Exact quantiles of one quantity for every way of grouping the rows, from a single sort.

A row's class and its value are packed into one integer, class above value; sorted, each class is an ascending run. A
group is a union of runs, and its k-th smallest value the largest x with at most k values below x: found bit by bit for
all groups and ranks at once, by binary search in the runs. Nothing is sampled or binned, and 8 bytes per row suffice.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
PIECE: Final = 1 << 16
STATS: Final = ("mean", *QUANTILES, "max")

Ints = NDArray[np.int64]
Classes = Mapping[str, tuple[pl.Expr, int]]
"""Columns to group by: an expression of small integers or booleans, and how many values it has; null is one more."""


@dataclass(frozen=True)
class Sorted:
    """Values by class, ascending; `runs`: the classes' columns as codes, begin, end and sum of each class's values."""

    packed: Ints
    runs: pl.DataFrame
    value_bits: int

    def spread(self, by: Sequence[str] = ()) -> pl.DataFrame:
        """A row per group: its classes' codes, count, and in ms mean_ms, p50_ms … p9999_ms, max_ms.

        Quantiles interpolate linearly between order statistics, at q × (count − 1).
        """
        groups, members = self._groups(by)
        counts = groups["count"].to_numpy()
        values = self._at(members, len(groups), np.outer(counts - 1, [*QUANTILES.values(), 1.0]))
        means = np.bincount(members, weights=self.runs["sum"].to_numpy(), minlength=len(groups)) / counts
        stats = np.column_stack([means, values]) / 1e6
        return groups.with_columns(pl.Series(f"{name}_ms", stats[:, i]) for i, name in enumerate(STATS))

    def points(self, by: Sequence[str], shares: Sequence[float]) -> pl.DataFrame:
        """The distribution's curve: a row per group and share, `ms` being what this share does not exceed."""
        groups, members = self._groups(by)
        values = self._at(members, len(groups), np.outer(groups["count"].to_numpy() - 1, shares)) / 1e6
        curves = groups.select(*by).join(pl.DataFrame({"share": shares}, schema={"share": pl.Float64}), how="cross")
        return curves.with_columns(pl.Series("ms", values.ravel()))

    def _groups(self, by: Sequence[str]) -> tuple[pl.DataFrame, Ints]:
        """The groups with their counts, and each run's group."""
        keyed = self.runs.with_columns(pl.lit(0).alias("all"), pl.col("end").sub(pl.col("begin")).alias("count"))
        groups = keyed.group_by("all", *by, maintain_order=True).agg(pl.col("count").sum())
        members = keyed.join(
            groups.with_row_index("group"), on=["all", *by], how="left", nulls_equal=True, maintain_order="left"
        )
        return groups.drop("all"), members["group"].to_numpy().astype(np.int64)

    def _at(self, members: Ints, groups: int, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at fractional positions, shape (groups, positions), between neighbours by linear interpolation."""
        if not groups:
            return np.empty(positions.shape)
        low = np.floor(positions).astype(np.int64)
        high = np.ceil(positions).astype(np.int64)
        ranks = np.concatenate([low, high], axis=1)
        values = self._select(members, ranks)
        below, above = values[:, : low.shape[1]], values[:, low.shape[1] :]
        return below + (above - below) * (positions - low)

    def _select(self, members: Ints, ranks: Ints) -> NDArray[np.int64]:
        """The value of each rank (from 0) in each group; ranks: shape (groups, m)."""
        begins = self.runs["begin"].to_numpy()
        bases = self.runs["code"].to_numpy() << self.value_bits
        largest = max(int(self.packed[end - 1]) & ((1 << self.value_bits) - 1) for end in self.runs["end"])
        found = np.zeros_like(ranks)
        for bit in reversed(range(largest.bit_length())):
            tried = found | (1 << bit)
            below = np.searchsorted(self.packed, bases[:, None] | tried[members]) - begins[:, None]
            counts = np.zeros_like(ranks)
            np.add.at(counts, members, np.minimum(below, (self.runs["end"].to_numpy() - begins)[:, None]))
            found = np.where(counts <= ranks, tried, found)
        return found


def sort(
    rows: Sequence[pl.LazyFrame], classes: Classes, values: Mapping[str, pl.Expr], at_once: int = 1
) -> Iterator[tuple[str, Sorted]]:
    """Sort quantities by class, one after the other.

    0 ≤ value < 2^(63 − bits of the class): beside the classes of moves 13 days in ns.

    Args:
        rows: what to sort, in stretches.
        classes: what to tell apart.
        values: by name.
        at_once: how many to take from the rows at one look, each at 8 bytes per row.
    """
    bits = 63 - math.prod(size + 1 for _, size in classes.values()).bit_length()
    packed = {name: code(classes).cast(pl.Int64) * (1 << bits) + value.cast(pl.Int64) for name, value in values.items()}
    for begin in range(0, len(packed), at_once):
        names = list(packed)[begin : begin + at_once]
        chosen = [packed[name].alias(name) for name in names]
        looked = pl.concat(stretch.select(chosen).collect(engine="streaming") for stretch in rows)
        for name in names:
            yield name, _runs(ascending(looked.drop_in_place(name)), classes, bits)


def ascending(values: pl.Series) -> Ints:
    """Sorted by NumPy, whose sort of integers takes half the time of Polars' on few cores."""
    found: Ints = values.to_numpy(writable=True)
    found.sort()
    return found


def _runs(packed: Ints, classes: Classes, bits: int) -> Sorted:
    runs = []
    at = 0
    while at < len(packed):  # a step per class, of which there are few
        number = int(packed[at]) >> bits
        end = int(np.searchsorted(packed, (number + 1) << bits))
        total = sum(float(np.sum(some & ((1 << bits) - 1), dtype=np.float64)) for some in pieces(packed[at:end]))
        runs.append((number, at, end, total))
        at = end
    schema = {"code": pl.Int64, "begin": pl.Int64, "end": pl.Int64, "sum": pl.Float64}
    table = pl.DataFrame(runs, schema=schema, orient="row")
    return Sorted(packed, table.with_columns(decode(table["code"], classes)), bits)


def pieces(values: Ints) -> Iterator[Ints]:
    """An array in pieces that fit in a core's cache, so that what is computed from it needs no memory of its size."""
    for begin in range(0, len(values), PIECE):
        yield values[begin : begin + PIECE]


def gaps_ns(starts: Ints, ends: Ints) -> int:
    """How long none of some intervals lasts, between the first start and the last end; both sorted.

    The i-th end and the start after the i-th bound such a time wherever that start is later.
    """
    pairs = zip(pieces(starts[1:]), pieces(ends[:-1]), strict=True)
    return sum(int(np.clip(later - sooner, 0, None).sum()) for later, sooner in pairs)


def code(classes: Classes) -> pl.Expr:
    """One integer for the values of all classes, of which there may be 2^31."""
    packed = pl.lit(0, pl.Int32)
    for expression, size in classes.values():
        packed = packed * (size + 1) + expression.cast(pl.Int32).fill_null(size)
    return packed


def decode(codes: pl.Series, classes: Classes) -> list[pl.Series]:
    """The classes' values again, null where they were."""
    columns = []
    for name, (_, size) in reversed(list(classes.items())):
        digit = codes % (size + 1)
        columns.append(digit.set(digit == size, None).alias(name))
        codes = codes // (size + 1)
    return columns[::-1]
