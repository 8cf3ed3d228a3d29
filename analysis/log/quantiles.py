"""Exact quantiles of a quantity for every way of grouping rows, from a single sort.

The class of a row and its value are packed into one integer, the class in the upper bits. After the
sort each class is an ascending run of values, and a group is a union of runs. The k-th smallest
value of a group is the largest x with at most k values below x. It is computed bit by bit, for all
groups and ranks at once, by binary search in the runs. Nothing is sampled or binned; a row takes 8
bytes.
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
BEYOND_PERCENTILE: Final = 5  # samples: with fewer the percentile differs from run to run
STATS: Final = ("mean", *QUANTILES, "max")

Ints = NDArray[np.int64]
# Columns to group by: an expression of small integers or booleans, and the number of its values.
#
# Null counts as one value more.
Classes = Mapping[str, tuple[pl.Expr, int]]


@dataclass(frozen=True)
class Sorted:
    """Values sorted by class.

    The arrays other than `packed` have one entry per class that occurs.

    Attributes:
        packed: class and value of each row, ascending, shape (rows,).
        value_bits: the number of lower bits that hold the value.
        classes: the number of the class.
        begins: the first index of the class's run in `packed`.
        ends: the index after that run.
        sums: the sum of the class's values.
        digits: by column, its code in each class, and the number of its values, which is also the
            code of null. The column `all` has the code 0 everywhere.
    """

    packed: Ints
    value_bits: int
    classes: Ints
    begins: Ints
    ends: Ints
    sums: NDArray[np.float64]
    digits: dict[str, tuple[Ints, int]]

    def spread(self, by: Sequence[str]) -> pl.DataFrame:
        """Return the statistics of each group, in ms for values in ns.

        Quantiles interpolate linearly between order statistics, at q × (count − 1).

        Returns:
            One row per group: the columns of `by` as codes, count, mean_ms, p50_ms … p9999_ms,
            max_ms.
        """
        keys, members, counts = self._groups(by)
        values = self._at(members, counts, [*QUANTILES.values(), 1.0])
        means = np.bincount(members, weights=self.sums, minlength=len(counts)) / counts
        stats = np.column_stack([means, values]) / 1e6
        return pl.DataFrame(
            [*keys, pl.Series("count", counts), *(pl.Series(f"{name}_ms", stats[:, i]) for i, name in enumerate(STATS))]
        )

    def points(self, by: Sequence[str], shares: Sequence[float]) -> pl.DataFrame:
        """Return the distribution of each group.

        Args:
            by: the columns to group by.
            shares: shares of the values, from 0 to 1.

        Returns:
            One row per group and share: the columns of `by` as codes, share, and ms, the time that
            this share of the values does not exceed.
        """
        keys, members, counts = self._groups(by)
        values = self._at(members, counts, shares) / 1e6
        named = pl.DataFrame(keys).join(pl.DataFrame({"share": shares}, schema={"share": pl.Float64}), how="cross")
        return named.with_columns(pl.Series("ms", values.ravel()))

    def _groups(self, by: Sequence[str]) -> tuple[list[pl.Series], Ints, Ints]:
        """Return the columns of the groups, the group of each class, and the count of each group."""
        mixed = np.zeros_like(self.classes)
        for name in by:
            digits, size = self.digits[name]
            mixed = mixed * (size + 1) + digits
        _, firsts, members = np.unique(mixed, return_index=True, return_inverse=True)
        counts = np.bincount(members, self.ends - self.begins, len(firsts)).astype(np.int64)  # exact below 2^53
        keys = []
        for name in by:
            digits, null = self.digits[name]
            codes = [None if digit == null else digit for digit in digits[firsts].tolist()]
            keys.append(pl.Series(name, codes, pl.Int64))
        return keys, members, counts

    def _at(self, members: Ints, counts: Ints, shares: Sequence[float]) -> NDArray[np.float64]:
        """Return the values at share × (count − 1), linearly interpolated; shape (groups, shares)."""
        positions = np.outer(counts - 1, shares)
        if not len(counts):
            return np.empty(positions.shape)
        low = np.floor(positions).astype(np.int64)
        high = np.ceil(positions).astype(np.int64)
        ranks = np.concatenate([low, high], axis=1)
        values = self._select(members, ranks)
        below, above = values[:, : low.shape[1]], values[:, low.shape[1] :]
        interpolated: NDArray[np.float64] = below + (above - below) * (positions - low)
        return interpolated

    def _select(self, members: Ints, ranks: Ints) -> Ints:
        """Return the value at each rank (from 0) of each group; shape (groups, m), as `ranks`."""
        bases = self.classes << self.value_bits
        largest = int((self.packed[self.ends - 1] & ((1 << self.value_bits) - 1)).max())
        selected = np.zeros_like(ranks)
        for bit in reversed(range(largest.bit_length())):
            candidates = selected | (1 << bit)
            keys = bases[:, None] | candidates[members]
            below = np.searchsorted(self.packed, keys) - self.begins[:, None]
            counts = np.zeros_like(ranks)
            np.add.at(counts, members, np.minimum(below, (self.ends - self.begins)[:, None]))
            selected = np.where(counts <= ranks, candidates, selected)
        return selected


def sort(
    rows: Sequence[pl.LazyFrame], classes: Classes, values: Mapping[str, pl.Expr], at_once: int = 1
) -> Iterator[tuple[str, Sorted]]:
    """Sort quantities by class, one after the other.

    A value must be at least 0 and below 2^(63 − bits of the class); with the classes of moves that
    is 13 days in ns.

    Args:
        rows: the rows, in stretches.
        classes: the columns to group by later.
        values: the quantities by name.
        at_once: the number of quantities to read from the rows in one pass, at 8 bytes per row.

    Yields:
        The name of each quantity, and its sorted values.
    """
    bits = 63 - math.prod(size + 1 for _, size in classes.values()).bit_length()
    packed = {
        name: pack_classes(classes).cast(pl.Int64) * (1 << bits) + value.cast(pl.Int64)
        for name, value in values.items()
    }
    for begin in range(0, len(packed), at_once):
        names = list(packed)[begin : begin + at_once]
        columns = [packed[name].alias(name) for name in names]
        table = pl.concat(stretch.select(columns).collect(engine="streaming") for stretch in rows)
        for name in names:
            yield name, _split_into_runs(ascending(table.drop_in_place(name)), classes, bits)


def ascending(values: pl.Series) -> Ints:
    """Return integers in ascending order, read-only; Polars takes a third of the time of NumPy."""
    values = values.sort()  # frees the unsorted integers
    ordered: Ints = values.to_numpy()
    return ordered


def _split_into_runs(packed: Ints, classes: Classes, bits: int) -> Sorted:
    """Find the run of each class in sorted values, and sum its values."""
    numbers: list[int] = []
    begins: list[int] = []
    begin = 0
    while begin < len(packed):  # a step per class, and there are few classes
        numbers.append(int(packed[begin]) >> bits)
        begins.append(begin)
        begin = int(np.searchsorted(packed, (numbers[-1] + 1) << bits))
    ends = [*begins[1:], len(packed)][: len(begins)]
    sums = [_sum_values(packed[begin:end], bits) for begin, end in zip(begins, ends, strict=True)]
    return Sorted(
        packed,
        value_bits=bits,
        classes=np.array(numbers, np.int64),
        begins=np.array(begins, np.int64),
        ends=np.array(ends, np.int64),
        sums=np.array(sums, np.float64),
        digits=_digits(np.array(numbers, np.int64), classes),
    )


def _sum_values(run: Ints, bits: int) -> float:
    """Sum the values of a run, without their class."""
    mask = (1 << bits) - 1
    return sum(float(np.sum(piece & mask, dtype=np.float64)) for piece in split_into_pieces(run))


def _digits(numbers: Ints, classes: Classes) -> dict[str, tuple[Ints, int]]:
    """Return the codes of every column in each class, and the code of null."""
    unpacked = unpack_classes(numbers, classes)
    digits = {name: (codes, classes[name][1]) for name, codes in unpacked.items()}
    return {"all": (np.zeros(len(numbers), np.int64), 1)} | digits


def split_into_pieces(values: Ints) -> Iterator[Ints]:
    """Split an array into pieces that fit in a core's cache, so that temporaries stay small."""
    for begin in range(0, len(values), PIECE):
        yield values[begin : begin + PIECE]


