"""Reuse distances: how large a cache must be for a touch to hit, whatever its policy makes of the rest.

The distance of a touch is the sum of tokens of the distinct objects touched since the object's last touch, itself
included: an LRU cache of that size hits (Mattson et al., "Evaluation techniques for storage hierarchies", 1970). Beyond
a million touches a sample of the objects is taken by hash and distances are scaled (SHARDS: Waldspurger et al.,
"Efficient MRC construction with SHARDS", FAST'15).
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tracegen.draws import Ints
from tracegen.schema import DELETE, ENUMS, READ, Columns, Trace, chosen, joined

TOUCHES_MAX: Final = 1 << 20
CURVE_POINTS: Final = 64
QUANTILES: Final = ("distance_p50", "distance_p90", "distance_p99", "distance_max")
_HASHES: Final = 1 << 24


@dataclass(frozen=True)
class Reuse:
    """Of the touches of a trace, or of the sampled share of its objects.

    Attributes:
        share: of the objects that were sampled; 1: all.
        distance: in tokens, of each touch; -1 where the object was not there before; shape (touches,).
        source: of each touch, as a code.
        is_read: whether the touch is a read.
        tokens: of the object touched.
    """

    share: float
    distance: Ints
    source: NDArray[np.uint8]
    is_read: NDArray[np.bool_]
    tokens: Ints

    def summary(self) -> list[dict[str, Any]]:
        """Per source and in all: touches, reuses (hits of an unlimited cache), quantiles of the distance in tokens."""
        rows = []
        for name, mask in [*((name, self.source == code) for code, name in enumerate(ENUMS["source"])), ("all", None)]:
            distance = self.distance if mask is None else self.distance[mask]
            if not len(distance):
                continue
            again = distance[distance >= 0]
            quantiles = np.quantile(again, [0.5, 0.9, 0.99, 1]).tolist() if len(again) else [None] * 4
            rows.append(
                {
                    "source": name,
                    "touches": round(len(distance) / self.share),
                    "reuses": round(len(again) / self.share),
                    **dict(zip(QUANTILES, quantiles, strict=True)),
                }
            )
        return rows

    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(cache size in tokens, share of reads that an LRU cache of this size hits), up to the largest needed."""
        reads = self.distance[self.is_read]
        known = np.sort(reads[reads >= 0])
        if not len(known):
            return np.ones(1), np.zeros(1)
        sizes = np.geomspace(max(1, int(known[0])), max(2, int(known[-1])), CURVE_POINTS)
        return sizes, np.searchsorted(known, sizes, side="right") / len(reads)


def measure(trace: Trace, touches_max: int = TOUCHES_MAX) -> Reuse:
    """The reuse distances of a trace; in memory that does not grow with it.

    Args:
        trace: read once.
        touches_max: sample objects so that about so many touches are looked at.
    """
    threshold = min(_HASHES, -(-_HASHES * touches_max // trace.ops))
    parts: list[Columns] = []
    for batch in trace.batches():
        kept = np.flatnonzero(_hash(batch["key"]) < threshold)
        parts.append({name: batch[name][kept] for name in ("key", "tokens", "source", "op")})
    columns = joined(parts)
    touch = columns["op"] != DELETE
    before = previous_rows(columns["key"])
    deleted = (columns["op"][before] == DELETE)[touch]
    columns = chosen(columns, touch)
    previous, weight = previous_rows(columns["key"]), columns["tokens"].astype(np.int64)
    share = threshold / _HASHES
    again = (previous >= 0) & ~deleted
    found = np.where(again, _distances(previous, weight) / share, -1).astype(np.int64)
    return Reuse(share, found, columns["source"], columns["op"] == READ, weight)


def _hash(key: Ints) -> Ints:
    """24 bits of splitmix64 (Steele et al., OOPSLA'14)."""
    z = key.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) % np.uint64(_HASHES)).astype(np.int64)


def previous_rows(key: Ints) -> Ints:
    """Of each row the one before on its key, -1: none."""
    order = np.argsort(key, kind="stable")
    before = np.full(len(key), -1, np.int64)
    same = key[order][1:] == key[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _distances(previous: Ints, weight: Ints) -> Ints:
    """Of each row i with a previous row p the weight of distinct keys in p + 1 … i.

    A row j of these counts once for its key: where its own previous row is p or before. As that holds for all rows up
    to p, the sum is (weight of all j < i with previous[j] <= p) - (weight of all j <= p) + weight[i]; the first is
    counted as a merge sort would, level by level: what a right half sees in its left half.
    """
    rows = len(previous)
    row = np.arange(rows)
    sums = np.zeros(rows, np.int64)
    order = np.lexsort((row, previous))  # by previous row, for good
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
