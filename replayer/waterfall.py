"""The waterfall: which tier holds what, decided from the order of ops alone.

A pure function of (ops, sizes, usable bytes, options): no I/O, no clock, no randomness, no threads. The rules stand in
`docs/waterfall.md`; anyone who follows them gets the same moves.
"""

from array import array
from dataclasses import dataclass, fields
from heapq import heapify, heappop, heappush
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from replayer.schema import MOVES, TIERS
from tracegen.schema import PREFILL, READ, WRITE

HIT, STORE, MISS, DEMOTE, PROMOTE, DROP, BYPASS, DELETE = range(len(MOVES))
Ints = NDArray[np.int64]

Usable = tuple[int | None, int | None, int | None]
"""Usable bytes of gpu, cpu, nvme: 0 where there is no such tier, None where it is unlimited."""


def _code(move: int, from_tier: int = -1, to_tier: int = -1) -> int:
    """A move and its tiers in one small integer: what the inner loop emits."""
    return move << 4 | (from_tier + 1) << 2 | (to_tier + 1)


_STORE = [_code(STORE, to_tier=tier) for tier in range(len(TIERS))]
_HIT = [_code(HIT, from_tier=tier) for tier in range(len(TIERS))]
_PROMOTE = [_code(PROMOTE, from_tier=tier) for tier in range(len(TIERS))]
_DROP = [_code(DROP, from_tier=tier) for tier in range(len(TIERS))]
_DEMOTE = [[_code(DEMOTE, source, target) for target in range(len(TIERS))] for source in range(len(TIERS))]
_DELETE = [_code(DELETE, from_tier=tier) for tier in range(-1, len(TIERS))]
_MISS, _BYPASS = _code(MISS), _code(BYPASS)
_NOWHERE: Final = len(TIERS)
_KEY: Final = (1 << 32) - 1
_UNLIMITED: Final = 1 << 62
_CODE_BITS: Final = 7


@dataclass(frozen=True)
class Moves:
    """Moves in plan order; every array has shape (moves,). Tiers: 0 gpu, 1 cpu, 2 nvme, -1 none (the host)."""

    op_id: Ints
    seq: Ints
    move: Ints
    key: Ints
    from_tier: Ints
    to_tier: Ints
    size: Ints

    def __len__(self) -> int:
        return len(self.op_id)

    def __getitem__(self, rows: slice) -> "Moves":
        return Moves(*(getattr(self, item.name)[rows] for item in fields(self)))

    def hashed(self) -> bytes:
        """The bytes that the plan fingerprint covers: per move its fields as little-endian int64."""
        columns = [getattr(self, item.name) for item in fields(self)]
        return np.stack(columns, axis=1).astype("<i8", copy=False).tobytes()


