"""Unions of intervals per request: time in which intervals overlap counts once.

Sort the begins and the ends apart. Then the i-th end adds the time since the i-th begin or the end
before it, whichever is later. Request and stamp are packed into one integer, so that one sort
serves all requests.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.log.quantiles import ascending

STAMPS: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")

Ints = NDArray[np.int64]


def sum_unions(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the length in ns of the union of each request's intervals.

    Args:
        rows: one row per move, with `request` and STAMPS.

    Returns:
        One row per request: io_ns (start to end), ready_ns (ready to end), due_ns (due to end).
    """
    bounds = rows.select(
        low=pl.col("request").min(),
        high=pl.col("request").max(),
        first=pl.col("due_ns").min(),
        last=pl.col("end_ns").max(),
    )
    low, high, first, last = bounds.collect(engine="streaming").row(0)
    if low is None:
        columns = ("request", "io_ns", "ready_ns", "due_ns")
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    bits = (last - first).bit_length()
    if (high - low).bit_length() + bits > 63:
        is_lower = pl.col("request") <= (low + high) // 2
        halves = (rows.filter(is_lower), rows.filter(~is_lower))
        return pl.concat([sum_unions(half) for half in halves])

    def pack(stamp: str) -> Ints:
        packed = (pl.col("request") - low) * (1 << bits) + (pl.col(stamp) - first)
        return ascending(rows.select(packed.alias(stamp)).collect(engine="streaming")[stamp])

    ends = pack("end_ns")
    groups = np.concatenate([[0], np.flatnonzero(np.diff(ends >> bits)) + 1])
    due, ready, io = (_sum_unions(pack(stamp), ends, groups) for stamp in STAMPS[:-1])
    requests = (ends[groups] >> bits) + low
    return pl.DataFrame({"request": requests, "io_ns": io, "ready_ns": ready, "due_ns": due})


def _sum_unions(begins: Ints, ends: Ints, groups: Ints) -> Ints:
    """Return the length of each group's union.

    The last end of a group is before every begin of the next one, so the minimum ignores it.
    """
    added = ends - begins
    np.minimum(added[1:], np.diff(ends), out=added[1:])
    sums: Ints = np.add.reduceat(added, groups)
    return sums
