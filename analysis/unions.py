"""How long intervals last together, per request: what overlaps counts once.

The union of intervals is that of their begins and ends sorted apart: what the i-th end adds is what lies after the
i-th begin and after the end before. Request and stamp are packed into one integer, so that a sort serves all requests.
"""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray


STAMPS: Final = ("due_ns", "ready_ns", "start_ns", "end_ns")

Ints = NDArray[np.int64]


def covered(rows: pl.DataFrame) -> pl.DataFrame:
    """Per request how long start … end, ready … end and due … end of its rows last together: io_ns, ready_ns, due_ns.

    Args:
        rows: request, and STAMPS in order.
    """
    if rows.is_empty():
        return pl.DataFrame(schema=dict.fromkeys(("request", "io_ns", "ready_ns", "due_ns"), pl.Int64))
    low, high, first, last = rows.select(
        low=pl.col("request").min(), high=pl.col("request").max(), first=pl.col("due_ns").min(), last=pl.col("end_ns").max()
    ).row(0)  # fmt: skip
    bits = (last - first).bit_length()
    if (high - low).bit_length() + bits > 63:
        lower = pl.col("request") <= (low + high) // 2
        return pl.concat([covered(rows.filter(lower)), covered(rows.filter(~lower))])
    due, ready, start, end = (
        _sorted(rows.select(((pl.col("request") - low) * (1 << bits) + (pl.col(stamp) - first)).alias(stamp)))
        for stamp in STAMPS
    )
    begins = np.concatenate([[0], np.flatnonzero(np.diff(end >> bits)) + 1])
    sums = {name: _union(stamp, end, begins) for name, stamp in (("io_ns", start), ("ready_ns", ready), ("due_ns", due))}
    return pl.DataFrame({"request": (end[begins] >> bits) + low, **sums})


def _sorted(packed: pl.DataFrame) -> Ints:
    values: Ints = packed.to_series().to_numpy(writable=True)
    values.sort()
    return values


def _union(begin: Ints, end: Ints, groups: Ints) -> Ints:
    """An end of the request before lies before every begin of the next one, so that the maximum leaves it out."""
    added = np.empty_like(end)
    added[0] = end[0] - begin[0]
    np.subtract(end[1:], np.maximum(begin[1:], end[:-1]), out=added[1:])
    return np.add.reduceat(added, groups)