class Waterfall:
    """Plans ops batch by batch; holds the key table and per bounded tier a heap of residents by recency.

    Args:
        usable: bytes per tier.
        promote: move an object that is read to the fastest tier that can hold it.
        lookup: `independent`, or `contiguous` (after a request's first prefill write or miss its later prefill reads
            count as misses).
    """

    def __init__(
        self, usable: Usable, *, promote: bool = False, lookup: Literal["independent", "contiguous"] = "independent"
    ) -> None:
        self.usable, self._promote, self._contiguous = usable, promote, lookup == "contiguous"
        self._slow_hit = promote or self._contiguous
        self._limits = [_UNLIMITED if limit is None else limit for limit in usable]  # 0, no tier, holds nothing
        self.used, self.resident = [0, 0, 0], [0, 0, 0]
        self.peak, self.peak_objects = [0, 0, 0], [0, 0, 0]
        self._bytes, self._objects = [0, 0, 0], [0, 0, 0]  # as followed up to the last batch
        # The key table. A heap entry is (recency << 32 | key); recency in the heap may lag behind the table's.
        self._tier_of, self._size_of, self._recency_of = bytearray(), array("q"), array("q")
        self._heaps: list[list[int]] = [[], [], []]
        self._broken = bytearray()  # per request: is it past its first prefill write or miss
        self._emitted: list[int] = []  # key << _CODE_BITS | code

    def plan(self, ops: dict[str, NDArray[Any]], size: Ints) -> tuple[Moves, Ints]:
        """The moves of the next ops.

        Args:
            ops: columns op_id, op, key, phase, request_id of the trace, in its order.
            size: bytes of each op's object, shape (ops,).

        Returns:
            The moves, and where each op's moves end among them, shape (ops,).
        """
        self._grow(int(ops["key"].max(initial=-1)) + 1, int(ops["request_id"].max(initial=-1)) + 1)
        np.frombuffer(self._size_of, np.int64)[ops["key"]] = size
        self._emitted, ends = [], []
        emitted, tier_of, recency_of, slow_hit = self._emitted, self._tier_of, self._recency_of, self._slow_hit
        columns = (ops[name].tolist() for name in ("op_id", "op", "key", "phase", "request_id"))
        for op_id, kind, key, phase, request, bytes_ in zip(*columns, size.tolist(), strict=True):
            tier = tier_of[key]
            if kind == READ:
                if tier == _NOWHERE or (slow_hit and self._is_late(phase, request)):
                    self._miss(op_id, key, bytes_, phase, request)
                elif slow_hit and self._promotes(tier, bytes_):
                    self._leave(key, tier, bytes_, _PROMOTE[tier])
                    self._store(op_id, key, bytes_)
                else:
                    recency_of[key] = op_id
                    emitted.append(key << _CODE_BITS | _HIT[tier])
            elif kind == WRITE:
                self._store(op_id, key, bytes_)
                self._broken[request] |= phase == PREFILL
            elif tier == _NOWHERE:
                self._emit(_DELETE[0], key)
            else:
                self._leave(key, tier, bytes_, _DELETE[tier + 1])
            ends.append(len(emitted))
        return self._moves(ops["op_id"], np.array(ends, np.int64))

    def _moves(self, op_id: Ints, ends: Ints) -> tuple[Moves, Ints]:
        emitted = np.array(self._emitted, np.int64)
        codes, keys = emitted & ((1 << _CODE_BITS) - 1), emitted >> _CODE_BITS
        begins = np.concatenate([[0], ends])[:-1]
        per_op = ends - begins
        moves = Moves(
            op_id=np.repeat(op_id.astype(np.int64), per_op),
            seq=np.arange(len(codes)) - np.repeat(begins, per_op),
            move=codes >> 4,
            key=keys,
            from_tier=(codes >> 2 & 3) - 1,
            to_tier=(codes & 3) - 1,
            size=np.frombuffer(self._size_of, np.int64)[keys],
        )
        self._follow(moves)
        return moves, ends

    def _follow(self, moves: Moves) -> None:
        """Follow the moves from tier to tier: the peaks, and the account once more from what was emitted."""
        leaves = np.isin(moves.move, (DEMOTE, PROMOTE, DROP, DELETE))
        for tier, limit in enumerate(self._limits):
            change = (moves.to_tier == tier).astype(np.int64) - (leaves & (moves.from_tier == tier))
            for weight, level, peak in ((moves.size, self._bytes, self.peak), (1, self._objects, self.peak_objects)):
                levels = level[tier] + np.cumsum(change * weight)
                peak[tier] = max(peak[tier], int(levels.max(initial=0)))
                level[tier] = int(levels[-1]) if len(levels) else level[tier]
            assert self._bytes[tier] == self.used[tier], "the account of bytes is adrift"
            assert self._objects[tier] == self.resident[tier], "the account of objects is adrift"
            assert self.peak[tier] <= limit, "a tier past its usable bytes"

    def _grow(self, keys: int, requests: int) -> None:
        more = keys - len(self._tier_of)
        if more > 0:
            self._tier_of += bytes([_NOWHERE]) * more
            self._size_of.frombytes(bytes(8 * more))
            self._recency_of.frombytes(bytes(8 * more))
        self._broken += bytes(max(0, requests - len(self._broken)))

    def _emit(self, code: int, key: int) -> None:
        self._emitted.append(key << _CODE_BITS | code)

    def _is_late(self, phase: int, request: int) -> bool:
        """Under contiguous lookup: a prefill read after the request's first prefill write or miss."""
        return self._contiguous and phase == PREFILL and bool(self._broken[request])

    def _promotes(self, tier: int, size: int) -> bool:
        return self._promote and any(size <= limit for limit in self._limits[:tier])

    def _miss(self, op_id: int, key: int, size: int, phase: int, request: int) -> None:
        """Recompute and store; where the bytes are still there (a late read), only touch them."""
        self._emit(_MISS, key)
        self._broken[request] |= phase == PREFILL
        if self._tier_of[key] == _NOWHERE:
            self._store(op_id, key, size)
        else:
            self._recency_of[key] = op_id

    def _store(self, op_id: int, key: int, size: int) -> None:
        """The first tier, fast to slow, that can hold the object takes it."""
        for tier, limit in enumerate(self._limits):
            if size <= limit:
                if self.used[tier] + size > limit:
                    self._make_room(tier, size)
                self._recency_of[key] = op_id
                self._enter(key, tier, size, _STORE[tier])
                return
        self._emit(_BYPASS, key)

    def _make_room(self, tier: int, size: int) -> None:
        """Demote the least recent objects until `size` more bytes fit."""
        room = self._limits[tier] - size
        while self.used[tier] > room:
            key = self._least_recent(tier)
            self._demote(key, tier, self._size_of[key])

    def _demote(self, key: int, tier: int, size: int) -> None:
        """To the next slower tier that can hold the object; none: drop it."""
        for slower in range(tier + 1, len(TIERS)):
            if size <= self._limits[slower]:
                if self.used[slower] + size > self._limits[slower]:
                    self._make_room(slower, size)
                self.used[tier] -= size
                self.resident[tier] -= 1
                self._enter(key, slower, size, _DEMOTE[tier][slower])
                return
        self._leave(key, tier, size, _DROP[tier])

    def _enter(self, key: int, tier: int, size: int, code: int) -> None:
        self._emitted.append(key << _CODE_BITS | code)
        self._tier_of[key] = tier
        self.used[tier] += size
        self.resident[tier] += 1
        if self._limits[tier] != _UNLIMITED:
            heap = self._heaps[tier]
            heappush(heap, self._recency_of[key] << 32 | key)
            if len(heap) > 2 * self.resident[tier] + 64:
                self._sweep(tier)

    def _leave(self, key: int, tier: int, size: int, code: int) -> None:
        self._emitted.append(key << _CODE_BITS | code)
        self._tier_of[key] = _NOWHERE
        self.used[tier] -= size
        self.resident[tier] -= 1

    def _least_recent(self, tier: int) -> int:
        """Take the tier's least recent key out of its heap.

        A touch does not move an entry, so entries are lower bounds: one that lags behind is put back with the present
        recency. Entries of keys that left by promotion or deletion are passed over.
        """
        heap = self._heaps[tier]
        while True:
            entry = heappop(heap)
            key = entry & _KEY
            if self._tier_of[key] == tier:
                present = self._recency_of[key] << 32 | key
                if present == entry:
                    return key
                heappush(heap, present)

    def _sweep(self, tier: int) -> None:
        """Leave one entry for each key that lies in the tier, so that its heap does not grow with the trace."""
        here = {entry & _KEY for entry in self._heaps[tier] if self._tier_of[entry & _KEY] == tier}
        self._heaps[tier] = [self._recency_of[key] << 32 | key for key in here]
        heapify(self._heaps[tier])
