"""What the oracle of arrangements keeps: ops, the table with its defaults, tiers; and how many tokens are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.replayer.policies import oracle as policies
from tracegen.schema import ENUMS, Columns

GPU, CPU, NVME = TIERS = (0, 1, 2)
NAMES = ("gpu", "cpu", "nvme")
NONE = -1
TABLE = {
    "copies": "exclusive", "place": "fastest", "touch": "serving", "recency": "op", "lookup": "trace", "ttl_s": 0, "pin": (),
    "chunk_tokens": 0, "tail": "drop", "unsaved_tokens": 0,
}  # fmt: skip
TIER_TABLE = {
    "down": "on-evict", "touches": 2, "admit_touches": 1, "admit_table": 0, "up": "stay", "policy": "lru", "high": 1.0,
    "low": 1.0, "evict_share": 0.0, "fetch_tokens": 0, "fetch_in_flight": 0, "fetch_share": 0.0, "user_quota": 1.0,
}  # fmt: skip
PROMOTING = {name: {"up": "move"} for name in NAMES}

Table = Mapping[str, Any]
"""What a TOML file has: keys, and tables of tiers; what is left out has its default."""
Usable = tuple[int | None, int | None, int | None]
"""Usable bytes of gpu, cpu, nvme; 0: no such tier, None: unlimited."""


@dataclass(frozen=True)
class Op:
    """A row of the trace."""

    op_id: int
    name: str
    """write, read or delete"""
    key: int
    tokens: int
    phase: str = "prefill"
    request: int = 0
    user: int = 0
    source: str = "user"
    time_ns: int = 0
    qos: int = 0
    step: int = 0
    think_ns: int = 0
    new_tokens: int = 0
    session: int = 0
    block: int = 0
    """tokens of a block of the trace; 0: it has no blocks"""

    @property
    def is_prefill(self) -> bool:
        """Whether the op is a prefill read or write."""
        return self.phase == "prefill" and self.name != "delete"


def ops_of(batch: Columns, block: int = 0) -> list[Op]:
    """The ops of a trace's columns."""
    names = (
        "op_id op key tokens phase request_id user_id source time_ns qos step think_ns new_tokens session_id".split()
    )
    words = {name: [ENUMS[name][code] for code in batch[name]] for name in ("op", "phase", "source")}
    columns = [words[name] if name in words else batch[name].tolist() for name in names]
    columns.append([block] * len(batch["key"]))
    return [Op(*row) for row in zip(*columns, strict=True)]


@dataclass
class Thing:
    """What is known of a key from the trace alone."""

    tokens: int
    size: int
    """bytes of the stored tokens"""
    owner: int
    is_pinned: bool
    parent: int | None


@dataclass
class Held:
    """An object in a tier."""

    recency: int
    touches: int


@dataclass
class Tier:
    """A tier, its rules, and what it holds."""

    number: int
    rules: Table
    usable: int | None
    parents: Mapping[int, int | None]
    held: dict[int, Held] = field(default_factory=dict)
    latest: list[int] = field(default_factory=list)
    """keys in it by their last touch there, or entry, the one the longest ago first"""
    counts: dict[int, int] = field(default_factory=dict)
    """key -> its prefill ops, for admission; the least recent key first"""
    policy: "Evictions" = field(init=False)

    def __post_init__(self) -> None:
        self.policy = Evictions(self.rules["policy"], self.held, self.parents)

    def share(self, name: str, of: int) -> int:
        """So great a share, as the table writes it, of a number."""
        return exact_share(self.rules[name], of)

    def count(self, key: int) -> None:
        """Count an op on the key, and forget the least recent key if the table is full."""
        self.counts[key] = self.counts.pop(key, 0) + 1
        if 0 < self.rules["admit_table"] < len(self.counts):
            del self.counts[next(iter(self.counts))]


POLICIES: dict[str, type[policies.Policy]] = {
    "lru": policies.Lru, "fifo": policies.Fifo, "lfu": policies.Lfu, "clock": policies.Clock,
    "sieve": policies.Sieve, "leaf-lru": policies.LeafLru,
}  # fmt: skip


