"""Trials that share times: no two replays start an op at the same nanosecond, so that copies show, edited or not."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from analysis.doubts.integrity import explain_unreadable
from analysis.log.log import scan
from replayer.schema import counters, parts

SHARED: Final = 0.01  # honest trials: none of up to 4,251 starts, and at most 0.2% of the scaled times
FEWEST: Final = 5  # times, below which the ratio of two of them may well be that of all
LONG_NS: Final = 10_000  # moves of microseconds take the same few times in any run
SAMPLED: Final = 1 << 20  # rows of a log that are compared

Named = tuple[str, Path]


def copies(places: Sequence[Named]) -> Iterator[str]:
    """Which of the runs of one plan are copies, by times that they share.

    Args:
        places: run directories by the names that they are told by.
    """
    rows = [sum(pq.read_metadata(part.absolute()).num_rows for part in parts(place)) for _, place in places]
    every = -(-max(rows, default=1) // SAMPLED)
    times = [(name, _times(place, every), _samples(place)) for name, place in places]
    for (one, first, counted), (other, second, others) in combinations(times, 2):
        both = first.join(second, on=("position", "seq"), suffix="_other")
        if (share := _equal(both)) > SHARED:
            yield f"{other} is a copy of {one}: they share {share:.0%} of their exact start times"
        elif (share := _scaled(both)) > SHARED:
            yield f"{other} is a copy of {one}: {share:.0%} of its moves took the same times, all scaled alike"
        if _same(counted, others):
            yield f"{other}/device.parquet is a copy of {one}'s: they were sampled at the same nanoseconds"


def _times(place: Path, every: int) -> pl.DataFrame:
    """When moves of I/O started, and how long they took; of each `every`-th op."""
    moved = pl.col("read_ns") + pl.col("write_ns") > 0
    with explain_unreadable(place):
        rows = scan(parts(place)).filter(moved & (pl.col("position") % every == 0))
        spans = (pl.col("end_ns") - pl.col("start_ns")).alias("span_ns")
        return rows.select("position", "seq", "start_ns", spans).collect(engine="streaming")


def _equal(both: pl.DataFrame) -> float:
    same = int((both["start_ns"] == both["start_ns_other"]).sum())
    return same / both.height if same > 1 else 0.0


def _scaled(both: pl.DataFrame) -> float:
    """The share of moves that took as many times as long in the other run as the median move, to a nanosecond."""
    long = both.filter((pl.col("span_ns") >= LONG_NS) & (pl.col("span_ns_other") >= LONG_NS))
    if not long.height:
        return 0.0
    one, other = long["span_ns"].to_numpy(), long["span_ns_other"].to_numpy()
    ratio = np.median(other / one)
    same = int((np.abs(other - ratio * one) <= max(1.0, ratio)).sum())
    return same / long.height if same >= FEWEST else 0.0


def _samples(place: Path) -> frozenset[int]:
    found = counters(place)
    return frozenset() if found is None else frozenset(pl.read_parquet(found, columns=["time_ns"])["time_ns"])


def _same(one: frozenset[int], other: frozenset[int]) -> bool:
    same, least = len(one & other), min(len(one), len(other))
    return bool(least) and same > SHARED * least and (same > 1 or same == least)