def gaps_ns(starts: Ints, ends: Ints) -> int:
    """Return the time in ns that no interval covers; `starts` and `ends` are each ascending.

    The time from the i-th end to start i + 1 is a gap if that start is later.
    """
    pairs = zip(split_into_pieces(starts[1:]), split_into_pieces(ends[:-1]), strict=True)
    return sum(int(np.clip(start - end, 0, None).sum()) for start, end in pairs)


def covered_ns(intervals: pl.DataFrame) -> int:
    """Return the time in ns that at least one interval from start_ns to end_ns covers."""
    if intervals.is_empty():
        return 0
    starts, ends = (ascending(intervals[stamp]) for stamp in ("start_ns", "end_ns"))
    return int(ends[-1] - starts[0]) - gaps_ns(starts, ends)


def pack_classes(classes: Classes) -> pl.Expr:
    """Pack the values of all classes into one integer; there may be 2^31 combinations."""
    packed = pl.lit(0, pl.Int32)
    for expression, size in classes.values():
        packed = packed * (size + 1) + expression.cast(pl.Int32).fill_null(size)
    return packed


def unpack_classes(codes: Ints, classes: Classes) -> dict[str, Ints]:
    """Unpack integers of `pack_classes`; a class's number of values is its code of null."""
    columns = {}
    for name, (_, size) in reversed(list(classes.items())):
        columns[name] = codes % (size + 1)
        codes = codes // (size + 1)
    return columns