class Evictions:
    """A policy's oracle in a tier whose objects are told of by their keys; `held` has the recency of each."""

    def __init__(self, name: str, held: Mapping[int, Held], parents: Mapping[int, int | None]) -> None:
        self.held, self.parents = held, parents
        self.tier = policies.Tier(0, [], [], [])
        self.policy = POLICIES[name](self.tier)

    def ask(self, key: int) -> None:
        self.policy.ask(key)

    def enter(self, key: int) -> None:
        self.tier.position += 1
        self.tier.inside.add(key)
        self.policy.enter(key)

    def touch(self, key: int) -> None:
        self.tier.position += 1
        self.policy.touch(key)

    def victim(self) -> int:
        self.tier.last_touch = {key: self.held[key].recency for key in self.tier.inside}
        self.tier.parents = {key: self.parents.get(key) for key in self.tier.inside}  # type: ignore[assignment]
        return self.policy.victim(-1)

    def leave(self, key: int, evicted: bool) -> None:
        self.policy.leave(key, evicted)
        self.tier.inside.remove(key)


def exact_share(share: object, of: int) -> int:
    """Floor of share × of; the share is the decimal number that the table writes."""
    return int(Decimal(str(share)) * of // 1)


def rules_of(table: Table, tier: str) -> Table:
    """The table of a tier, with defaults."""
    return TIER_TABLE | dict(table.get(tier, {}))


def stored_tokens(ops: Sequence[Op], table: Table) -> dict[int, int]:
    """How many tokens of each key are stored: section "Chunks"."""
    chunk, unsaved = table["chunk_tokens"], table["unsaved_tokens"]
    if not chunk:
        return {op.key: op.tokens for op in ops}
    stored, walks = (
        dict[int, int](),
        dict[int, list[tuple[Op, int, int]]](),
    )  # per request: op, offset and end before it
    met_by, latest = dict[int, int](), {op.session: op.request for op in sorted(ops, key=lambda op: op.request)}
    ends_of_answers = {op.request: op.key for op in ops if op.name == "write" and op.phase == "decode"}.values()
    places = dict[int, tuple[int, int]]()
    for op in ops:
        walk = walks.setdefault(op.request, [])
        is_decode_read = op.name == "read" and op.phase == "decode"
        if op.name == "delete" or is_decode_read or any(op.key == one.key for one, _, _ in walk):
            continue
        offset, end = places.get(op.request, (0, 0))
        if walk and op.phase == "decode" and walk[-1][0].phase == "prefill" and walk[-1][0].tokens < op.block:
            replaced, offset, end = walk[-1]
            if met_by[replaced.key] == op.request:
                stored[replaced.key] = 0
        walk.append((op, offset, end))
        offset += op.tokens
        saved = max(0, offset - unsaved) if op.key in ends_of_answers else offset
        chunks = saved // chunk if table["tail"] == "drop" else -(-saved // chunk)
        if met_by.setdefault(op.key, op.request) == op.request:
            stored[op.key] = max(0, chunks * chunk - end)
        places[op.request] = offset, chunks * chunk
    for request, walk in walks.items():
        last = walk[-1][0] if walk else None
        if last and last.phase == "decode" and last.tokens < last.block and latest[last.session] > request:
            stored[last.key] = 0 if met_by[last.key] == request else stored[last.key]
    return stored


def things_of(ops: Sequence[Op], table: Table, token_bytes: int) -> dict[int, Thing]:
    """Sizes, owners, pins and parents, by the first op on each key."""
    stored = stored_tokens(ops, table)
    parents, things = parents_of(ops), dict[int, Thing]()
    for op in ops:
        size = stored.get(op.key, 0) * token_bytes
        things.setdefault(op.key, Thing(op.tokens, size, op.user, op.source in table["pin"], parents.get(op.key)))
    return things


def parents_of(ops: Sequence[Op]) -> dict[int, int | None]:
    """The object before each one, in the request of the first op on it that is no delete and no decode read."""
    parents, prompts = dict[int, int | None](), dict[int, list[int]]()
    for op in ops:
        prompt = prompts.setdefault(op.request, [])
        if op.name != "delete" and (op.phase == "prefill" or op.name == "write") and op.key not in prompt:
            parents.setdefault(op.key, prompt[-1] if prompt else None)
            prompt.append(op.key)
    return parents
