"""Loads, tiers and ledgers of the plain reference order in order_oracle.py."""

from dataclasses import dataclass, field

from tests.replayer.arrangements.oracle import Row
from tests.replayer.arrangements.tiers import TIERS, Op, Usable

SECOND, FINE = 10**9, 1024  # ns in a second; V counts 1/1024 ns


@dataclass(frozen=True)
class Load:
    """The run's own load; None: no limit, for `prefill_tok_s` no time at all."""

    pace: str  # asap, closed, open
    workers: int
    speedup: float = 1
    token_ms: float = 0
    prefill_tok_s: float | None = None
    request_depth: int | None = 1
    allocs: int | None = None

    def scaled(self, nanoseconds: int) -> int:
        return int(float(nanoseconds) / float(self.speedup))

    def wait_of(self, op: Op, computes: bool) -> int:
        """The time that computing takes after an op."""
        wait = float(op.new_tokens) * (self.token_ms * 1e6)
        if self.prefill_tok_s is not None:
            wait += float(op.tokens if computes else 0) * (1e9 / self.prefill_tok_s)
        return int(wait)


@dataclass(frozen=True)
class Device:
    """A tier of the reference system."""

    read_bytes_per_s: int
    write_bytes_per_s: int
    streams: int
    read_latency_ns: int
    write_latency_ns: int


@dataclass
class Result:
    """The order and what became of it on the virtual clock."""

    order: list[int] = field(default_factory=list)  # op_ids by position
    rows: list[Row] = field(default_factory=list)  # by move number
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)  # move number -> start, end
    over: dict[int, int] = field(default_factory=dict)  # request -> the time at which it is over


@dataclass
class Part:
    """One side of a move: a latency, then a transfer."""

    move: "Move"
    tier: int
    latency: int
    work: int
    joins: int = -1
    target: int = -1


@dataclass
class Move:
    """A row of the plan and what became of it."""

    number: int
    op: Op
    row: Row
    waits: list["Move"]
    parts: list[Part] = field(default_factory=list)  # those that are still to begin
    start: int | None = None
    end: int | None = None

    @property
    def name(self) -> str:
        return self.row[2]

    @property
    def rank(self) -> tuple[int, int]:
        return self.op.qos, self.number


@dataclass
class Task:
    """An op and what became of it."""

    op: Op
    row: int
    due: int | None = None  # known: it is let go
    moves: list[Move] | None = None  # known: it is decided
    wait: int = 0
    end: int | None = None


@dataclass
class Request:
    """The ops of a request and how far it is."""

    steps: list[list[Task]]
    before: "Request | None"  # of the same user
    start: int | None = None
    begun: int = 0  # the step that is under way
    due: int = -1  # of that step
    over: int | None = None

    @property
    def first(self) -> Task:
        return self.steps[0][0]


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


class Tier:
    """The transfers of a tier, which share it."""

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.present: list[Part] = []
        self.v, self.updated = 0, 0

    def share(self) -> int:
        return max(len(self.present), self.streams)

    def at(self, now: int) -> int:
        """V, were it updated now."""
        return self.v + (now - self.updated) * FINE // self.share() if self.present else 0

    def update(self, now: int) -> None:
        self.v, self.updated = self.at(now), now

    def join(self, part: Part, now: int) -> None:
        self.update(now)
        part.target = self.v + FINE * part.work
        self.present.append(part)

    def leave(self, now: int) -> list[Part]:
        """All whose target is reached now."""
        ended = [part for part in self.present if part.target <= self.at(now)]
        if ended:
            self.update(now)
            self.present = [part for part in self.present if part not in ended]
        return ended

    def ends(self) -> list[int]:
        """When those present would end if none joined or left before."""
        return [self.updated + ceil_div((part.target - self.v) * self.share(), FINE) for part in self.present]


class Ledgers:
    """What a move waits for, from all the moves before it."""

    def __init__(self, capacity: Usable) -> None:
        self.room: dict[int, list[tuple[int, Move | None]]] = {
            tier: [(limit, None)] for tier, limit in zip(TIERS, capacity, strict=True) if limit
        }
        self.moves: list[Move] = []

    def add(self, op: Op, row: Row) -> Move:
        _, _, name, key, source, target, size = row
        waits = self.data(name, key)
        move = Move(len(self.moves), op, row, waits)
        if name in ("store", "demote") and target in self.room:
            waits += self.draw(target, size)
        if name in ("demote", "promote", "drop", "delete") and source in self.room:
            self.room[source].append((size, move))
        self.moves.append(move)
        return move

    def data(self, name: str, key: int) -> list[Move]:
        if name in ("miss", "bypass"):
            return []
        hits: list[Move] = []
        for earlier in reversed(self.moves):
            if earlier.row[3] != key or earlier.name in ("miss", "bypass"):
                continue
            if earlier.name != "hit":
                return hits if hits and name != "hit" else [earlier]
            hits.append(earlier)
        assert not hits, "a hit on what nothing stored"
        return []

    def draw(self, tier: int, size: int) -> list[Move]:
        ledger, drawn = self.room[tier], list[Move]()
        while size > 0:
            entry, freed_by = ledger.pop(0)
            if freed_by is not None:
                drawn.append(freed_by)
            if entry > size:
                ledger.insert(0, (entry - size, freed_by))
            size -= min(entry, size)
        return drawn
