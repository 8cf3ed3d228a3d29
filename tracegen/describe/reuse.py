"""Reuse distances: the size of a cache that would hit.

The distance of a touch is the sum of tokens of the distinct objects touched since the object's last
touch, including the object: an LRU cache of that size hits (Mattson et al., "Evaluation techniques
for storage hierarchies", 1970). Beyond a million touches, objects are sampled by hash and the
distances scaled (SHARDS: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST'15).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracegen.arrays import Ints
from tracegen.trace.columns import DELETE, ENUMS, READ, Columns, concatenate, take_rows
from tracegen.trace.reading import Trace

TOUCHES_MAX: Final = 1 << 20
CURVE_POINTS: Final = 64
QUANTILES: Final = {"distance_p50": 0.5, "distance_p90": 0.9, "distance_p99": 0.99, "distance_max": 1.0}
_HASHES: Final = 1 << 24
_SOURCES: Final = len(ENUMS["source"])


SourceReuse = dict[str, Any]
"""Touches, reuses (hits of an unlimited cache) and distances in tokens, of one source or of all."""


@dataclass(frozen=True)
class Reuse:
    """The reuse in a trace: exact counts, and the distances of all touches or of a sample."""

    touches: Ints  # number of touches by source, exact; shape (sources,)
    reuses: Ints  # number of touches whose object was stored before, by source, exact; shape (sources,)
    reads: int  # number of reads, exact
    share: float  # share of the objects that are sampled; 1: all
    # distance of each sampled touch in tokens, -1 if its object was not stored before; shape (sampled touches,)
    distance: Ints
    source: NDArray[np.uint8]  # source of each sampled touch, as a code; shape (sampled touches,)
    is_read: NDArray[np.bool_]  # whether each sampled touch is a read; shape (sampled touches,)

    def summarise(self) -> list[SourceReuse]:
        """Summarise the reuse of each source that touches anything, and of all sources."""
        rows: list[SourceReuse] = []
        for code, name in enumerate((*ENUMS["source"], "all")):
            is_all = name == "all"
            codes = slice(None) if is_all else slice(code, code + 1)
            touches = int(self.touches[codes].sum())
            reuses = int(self.reuses[codes].sum())
            if touches:
                distance = self.distance if is_all else self.distance[self.source == code]
                counts = {"source": name, "touches": touches, "reuses": reuses}
                rows.append(counts | _quantiles(distance, reuses, self.share))
        return rows

    def hit_curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sizes of a cache in tokens, and the share of reads that LRU hits in each; both of shape (points,)."""
        reads = self.distance[self.is_read]
        known = np.sort(reads[reads >= 0])
        if not len(known):
            return np.ones(1), np.zeros(1)
        sizes = np.geomspace(max(1, int(known[0])), max(2, int(known[-1])), CURVE_POINTS)
        expected = self.reads * self.share
        hits = np.searchsorted(known, sizes, side="right") + expected - len(reads)
        return sizes, np.clip(hits / expected, 0, 1)


def _quantiles(distance: Ints, reuses: int, share: float) -> dict[str, float | None]:
    """Compute the quantiles, in tokens, of all reuses' distances from those of the sampled touches."""
    known = np.sort(distance[distance >= 0])
    if not len(known):
        return dict.fromkeys(QUANTILES)
    # If the sample has too few or too many reuses, the difference is taken to be at the shortest
    # distances: it depends on whether a few popular objects, reused at once, are sampled (SHARDS-adj).
    expected = reuses * share
    places = np.array(list(QUANTILES.values())) * (expected - 1) - (expected - len(known))
    values = np.interp(places, np.arange(len(known)), known)
    return dict(zip(QUANTILES, values.tolist(), strict=True))


