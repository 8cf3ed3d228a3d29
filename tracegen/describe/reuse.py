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

from tracegen.arrays import IdTable, Ints
from tracegen.schema import DELETE, ENUMS, READ, Columns, Trace, chosen, joined

TOUCHES_MAX: Final = 1 << 20
CURVE_POINTS: Final = 64
QUANTILES: Final = {"distance_p50": 0.5, "distance_p90": 0.9, "distance_p99": 0.99, "distance_max": 1.0}
GROUPS: Final = 8  # of the sampled objects, whose quantiles tell how far those of the whole sample may be off
_HASHES: Final = 1 << 24
_SOURCES: Final = len(ENUMS["source"])


@dataclass(frozen=True)
class Reuse:
    """Counts of the touches of a trace, and the distances of all of them, or of those of the sampled objects.

    Attributes:
        touches: exactly, by source; shape (sources,).
        reuses: of them those whose object was there before, exactly, by source.
        share: of the objects that were sampled; 1: all.
        distance: in tokens, of each sampled touch; -1 where the object was not there before; shape (sampled touches,).
        source: of each sampled touch, as a code.
        is_read: whether the sampled touch is a read.
        error: relative standard errors of the quantiles of all reuses but the highest, by name; None where the sample
            is too small to tell; empty where it is everything.
        reads: exactly.
    """

    touches: Ints
    reuses: Ints
    share: float
    distance: Ints
    source: NDArray[np.uint8]
    is_read: NDArray[np.bool_]
    error: dict[str, float | None]
    reads: int

    def summary(self) -> list[dict[str, Any]]:
        """Per source and in all: touches, reuses (hits of an unlimited cache), quantiles of the distance in tokens."""
        rows = []
        for code, name in enumerate((*ENUMS["source"], "all")):
            of = slice(None) if name == "all" else slice(code, code + 1)
            touches, reuses = int(self.touches[of].sum()), int(self.reuses[of].sum())
            if touches:
                distance = self.distance if name == "all" else self.distance[self.source == code]
                rows.append(
                    {"source": name, "touches": touches, "reuses": reuses, **_quantiles(distance, reuses, self.share)}
                )
        return rows

    def curve(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(cache size in tokens, share of reads that an LRU cache of this size hits), up to the largest needed."""
        reads = self.distance[self.is_read]
        known = np.sort(reads[reads >= 0])
        if not len(known):
            return np.ones(1), np.zeros(1)
        sizes = np.geomspace(max(1, int(known[0])), max(2, int(known[-1])), CURVE_POINTS)
        expected = self.reads * self.share
        hits = np.searchsorted(known, sizes, side="right") + expected - len(reads)
        return sizes, np.clip(hits / expected, 0, 1)


def _quantiles(distance: Ints, reuses: int, share: float) -> dict[str, float | None]:
    """Quantiles of the distances of so many reuses, of which the sampled ones are known; None where there are none.

    What the sample has too few or too many is taken to be of the nearest reuses: a few popular objects that are reused
    at once fall into it or not (SHARDS-adj).
    """
    again = np.sort(distance[distance >= 0])
    if not len(again):
        return dict.fromkeys(QUANTILES)
    expected = reuses * share
    places = np.array(list(QUANTILES.values())) * (expected - 1) - (expected - len(again))
    found = np.interp(places, np.arange(len(again)), again)
    return dict(zip(QUANTILES, found.tolist(), strict=True))


class _Counts:
    """Counts touches and reuses, exactly; of deleted keys alone it remembers something, a byte per key."""

    def __init__(self) -> None:
        self.touches, self.reuses, self.reads = np.zeros(_SOURCES, np.int64), np.zeros(_SOURCES, np.int64), 0
        self._highest, self._gone = -1, IdTable(np.bool_)

    def add(self, batch: Columns) -> None:
        """Count the next ops of a trace, whose keys are numbered in order of first appearance."""
        key, is_touch = batch["key"], batch["op"] != DELETE
        before = np.maximum.accumulate(np.concatenate([[self._highest], key[:-1]]))
        again = (key <= before) & is_touch
        self._highest = max(self._highest, int(key.max()))
        if not is_touch.all() or self._gone.end:
            again &= ~self._deleted(key, is_touch)
        self.reads += int((batch["op"] == READ).sum())
        self.touches += np.bincount(batch["source"][is_touch], minlength=_SOURCES)
        self.reuses += np.bincount(batch["source"][again], minlength=_SOURCES)

    def _deleted(self, key: Ints, is_touch: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each row's key was deleted by the last op on it."""
        self._gone.cover(key)
        previous = previous_rows(key)
        deleted = np.where(previous >= 0, ~is_touch[previous], self._gone[key])
        self._gone[key] = ~is_touch  # of rows that set one entry the last one stays
        return deleted


def measure(trace: Trace, touches_max: int = TOUCHES_MAX) -> Reuse:
    """The reuse of a trace, in memory that does not grow with it, but for a byte per key where something is deleted.

    Args:
        trace: read once.
        touches_max: sample objects so that about so many touches are looked at.
    """
    threshold = min(_HASHES, -(-_HASHES * touches_max // trace.ops))
    counts, parts = _Counts(), list[Columns]()
    for batch in trace.batches():
        counts.add(batch)
        hashed = _hash(batch["key"])
        kept = np.flatnonzero(hashed < threshold)
        parts.append({name: batch[name][kept] for name in ("key", "tokens", "source", "op")} | {"hash": hashed[kept]})
    columns, share = joined(parts), threshold / _HASHES
    columns, distance = _measured(columns, share)
    error = {} if share == 1 else _errors(joined(parts), threshold, int(counts.reuses.sum()))
    is_read = columns["op"] == READ
    return Reuse(counts.touches, counts.reuses, share, distance, columns["source"], is_read, error, counts.reads)


def _measured(columns: Columns, share: float) -> tuple[Columns, Ints]:
    """The touches among the ops on a share of the objects, and the distance of each."""
    touch = columns["op"] != DELETE
    before = previous_rows(columns["key"])
    deleted = (columns["op"][before] == DELETE)[touch]
    columns = chosen(columns, touch)
    previous, weight = previous_rows(columns["key"]), columns["tokens"].astype(np.int64)
    again = (previous >= 0) & ~deleted
    return columns, np.where(again, _distances(previous, weight) / share, -1).astype(np.int64)


def _errors(columns: Columns, threshold: int, reuses: int) -> dict[str, float | None]:
    """Relative standard errors of quantiles of a sample: of those of its groups, by the square root of their number."""
    share = threshold / _HASHES / GROUPS
    groups = [chosen(columns, columns["hash"] % GROUPS == group) for group in range(GROUPS)]
    quantiles = [_quantiles(_measured(group, share)[1], reuses, share) for group in groups]
    found = np.array([list(one.values()) for one in quantiles], np.float64)[:, :-1]  # nan: a group without a reuse
    spread = np.std(found, axis=0, ddof=1) / np.mean(found, axis=0) / np.sqrt(GROUPS)
    return {name: None if np.isnan(one) else float(one) for name, one in zip(QUANTILES, spread, strict=False)}


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
