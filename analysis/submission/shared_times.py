"""Checks for copied trials: two replays do not start ops at the same nanoseconds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from analysis.doubts.integrity import explain_unreadable
from analysis.log.log import scan
from replayer.schema import counters, parts

MOST_SHARED: Final = 0.01
"""Largest share of equal times; real trials shared none of 4,251 starts, 0.2% of scaled times."""
LEAST_EQUAL: Final = 5  # scaled times: the ratio of fewer may well hold for all by chance
LONG_NS: Final = 10_000  # moves of microseconds take the same few times in any run
SAMPLE_ROWS: Final = 1 << 20  # rows of a log that are compared

NamedRun = tuple[str, Path]


@dataclass(frozen=True)
class _Times:
    """Times of a run.

    Attributes:
        name: name of the run, for messages.
        moves: position, seq, start_ns and span_ns of moves with I/O.
        samples: times at which the device was sampled.
    """

    name: str
    moves: pl.DataFrame
    samples: frozenset[int]


def find_copies(runs: Sequence[NamedRun]) -> Iterator[str]:
    """Report runs of one plan that share times.

    Args:
        runs: names for messages, and run directories.
    """
    rows = [_count_rows(place) for _, place in runs]
    every = -(-max(rows, default=1) // SAMPLE_ROWS)
    times = []
    for name, place in runs:
        times.append(_Times(name, _read_times(place, every), _read_sample_times(place)))
    for one, other in combinations(times, 2):
        both = one.moves.join(other.moves, on=("position", "seq"), suffix="_other")
        equal = _share_equal(both)
        scaled = 0.0 if equal > MOST_SHARED else _share_scaled(both)
        copy = f"{other.name} is a copy of {one.name}"
        if equal > MOST_SHARED:
            yield f"{copy}: they share {equal:.0%} of their exact start times"
        elif scaled > MOST_SHARED:
            yield f"{copy}: {scaled:.0%} of its moves took the same times, all scaled alike"
        if _are_equal_samples(one.samples, other.samples):
            copy = f"{other.name}/device.parquet is a copy of {one.name}'s"
            yield f"{copy}: they were sampled at the same nanoseconds"


def _count_rows(place: Path) -> int:
    return sum(pq.read_metadata(part.absolute()).num_rows for part in parts(place))


def _read_times(place: Path, every: int) -> pl.DataFrame:
    """Read starts and durations (ns) of the moves with I/O of each `every`-th op."""
    has_io = pl.col("read_ns") + pl.col("write_ns") > 0
    with explain_unreadable(place):
        rows = scan(parts(place)).filter(has_io & (pl.col("position") % every == 0))
        spans = (pl.col("end_ns") - pl.col("start_ns")).alias("span_ns")
        return rows.select("position", "seq", "start_ns", spans).collect(engine="streaming")


def _share_equal(both: pl.DataFrame) -> float:
    """Return the share of moves with equal starts."""
    equal = int((both["start_ns"] == both["start_ns_other"]).sum())
    return equal / both.height if equal > 1 else 0.0


def _share_scaled(both: pl.DataFrame) -> float:
    """Return the share of moves whose durations have the median ratio, to a nanosecond."""
    long = both.filter((pl.col("span_ns") >= LONG_NS) & (pl.col("span_ns_other") >= LONG_NS))
    if not long.height:
        return 0.0
    spans = long["span_ns"].to_numpy()
    others = long["span_ns_other"].to_numpy()
    ratio = np.median(others / spans)
    equal = int((np.abs(others - ratio * spans) <= max(1.0, ratio)).sum())
    return equal / long.height if equal >= LEAST_EQUAL else 0.0


def _read_sample_times(place: Path) -> frozenset[int]:
    path = counters(place)
    if path is None:
        return frozenset()
    return frozenset(pl.read_parquet(path, columns=["time_ns"])["time_ns"])


def _are_equal_samples(times: frozenset[int], others: frozenset[int]) -> bool:
    equal = len(times & others)
    least = min(len(times), len(others))
    return bool(least) and equal > MOST_SHARED * least and (equal > 1 or equal == least)