def _count_touches(trace: Trace) -> tuple[Ints, Ints, int]:
    """Return exact numbers by source, shape (sources,): touches, and reads of stored objects; and that of all reads."""
    touches = np.zeros(_SOURCES, np.int64)
    reuses = np.zeros(_SOURCES, np.int64)
    code = pl.col("source").to_physical()
    (counts,) = trace.collect(trace.frame().group_by(code, "op").len())
    for source, op, number in counts.iter_rows():
        touches[source] += number * (op != "delete")
        reuses[source] += number * (op == "read")
    reads = int(reuses.sum())
    if touches.sum() < trace.ops:
        # A read after a delete stores the object again.
        again = (pl.col("op") == "read") & (pl.col("op").shift().over("key") == "delete")
        (stored,) = trace.collect(trace.frame().filter(again).group_by(code).len())
        for source, number in stored.iter_rows():
            reuses[source] -= number
    return touches, reuses, reads


def measure_reuse(trace: Trace, touches_max: int = TOUCHES_MAX) -> Reuse:
    """Measure the reuse in a trace, sampling objects so that about `touches_max` touches are examined.

    The trace is read twice, batch by batch.
    """
    threshold = min(_HASHES, -(-_HASHES * touches_max // trace.ops))
    samples: list[Columns] = []
    for batch in trace.batches():
        is_sampled = _hash(batch["key"]) < threshold
        samples.append({name: batch[name][is_sampled] for name in ("key", "tokens", "source", "op")})
    ops = concatenate(samples)
    share = threshold / _HASHES
    touches, distance = _measure_distances(ops, share)
    exact_touches, reuses, reads = _count_touches(trace)
    return Reuse(
        touches=exact_touches,
        reuses=reuses,
        reads=reads,
        share=share,
        distance=distance,
        source=touches["source"],
        is_read=touches["op"] == READ,
    )


def _measure_distances(ops: Columns, share: float) -> tuple[Columns, Ints]:
    """Return the touches among the sampled objects' ops, and their distances in tokens; -1 if not a reuse."""
    is_touch = ops["op"] != DELETE
    is_after_delete = (ops["op"][previous_rows(ops["key"])] == DELETE)[is_touch]
    touches = take_rows(ops, is_touch)
    previous = previous_rows(touches["key"])
    weight = touches["tokens"].astype(np.int64)
    is_reuse = (previous >= 0) & ~is_after_delete
    distance = np.where(is_reuse, _sum_between(previous, weight) / share, -1)
    return touches, distance.astype(np.int64)


def _hash(key: Ints) -> Ints:
    """Return 24 bits of splitmix64 (Steele et al., OOPSLA'14) of each key; shape (rows,)."""
    z = key.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) % np.uint64(_HASHES)).astype(np.int64)


def previous_rows(key: Ints) -> Ints:
    """Return the previous row with the same key, or -1, of each row; shape (rows,)."""
    order = np.argsort(key, kind="stable")
    previous = np.full(len(key), -1, np.int64)
    is_same = key[order][1:] == key[order][:-1]
    previous[order[1:][is_same]] = order[:-1][is_same]
    return previous


def _sum_between(previous: Ints, weight: Ints) -> Ints:
    """Sum the weights of the distinct keys in rows p + 1 … i, of each row i with a previous row p.

    A row j of these counts once for its key: if its own previous row is p or before. As that holds
    for all rows up to p, the sum is (weight of all j < i with previous[j] <= p) - (weight of all
    j <= p) + weight[i]. The first term is counted as a merge sort would, level by level: each right
    half adds up the rows of its left half that precede it in the order of previous rows.
    """
    rows = len(previous)
    row = np.arange(rows)
    sums = np.zeros(rows, np.int64)
    order = np.lexsort((row, previous))
    for level in range(max(rows - 1, 1).bit_length()):
        by_pair = order[np.argsort(order >> (level + 1), kind="stable")]
        is_left = (by_pair >> level) & 1 == 0
        seen = np.cumsum(np.where(is_left, weight[by_pair], 0))
        pair = by_pair >> (level + 1)
        starts = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
        before = np.concatenate([[0], seen])[starts]
        seen -= np.repeat(before, np.diff(np.append(starts, rows)))
        sums[by_pair[~is_left]] += seen[~is_left]
    until = np.cumsum(weight)
    return sums - until[previous] + weight
