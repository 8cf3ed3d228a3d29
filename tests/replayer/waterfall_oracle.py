"""A slow, plain second implementation of the waterfall, written from docs/waterfall.md alone."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

Op = tuple[int, str, int, int, str, int]
"""(op_id, op, key, size, phase, request_id)"""
Usable = tuple[int | None, int | None, int | None]
"""Usable bytes of gpu, cpu, nvme; 0: no such tier, None: unlimited."""
Row = tuple[int, int, str, int, int, int, int]
"""(op_id, seq, move, key, from_tier, to_tier, size)"""

TIERS, NONE = (0, 1, 2), -1
CODES = {"hit": 0, "store": 1, "miss": 2, "demote": 3, "promote": 4, "drop": 5, "bypass": 6, "delete": 7}


class Cache:
    def __init__(self, usable: Usable) -> None:
        self.usable = usable
        self.tiers: tuple[dict[int, int], ...] = ({}, {}, {})  # per tier: key -> size
        self.recency: dict[int, int] = {}  # key -> op_id of the last op that touched it
        self.rows: list[Row] = []
        self.op_id, self.seq = NONE, 0

    def begin(self, op_id: int) -> None:
        self.op_id, self.seq = op_id, 0

    def row(self, move: str, key: int, source: int, target: int, size: int) -> None:
        self.rows.append((self.op_id, self.seq, move, key, source, target, size))
        self.seq += 1

    def tier_of(self, key: int) -> int:
        for tier in TIERS:
            if key in self.tiers[tier]:
                return tier
        return NONE

    def can_hold(self, tier: int, size: int) -> bool:
        limit = self.usable[tier]
        return limit is None or (limit > 0 and size <= limit)

    def make_room(self, tier: int, size: int) -> None:
        limit = self.usable[tier]
        while limit is not None and sum(self.tiers[tier].values()) + size > limit:
            self.demote(min(self.tiers[tier], key=lambda key: self.recency[key]), tier)

    def demote(self, key: int, tier: int) -> None:
        size = self.tiers[tier][key]
        for slower in TIERS[tier + 1 :]:
            if self.can_hold(slower, size):
                self.make_room(slower, size)
                self.row("demote", key, tier, slower, size)
                del self.tiers[tier][key]
                self.tiers[slower][key] = size
                return
        self.row("drop", key, tier, NONE, size)
        del self.tiers[tier][key]

    def target(self, size: int) -> int:
        """The tier that a store takes; 3 if there is none."""
        return next((tier for tier in TIERS if self.can_hold(tier, size)), 3)

    def store(self, key: int, size: int) -> None:
        tier = self.target(size)
        if tier == 3:
            self.row("bypass", key, NONE, NONE, size)
            return
        self.make_room(tier, size)
        self.row("store", key, NONE, tier, size)
        self.tiers[tier][key] = size
        self.recency[key] = self.op_id

    def read(self, key: int, size: int, promote: bool, broken: bool) -> bool:
        """Whether it is a miss."""
        tier = self.tier_of(key)
        if tier == NONE:
            self.row("miss", key, NONE, NONE, size)
            self.store(key, size)
            return True
        if broken:
            self.row("miss", key, NONE, NONE, size)
            self.recency[key] = self.op_id
            return True
        if promote and self.target(size) < tier:
            self.row("promote", key, tier, NONE, size)
            del self.tiers[tier][key]
            self.store(key, size)
            return False
        self.row("hit", key, tier, NONE, size)
        self.recency[key] = self.op_id
        return False

    def delete(self, key: int, size: int) -> None:
        tier = self.tier_of(key)
        self.row("delete", key, tier, NONE, size)
        if tier != NONE:
            del self.tiers[tier][key]

    def check(self) -> None:
        for tier, limit in zip(TIERS, self.usable, strict=True):
            assert limit is None or sum(self.tiers[tier].values()) <= limit, f"op {self.op_id}: tier {tier} over"
        resident = [key for tier in self.tiers for key in tier]
        assert len(resident) == len(set(resident)), f"op {self.op_id}: a key lies in two tiers"


class SpilloverCache(Cache):
    """Section "Spillover": nothing moves down."""

    def target(self, size: int) -> int:
        holders = [tier for tier in TIERS if self.can_hold(tier, size)]
        for tier in holders:
            limit = self.usable[tier]
            if limit is None or sum(self.tiers[tier].values()) + size <= limit:
                return tier
        return holders[-1] if holders else 3

    def demote(self, key: int, tier: int) -> None:
        self.row("drop", key, tier, NONE, self.tiers[tier].pop(key))


CACHES = {"waterfall": Cache, "spillover": SpilloverCache}


def moves(
    ops: Sequence[Op],
    usable: Usable,
    promote: bool = False,
    lookup: str = "independent",
    arrangement: str = "waterfall",
) -> list[Row]:
    """The plan, in order."""
    cache, broken = CACHES[arrangement](usable), set[int]()
    for op_id, op, key, size, phase, request_id in ops:
        cache.begin(op_id)
        breaks = False
        if op == "write":
            cache.store(key, size)
            breaks = True
        elif op == "read":
            chained = lookup == "contiguous" and phase == "prefill"
            breaks = cache.read(key, size, promote, chained and request_id in broken)
        else:
            cache.delete(key, size)
        if breaks and phase == "prefill":
            broken.add(request_id)
        cache.check()
    return cache.rows


def fingerprint(rows: Iterable[Row]) -> str:
    """SHA-256 of the version and the rows, seven little-endian int64 each."""
    digest = hashlib.sha256((1).to_bytes(8, "little", signed=True))
    for op_id, seq, move, key, source, target, size in rows:
        for number in (op_id, seq, CODES[move], key, source, target, size):
            digest.update(number.to_bytes(8, "little", signed=True))
    return digest.hexdigest()


def decode_filter(ops: Sequence[dict[str, Any]], mode: str) -> list[dict[str, Any]]:
    """The ops that `--decode mode` keeps; new_tokens of the others move to an op of their request that is kept."""
    if mode == "reread":
        return [dict(op) for op in ops]
    kept: list[dict[str, Any]] = []
    left_out: dict[int, int] = {}  # request -> new_tokens
    target: dict[int, dict[str, Any]] = {}  # request -> its decode read that is kept, else its last op that is
    decoding: set[int] = set()
    for op in ops:
        request = op["request_id"]
        is_decode = op["op"] == "read" and op["phase"] == "decode"
        if is_decode and (mode == "none" or request in decoding):
            left_out[request] = left_out.get(request, 0) + op["new_tokens"]
            continue
        kept.append(dict(op))
        if request not in decoding:
            target[request] = kept[-1]
        if is_decode:
            decoding.add(request)
    for request, tokens in left_out.items():
        if request in target:
            target[request]["new_tokens"] += tokens
    return kept
