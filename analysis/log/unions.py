"""How long intervals last together, per request: what overlaps counts once.

The union of intervals is that of their begins and ends sorted apart: what the i-th end adds is what lies after the
i-th begin and after the end before. Request and stamp are packed into one integer, so that a sort serves all requests.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.log.quantiles import ascending

STAMPS: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")

Ints = NDArray[np.int64]


def sum_unions(rows: pl.LazyFrame) -> pl.DataFrame:
    """Per request how long start … end, ready … end and due … end of its rows last together: io_ns, ready_ns, due_ns.

    Args:
        rows: request, and STAMPS.
    """
    request, first_ns, last_ns = pl.col("request"), pl.col("due_ns").min(), pl.col("end_ns").max()
    bounds = rows.select(low=request.min(), high=request.max(), first=first_ns, last=last_ns)
    low, high, first, last = bounds.collect(engine="streaming").row(0)
    if low is None:
        return pl.DataFrame(schema=dict.fromkeys(("request", "io_ns", "ready_ns", "due_ns"), pl.Int64))
    bits = (last - first).bit_length()
    if (high - low).bit_length() + bits > 63:
        lower = pl.col("request") <= (low + high) // 2
        return pl.concat([sum_unions(rows.filter(lower)), sum_unions(rows.filter(~lower))])

    def packed(stamp: str) -> Ints:
        both = (pl.col("request") - low) * (1 << bits) + (pl.col(stamp) - first)
        return ascending(rows.select(both.alias(stamp)).collect(engine="streaming")[stamp])

    end = packed("end_ns")
    groups = np.concatenate([[0], np.flatnonzero(np.diff(end >> bits)) + 1])
    with ThreadPoolExecutor(2) as threads:  # NumPy sorts on one core
        sums = threads.map(lambda stamp: _union(packed(stamp), end, groups), STAMPS[:-1])
        due, ready, io = sums
    return pl.DataFrame({"request": (end[groups] >> bits) + low, "io_ns": io, "ready_ns": ready, "due_ns": due})


def _union(begin: Ints, end: Ints, groups: Ints) -> Ints:
    """Of each group; an end of the one before lies before every begin of it, so that the maximum leaves it out."""
    np.maximum(begin[1:], end[:-1], out=begin[1:])
    sums: Ints = np.add.reduceat(np.subtract(end, begin, out=begin), groups)
    return sums
