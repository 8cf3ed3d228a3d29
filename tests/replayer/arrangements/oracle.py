"""A slow, plain planner of arrangements, written from docs/arrangements.md and docs/waterfall.md alone."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from tests.replayer.arrangements import tiers as kept
from tests.replayer.arrangements.tiers import (
    CPU,
    GPU,
    NONE,
    TIERS,
    Held,
    Op,
    Table,
    Tier,
    Usable,
    exact_share,
)

Row = tuple[int, int, str, int, int, int, int]
"""(op_id, seq, move, key, from_tier, to_tier, size)"""
CODES = {
    "hit": 0, "store": 1, "miss": 2, "demote": 3, "promote": 4, "drop": 5, "bypass": 6, "delete": 7, "copy": 8,
}  # fmt: skip


class Planner:
    """The state, and what an op does to it; methods have the names of the page."""

    def __init__(self, ops: Sequence[Op], table: Table, usable: Usable, token_bytes: int, chained: bool) -> None:
        self.table = kept.TABLE | dict(table)
        self.things = kept.things_of(ops, self.table, token_bytes)
        self.tiers = [Tier(t, kept.rules_of(table, kept.NAMES[t]), usable[t], kept.parents_of(ops)) for t in TIERS]
        self.token_bytes = token_bytes
        lookup = self.table["lookup"]
        self.is_contiguous = lookup == "contiguous" or (lookup == "trace" and chained)
        self.unwritten = {op.key for op in ops if op.name == "write"}
        self.of_request: dict[int, list[Op]] = {}
        for op in ops:
            self.of_request.setdefault(op.request, []).append(op)
        self.rows: list[Row] = []
        self.op = ops[0]
        self.position, self.now, self.seq = -1, 0, 0
        self.last_touch: dict[int, tuple[int, int]] = {}  # key -> position and time of the op, in any tier
        self.broken: set[int] = set()
        self.asks: dict[int, set[int]] = {}  # request -> the tiers that it asks
        self.missing: list[dict[int, int]] = [{}, {}, {}]  # per tier: request that asks it -> missing tokens
        self.positions: dict[int, int] = {}  # op_id -> position, of prefill ops
        self.undecided = {  # request -> its prefill ops to be decided
            request: sum(op.is_prefill for op in ours) for request, ours in self.of_request.items()
        }

    # What is so

    def used(self, tier: Tier) -> int:
        return sum(self.things[key].size for key in tier.held)

    def has_room(self, tier: Tier, key: int) -> bool:
        return tier.usable is None or self.used(tier) + self.things[key].size <= tier.usable

    def quota(self, tier: Tier, key: int) -> int | None:
        """What the owner of the object may take of the tier; None: all."""
        if tier.usable is None or tier.rules["user_quota"] == 1 or self.things[key].is_pinned:
            return None
        return tier.share("user_quota", tier.usable)

    def can_hold(self, tier: Tier, key: int) -> bool:
        size, quota = self.things[key].size, self.quota(tier, key)
        if size == 0 or tier.usable == 0:
            return False
        if tier.usable is None:
            return True
        pinned = sum(self.things[other].size for other in tier.held if self.things[other].is_pinned and other != key)
        return size <= tier.usable - pinned and (quota is None or size <= quota)

    def can_hold_it(self, key: int) -> list[Tier]:
        return [tier for tier in self.tiers if self.can_hold(tier, key)]

    def next_slower(self, tier: Tier, key: int) -> Tier | None:
        return next((slower for slower in self.can_hold_it(key) if slower.number > tier.number), None)

    def holders(self, key: int) -> list[Tier]:
        return [tier for tier in self.tiers if key in tier.held]

    def admits(self, tier: Tier, key: int) -> bool:
        return bool(tier.counts.get(key, 0) >= tier.rules["admit_touches"] or tier.rules["admit_touches"] == 1)

    def target(self, key: int) -> Tier | None:
        """The tier that a store takes."""
        tiers = self.can_hold_it(key)
        if self.table["place"] == "with-room" and tiers:
            return next((tier for tier in tiers if self.has_room(tier, key)), tiers[-1])
        return tiers[0] if tiers else None

    # How an object enters, is touched and leaves

    def emit(self, move: str, key: int, source: int = NONE, target: int = NONE) -> None:
        self.rows.append((self.op.op_id, self.seq, move, key, source, target, self.things[key].size))
        self.seq += 1

    def touch(self, tier: Tier, key: int) -> None:
        """Touch it there, or in every holder."""
        self.last_touch[key] = self.position, self.now
        for each in self.holders(key) if self.table["touch"] == "all" else [tier]:
            held = each.held[key]
            held.recency, held.touches = self.position, held.touches + 1
            each.latest.remove(key)
            each.latest.append(key)
            if not self.things[key].is_pinned:
                each.policy.touch(key)

    def enter(self, tier: Tier, key: int) -> None:
        is_own = key == self.op.key
        if is_own:
            self.last_touch[key] = self.position, self.now
        tier.held[key] = Held(self.last_touch[key][0], int(is_own))
        tier.latest.append(key)
        if not self.things[key].is_pinned:
            tier.policy.enter(key)

    def leave(self, tier: Tier, key: int, evicted: bool = False) -> None:
        if not self.things[key].is_pinned:
            tier.policy.leave(key, evicted)
        tier.latest.remove(key)
        del tier.held[key]

    # What an op does

    def decide(self, op: Op) -> None:
        self.op, self.position, self.seq = op, self.position + 1, 0
        self.now = max(self.now, self.of_request[op.request][0].time_ns)
        self.count(op)
        self.tell_who_is_asked(op)
        if op.is_prefill and op.request not in self.asks:
            self.asks[op.request] = {tier.number for tier in self.tiers if self.may_ask(tier, op.request)}
        if op.name == "delete":
            self.delete(op.key)
        elif op.key in self.unwritten:
            self.unwritten.remove(op.key)
            self.store(op.key)
            self.break_request()
        else:
            self.read(op.key)
        for tier in self.tiers:
            self.background(tier)
        if op.is_prefill:
            self.undecided[op.request] -= 1
            self.positions[op.op_id] = self.position
            if self.table["recency"] == "tail-first" and not self.undecided[op.request]:
                self.turn_round([one for one in self.of_request[op.request] if one.is_prefill])

    def turn_round(self, prompt: list[Op]) -> None:
        """Make the end of a prompt older than its beginning: its i-th op's object gets the position of the i-th last."""
        positions = [self.positions[op.op_id] for op in prompt]
        turned = dict(zip(positions, reversed(positions), strict=True))
        for key in {op.key for op in prompt} & set(self.last_touch):
            position, time = self.last_touch[key]
            self.last_touch[key] = turned.get(position, position), time
            for tier in self.holders(key):
                tier.held[key].recency = turned.get(tier.held[key].recency, tier.held[key].recency)

    def count(self, op: Op) -> None:
        for tier in self.tiers if op.is_prefill else []:
            tier.count(op.key)

    def tell_who_is_asked(self, op: Op) -> None:
        """Tell the policies of tiers that do not hold the object."""
        if op.name != "delete" and self.things[op.key].size and not self.things[op.key].is_pinned:
            for tier in self.tiers:
                if op.key not in tier.held:
                    tier.policy.ask(op.key)

    def delete(self, key: int) -> None:
        for tier in self.holders(key):
            self.emit("delete", key, tier.number)
            self.leave(tier, key)
        if self.seq == 0:
            self.emit("delete", key)

    def read(self, key: int) -> None:
        self.expire(key)
        tier = self.find(key)
        if self.is_contiguous and self.op.phase == "prefill" and self.op.request in self.broken:
            self.emit("miss", key)
            if holders := self.holders(key):
                self.touch(holders[0], key)
            else:
                self.store(key)
        elif tier is None:
            self.emit("miss", key)
            if self.things[key].size:
                self.break_request()
            if self.table["copies"] == "exclusive":
                for holder in self.holders(key):
                    self.emit("drop", key, holder.number)
                    self.leave(holder, key)
            self.store(key)
        else:
            self.hit(key, tier)

    def break_request(self) -> None:
        if self.op.phase == "prefill":
            self.broken.add(self.op.request)

    def hit(self, key: int, tier: Tier) -> None:
        up = tier.rules["up"]
        if up == "move":
            target = self.target(key)
            if target is not None and target.number < tier.number:
                self.emit("promote", key, tier.number)
                self.leave(tier, key)
                self.store(key)
                return
        self.touch(tier, key)
        self.emit("hit", key, tier.number)
        lifted: list[Tier] = []
        if up == "copy":
            lifted = [faster for faster in reversed(self.tiers) if faster.number < tier.number]
        if up == "copy-top":
            lifted = [faster for faster in self.can_hold_it(key)[:1] if faster.number < tier.number]
        for faster in lifted:
            self.lift(key, faster)
        self.offer(key, tier)

    def lift(self, key: int, tier: Tier) -> None:
        if key not in tier.held and self.can_hold(tier, key) and self.admits(tier, key):
            self.make_room(tier, key)
            self.emit("store", key, NONE, tier.number)
            self.enter(tier, key)

    def store(self, key: int) -> None:
        tier = self.target(key)
        if tier is None:
            self.emit("bypass", key)
            return
        if key in tier.held:
            self.touch(tier, key)
        else:
            self.make_room(tier, key)
            self.emit("store", key, NONE, tier.number)
            self.enter(tier, key)
        self.offer(key, tier)

    def offer(self, key: int, tier: Tier) -> None:
        slower = self.next_slower(tier, key)
        if key not in tier.held or slower is None or key in slower.held:
            return
        down = slower.rules["down"]
        too_few = down == "on-touch" and tier.held[key].touches < slower.rules["touches"]
        if down == "on-evict" or too_few or not self.admits(slower, key):
            return
        self.make_room(slower, key)
        self.emit("copy", key, tier.number, slower.number)
        self.enter(slower, key)
        self.offer(key, slower)

    # Eviction

    def make_room(self, tier: Tier, key: int) -> None:
        thing, quota = self.things[key], self.quota(tier, key)
        while quota is not None:
            of_owner = [one for one in tier.latest if self.is_of(one, thing.owner)]
            if sum(self.things[one].size for one in of_owner) + thing.size <= quota:
                break
            self.evict(of_owner[0], tier)
        while not self.has_room(tier, key):
            self.evict(tier.policy.victim(), tier)

    def is_of(self, key: int, owner: int) -> bool:
        """Whether it counts against the owner's quota."""
        return self.things[key].owner == owner and not self.things[key].is_pinned

    def evict(self, key: int, tier: Tier) -> None:
        slower = self.next_slower(tier, key)
        if (
            self.table["place"] == "with-room"
            or slower is None
            or key in slower.held
            or slower.rules["down"] != "on-evict"
            or not self.admits(slower, key)
        ):
            self.emit("drop", key, tier.number)
            self.leave(tier, key, evicted=True)
            return
        self.make_room(slower, key)
        self.emit("demote", key, tier.number, slower.number)
        self.leave(tier, key, evicted=True)
        self.enter(slower, key)

    def background(self, tier: Tier) -> None:
        used, usable = self.used(tier), tier.usable
        if usable is None or tier.rules["high"] >= 1 or used <= tier.share("high", usable):
            return
        down_to = tier.share("low", usable)
        if tier.rules["evict_share"]:
            down_to = used - tier.share("evict_share", used)
        while self.used(tier) > down_to and any(not self.things[key].is_pinned for key in tier.held):
            self.evict(tier.policy.victim(), tier)

    # Who has it

    def expire(self, key: int) -> None:
        ttl_ns = exact_share(self.table["ttl_s"], 10**9)
        if not ttl_ns or self.things[key].is_pinned or key not in self.last_touch:
            return
        if self.now - self.last_touch[key][1] > ttl_ns:
            for tier in self.holders(key):
                self.emit("drop", key, tier.number)
                self.leave(tier, key)

    def find(self, key: int) -> Tier | None:
        asked = self.asks.get(self.op.request, set(TIERS))
        return next((tier for tier in self.holders(key) if tier.number in asked), None)

    def may_ask(self, tier: Tier, request: int) -> bool:
        """Whether a request whose first prefill op is decided now asks the tier from now on."""
        limit = self.fetch_limit(tier)
        if tier.number == GPU or (limit is None and not tier.rules["fetch_tokens"]):
            return True
        missing = self.missing_tokens(tier, request)
        in_flight = sum(tokens for other, tokens in self.missing[tier.number].items() if self.undecided[other])
        if missing < tier.rules["fetch_tokens"] or (limit is not None and in_flight + missing > limit):
            return False
        self.missing[tier.number][request] = missing
        return True

    def missing_tokens(self, tier: Tier, request: int) -> int:
        prefill = [op for op in self.of_request[request] if op.is_prefill]
        missing = sum(op.tokens for op in prefill)
        for op in [op for op in prefill if self.things[op.key].size]:
            if not any(op.key in faster.held for faster in self.tiers[: tier.number]):
                break
            missing -= op.tokens
        return missing

    def fetch_limit(self, tier: Tier) -> int | None:
        limits = [tier.rules["fetch_in_flight"]] if tier.rules["fetch_in_flight"] else []
        if tier.rules["fetch_share"]:
            gpu, cpu = self.tiers[GPU].usable, self.tiers[CPU].usable
            assert gpu is not None
            assert cpu is not None
            limits.append(max(0, exact_share(tier.rules["fetch_share"], cpu - gpu) // self.token_bytes))
        return min(limits, default=None)


def steps(
    ops: Sequence[Op], table: Table, usable: Usable, token_bytes: int = 1, chained: bool = False,
    order: Iterable[int] | None = None,
) -> Iterator[Planner]:  # fmt: skip
    """The planner after each op; `order`: op_ids, if the order is not that of the trace."""
    if not ops:
        return
    planner, by_id = Planner(ops, table, usable, token_bytes, chained), {op.op_id: op for op in ops}
    for op in ops if order is None else [by_id[op_id] for op_id in order]:
        planner.decide(op)
        yield planner


def moves(
    ops: Sequence[Op], table: Table, usable: Usable, token_bytes: int = 1, chained: bool = False,
    order: Iterable[int] | None = None,
) -> list[Row]:  # fmt: skip
    """The plan."""
    rows: list[Row] = []
    for planner in steps(ops, table, usable, token_bytes, chained, order):
        rows = planner.rows
    return rows


def fingerprint(rows: Iterable[Row], version: int = 1) -> str:
    """SHA-256 of the version and the rows, seven little-endian int64 each; 1: the waterfall in the trace's order."""
    digest = hashlib.sha256(version.to_bytes(8, "little", signed=True))
    for op_id, seq, move, key, source, target, size in rows:
        for number in (op_id, seq, CODES[move], key, source, target, size):
            digest.update(number.to_bytes(8, "little", signed=True))
    return digest.hexdigest()
