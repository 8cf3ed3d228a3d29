"""The waterfall of docs/waterfall.md once more: plain lists and dicts, written from the page, slow and obvious."""

import hashlib
import struct
from collections.abc import Sequence

NAMES = ("hit", "store", "miss", "demote", "promote", "drop", "bypass", "delete")
Op = tuple[int, str, int, int, str, int]
Row = tuple[int, int, str, int, int, int, int]


class _Tiers:
    def __init__(self, usable: Sequence[int | None], promote: bool, lookup: str) -> None:
        self.usable, self.promote, self.lookup = usable, promote, lookup
        self.where: dict[int, int] = {}
        self.size: dict[int, int] = {}
        self.recency: dict[int, int] = {}
        self.broken: set[int] = set()
        self.rows: list[tuple[str, int, int, int]] = []

    def can_hold(self, tier: int, size: int) -> bool:
        limit = self.usable[tier]
        return limit is None or (limit > 0 and size <= limit)

    def used(self, tier: int) -> int:
        return sum(self.size[key] for key, place in self.where.items() if place == tier)

    def make_room(self, tier: int, size: int) -> None:
        limit = self.usable[tier]
        while limit is not None and self.used(tier) + size > limit:
            oldest = min((key for key, place in self.where.items() if place == tier), key=lambda key: self.recency[key])
            self.demote(oldest, tier)

    def demote(self, key: int, tier: int) -> None:
        for slower in range(tier + 1, 3):
            if self.can_hold(slower, self.size[key]):
                self.make_room(slower, self.size[key])
                self.rows.append(("demote", key, tier, slower))
                self.where[key] = slower
                return
        self.rows.append(("drop", key, tier, -1))
        del self.where[key]

    def store(self, op_id: int, key: int) -> None:
        for tier in range(3):
            if self.can_hold(tier, self.size[key]):
                self.make_room(tier, self.size[key])
                self.rows.append(("store", key, -1, tier))
                self.where[key], self.recency[key] = tier, op_id
                return
        self.rows.append(("bypass", key, -1, -1))

    def read(self, op_id: int, key: int, phase: str, request: int) -> None:
        tier = self.where.get(key)
        late = self.lookup == "contiguous" and phase == "prefill" and request in self.broken
        if tier is None or late:
            self.rows.append(("miss", key, -1, -1))
            if phase == "prefill":
                self.broken.add(request)
            if tier is None:
                self.store(op_id, key)
        elif self.promote and any(self.can_hold(faster, self.size[key]) for faster in range(tier)):
            self.rows.append(("promote", key, tier, -1))
            del self.where[key]
            self.store(op_id, key)
        else:
            self.rows.append(("hit", key, tier, -1))
        self.recency[key] = op_id

    def run(self, op: Op) -> list[Row]:
        op_id, kind, key, size, phase, request = op
        self.rows, self.size[key] = [], size
        if kind == "read":
            self.read(op_id, key, phase, request)
        elif kind == "write":
            self.store(op_id, key)
            if phase == "prefill":
                self.broken.add(request)
        else:
            self.rows.append(("delete", key, self.where.pop(key, -1), -1))
        for tier, limit in enumerate(self.usable):
            assert limit is None or self.used(tier) <= limit
        return [(op_id, seq, name, k, a, b, self.size[k]) for seq, (name, k, a, b) in enumerate(self.rows)]


def moves(
    ops: Sequence[Op], usable: Sequence[int | None], promote: bool = False, lookup: str = "independent"
) -> list[Row]:
    """The rows (op_id, seq, move, key, from, to, size) of ops (op_id, op, key, size, phase, request_id)."""
    tiers = _Tiers(usable, promote, lookup)
    return [row for op in ops for row in tiers.run(op)]


def fingerprint(rows: Sequence[Row]) -> str:
    """SHA-256 over version 1 and the rows, every number a little-endian int64."""
    hashed = hashlib.sha256(struct.pack("<q", 1))
    for op_id, seq, name, key, source, target, size in rows:
        hashed.update(struct.pack("<7q", op_id, seq, NAMES.index(name), key, source, target, size))
    return hashed.hexdigest()
