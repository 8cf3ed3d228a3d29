"""Integers: whole nanoseconds, tables by id, indices of ragged rows, stable sort orders."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Ints = NDArray[np.int64]


def to_ns(seconds: float) -> int:
    """Return seconds, as written in decimal, in whole nanoseconds, rounded half to even."""
    return int((Decimal(str(seconds)) * 10**9).to_integral_value())


def milliseconds_to_ns(milliseconds: float) -> int:
    """Return milliseconds, as written in decimal, in whole nanoseconds, rounded down."""
    return to_ns(milliseconds) // 1000


class IdTable:
    """A growable array, indexed by ids that only grow; values of low ids can be dropped.

    Memory is in proportion to the ids from the lowest that is still needed to the highest. Ids below
    `kept` are never dropped; their values begin as zeros.
    """

    def __init__(self, dtype: DTypeLike, kept: int = 0) -> None:
        self.end = kept  # the id after the highest
        self._kept = kept
        self._dropped = 0  # ids, from `kept` on
        self._values = np.zeros(kept, dtype)

    def append(self, values: NDArray[Any]) -> None:
        """Add the values of the next ids."""
        used = self.end - self._dropped
        if used + len(values) > len(self._values):
            spare = np.zeros(max(used, len(values)), self._values.dtype)
            self._values = np.concatenate([self._values[:used], spare])
        self._values[used : used + len(values)] = values
        self.end += len(values)

    def cover(self, ids: Ints) -> None:
        """Add zeros up to the highest of these ids."""
        missing = max(0, int(ids.max(initial=-1)) + 1 - self.end)
        self.append(np.zeros(missing, self._values.dtype))

    def trim(self, low: int) -> None:
        """Drop the values of ids below `low`, once they are more than half of those to trim."""
        unneeded = min(low, self.end) - self._dropped - self._kept
        if 2 * unneeded > self.end - self._dropped - self._kept:
            needed = self._values[self._kept + unneeded : self.end - self._dropped]
            self._values = np.concatenate([self._values[: self._kept], needed])
            self._dropped += unneeded

    def _index(self, ids: Ints) -> Ints:
        if not self._kept:
            return ids - self._dropped
        return np.where(ids < self._kept, ids, ids - self._dropped)

    def __getitem__(self, ids: Ints) -> NDArray[Any]:
        return self._values[self._index(ids)]

    def __setitem__(self, ids: Ints, values: NDArray[Any]) -> None:
        self._values[self._index(ids)] = values


class Numbering:
    """Numbers 0, 1, … for ids in order of their first appearance; 8 bytes per id up to the highest."""

    def __init__(self, kept: int = 0) -> None:
        self.count = 0  # of ids so far
        self._table = IdTable(np.int64, kept)  # number + 1; 0: not seen yet

    def number(self, ids: Ints) -> tuple[Ints, Ints]:
        """Return the number of each id, shape (rows,), and the rows at which an id appears first."""
        self._table.cover(ids)
        first = first_rows(self._table, ids)
        self._table[ids[first]] = self.count + 1 + np.arange(len(first))
        self.count += len(first)
        return self._table[ids] - 1, first

    def trim(self, low: int) -> None:
        """Forget ids below `low`, which do not come again."""
        self._table.trim(low)


def ranges(first: Ints, count: Ints) -> Ints:
    """Return first[0], first[0] + 1, … (count[0] of them), first[1], …; shape (sum of count,)."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    integers: Ints = np.repeat(first - (ends - count), count) + np.arange(total)
    return integers


def positions(count: Ints) -> Ints:
    """Return 0, 1, … for each range: the place of each of its integers; shape (sum of count,)."""
    return ranges(np.zeros_like(count), count)


def portions(sizes: Ints, limit: int) -> Iterator[slice]:
    """Yield slices of rows whose sizes add up to about `limit`."""
    portion = (np.cumsum(sizes) - sizes) // limit
    for begin, end in pairwise([0, *(np.flatnonzero(np.diff(portion)) + 1).tolist(), len(portion)]):
        yield slice(begin, end)


def first_rows(table: IdTable, ids: Ints) -> Ints:
    """Return the rows at which ids that have a 0 in the table occur for the first time, in order.

    The table's values of these ids are left changed: set them afterwards.
    """
    new = np.flatnonzero(table[ids] == 0)
    # Of several rows that set one value the last wins: in reverse order, the first.
    table[ids[new[::-1]]] = -1 - new[::-1]
    first: Ints = new[table[ids[new]] == -1 - new]
    return first


def sort_order(time: Ints, user: Ints, request: Ints) -> Ints:
    """Return the stable order of rows by (time, user, request); shape (rows,)."""
    # A sort by time takes a quarter of one by three keys, which is needed only if rows of one time are out of order.
    order = np.argsort(time, kind="stable")
    t, u, r = time[order], user[order], request[order]
    same_time = t[1:] == t[:-1]
    wrong = same_time & ((u[1:] < u[:-1]) | ((u[1:] == u[:-1]) & (r[1:] < r[:-1])))
    return np.lexsort((request, user, time)) if wrong.any() else order
