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
    """Values by class, ascending.

    Attributes:
        packed: each value below its class.
        value_bits: how many bits a value has.
        classes, begins, ends, sums: of each class that occurs, its number, where its run lies, and what its values add
            up to.
        digits: the column that each class has of every grouping, and how many values the column has, which stands for
            null; `all` is a column of zeros.
    """

    packed: Ints
    value_bits: int
    classes: Ints
    begins: Ints
    ends: Ints
    sums: NDArray[np.float64]
    digits: dict[str, tuple[Ints, int]]

    def spread(self, by: Sequence[str]) -> pl.DataFrame:
        """A row per group: its columns, count, and in ms mean_ms, p50_ms … p9999_ms, max_ms.

        Quantiles interpolate linearly between order statistics, at q × (count − 1).
        """
        keys, members, counts = self._groups(by)
        values = self._at(members, counts, [*QUANTILES.values(), 1.0])
        means = np.bincount(members, weights=self.sums, minlength=len(counts)) / counts
        stats = np.column_stack([means, values]) / 1e6
        return pl.DataFrame(
            [*keys, pl.Series("count", counts), *(pl.Series(f"{name}_ms", stats[:, i]) for i, name in enumerate(STATS))]
        )

    def points(self, by: Sequence[str], shares: Sequence[float]) -> pl.DataFrame:
        """The distribution's curve: a row per group and share, `ms` being what this share does not exceed."""
        keys, members, counts = self._groups(by)
        values = self._at(members, counts, shares) / 1e6
        named = pl.DataFrame(keys).join(pl.DataFrame({"share": shares}, schema={"share": pl.Float64}), how="cross")
        return named.with_columns(pl.Series("ms", values.ravel()))

    def _groups(self, by: Sequence[str]) -> tuple[list[pl.Series], Ints, Ints]:
        """The groups' columns, each class's group, and the groups' counts."""
        mixed = np.zeros_like(self.classes)
        for name in by:
            digits, size = self.digits[name]
            mixed = mixed * (size + 1) + digits
        _, firsts, members = np.unique(mixed, return_index=True, return_inverse=True)
        counts = np.zeros(len(firsts), np.int64)
        np.add.at(counts, members, self.ends - self.begins)
        chosen = [(name, self.digits[name][0][firsts], self.digits[name][1]) for name in by]
        keys = [pl.Series(name, [None if d == n else d for d in ds.tolist()], pl.Int64) for name, ds, n in chosen]
        return keys, members, counts

    def _at(self, members: Ints, counts: Ints, shares: Sequence[float]) -> NDArray[np.float64]:
        """Values at share × (count − 1), shape (groups, shares), between neighbours by linear interpolation."""
        positions = np.outer(counts - 1, shares)
        if not len(counts):
            return np.empty(positions.shape)
        low = np.floor(positions).astype(np.int64)
        high = np.ceil(positions).astype(np.int64)
        ranks = np.concatenate([low, high], axis=1)
        values = self._select(members, ranks)
        below, above = values[:, : low.shape[1]], values[:, low.shape[1] :]
        found: NDArray[np.float64] = below + (above - below) * (positions - low)
        return found

    def _select(self, members: Ints, ranks: Ints) -> Ints:
        """The value of each rank (from 0) in each group; ranks: shape (groups, m)."""
        bases = self.classes << self.value_bits
        largest = int((self.packed[self.ends - 1] & ((1 << self.value_bits) - 1)).max())
        found = np.zeros_like(ranks)
        for bit in reversed(range(largest.bit_length())):
            tried = found | (1 << bit)
            below = np.searchsorted(self.packed, bases[:, None] | tried[members]) - self.begins[:, None]
            counts = np.zeros_like(ranks)
            np.add.at(counts, members, np.minimum(below, (self.ends - self.begins)[:, None]))
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
    packed = {
        name: pack_classes(classes).cast(pl.Int64) * (1 << bits) + value.cast(pl.Int64)
        for name, value in values.items()
    }
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
    numbers: list[int] = []
    begins: list[int] = []
    at = 0
    while at < len(packed):  # a step per class, of which there are few
        numbers.append(int(packed[at]) >> bits)
        begins.append(at)
        at = int(np.searchsorted(packed, (numbers[-1] + 1) << bits))
    ends = [*begins[1:], len(packed)][: len(begins)]
    value = (1 << bits) - 1
    sums = [
        sum(float(np.sum(some & value, dtype=np.float64)) for some in split_into_pieces(packed[begin:end]))
        for begin, end in zip(begins, ends, strict=True)
    ]
    found, zeros = np.array(numbers, np.int64), np.zeros(len(numbers), np.int64)
    digits = {"all": (zeros, 1)} | {
        name: (digit, classes[name][1]) for name, digit in unpack_classes(found, classes).items()
    }
    return Sorted(
        packed, bits, found, np.array(begins, np.int64), np.array(ends, np.int64), np.array(sums, np.float64), digits
    )


def split_into_pieces(values: Ints) -> Iterator[Ints]:
    """An array in pieces that fit in a core's cache, so that what is computed from it needs no memory of its size."""
    for begin in range(0, len(values), PIECE):
        yield values[begin : begin + PIECE]


def gaps_ns(starts: Ints, ends: Ints) -> int:
    """How long none of some intervals lasts, between the first start and the last end; both sorted.

    The i-th end and the start after the i-th bound such a time wherever that start is later.
    """
    pairs = zip(split_into_pieces(starts[1:]), split_into_pieces(ends[:-1]), strict=True)
    return sum(int(np.clip(later - sooner, 0, None).sum()) for later, sooner in pairs)


def pack_classes(classes: Classes) -> pl.Expr:
    """One integer for the values of all classes, of which there may be 2^31."""
    packed = pl.lit(0, pl.Int32)
    for expression, size in classes.values():
        packed = packed * (size + 1) + expression.cast(pl.Int32).fill_null(size)
    return packed


def unpack_classes(codes: Ints, classes: Classes) -> dict[str, Ints]:
    """The classes' values again; how many a class has stands for null."""
    columns = {}
    for name, (_, size) in reversed(list(classes.items())):
        columns[name] = codes % (size + 1)
        codes = codes // (size + 1)
    return columns
