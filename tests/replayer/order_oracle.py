"""A slow, plain second implementation of the reference order, written from docs/ordering.md and waterfall.md alone."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.replayer.waterfall_oracle import CACHES, CODES, TIERS, Cache, Row, Usable

SECOND, FINE = 10**9, 1024  # ns in a second; V counts 1/1024 ns


@dataclass(frozen=True)
class Op:
    """A row of the trace, among those that are taken."""

    op_id: int
    op: str  # write, read, delete
    key: int
    size: int
    phase: str
    request: int
    user: int
    qos: int
    step: int
    time_ns: int
    think_ns: int
    new_tokens: int
    tokens: int


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


class Simulation:
    """The virtual clock, and all that hangs on it."""

    def __init__(
        self,
        ops: Sequence[Op],
        cache: Cache,
        load: Load,
        devices: tuple[Device, Device, Device],
        promote: bool,
        lookup: str,
        capacity: Usable,
    ) -> None:
        self.load, self.devices, self.promote, self.lookup = load, devices, promote, lookup
        self.tasks = [Task(op, row) for row, op in enumerate(ops)]
        self.request_of = self.grouped()
        self.requests = list(self.request_of.values())
        self.cache, self.broken = cache, set[int]()
        self.unwritten = {op.key for op in ops if op.op == "write"}
        self.ledgers = Ledgers(capacity)
        self.unstarted: list[Move] = []
        self.aside: list[Move] = []
        self.under_way: list[Move] = []
        self.permits = load.allocs
        self.tiers = [Tier(device.streams) for device in devices]
        self.latencies: list[Part] = []
        self.order: list[int] = []

    # When ops are due

    def grouped(self) -> dict[int, Request]:
        """The requests by their ids, in the order of their first rows."""
        requests: dict[int, Request] = {}
        last: dict[int, Request] = {}  # user -> request
        for task in self.tasks:
            op = task.op
            if op.request not in requests:
                requests[op.request] = last[op.user] = Request([[task]], last.get(op.user))
            elif requests[op.request].steps[-1][-1].op.step == op.step:
                requests[op.request].steps[-1].append(task)
            else:
                requests[op.request].steps.append([task])
        return requests

    def scaled(self, nanoseconds: int) -> int:
        return int(float(nanoseconds) / float(self.load.speedup))

    def start_of(self, request: Request, now: int) -> int | None:
        first, before = request.first, request.before
        if self.load.pace == "asap":
            in_progress = [one for one in self.requests if one.start is not None and one.begun < len(one.steps)]
            return now if len(in_progress) < self.load.workers else None
        if self.load.pace == "open" or before is None:
            return self.scaled(first.op.time_ns)
        return None if before.over is None else before.over + self.scaled(first.op.think_ns)

    def wait_of(self, op: Op, kind: str, first_move: str) -> int:
        computes = op.phase == "prefill" if kind == "write" else kind == "read" and first_move in ("miss", "bypass")
        wait = float(op.new_tokens) * (self.load.token_ms * 1e6)
        if self.load.prefill_tok_s is not None:
            wait += float(op.tokens if computes else 0) * (1e9 / self.load.prefill_tok_s)
        return int(wait)

    def let_go(self, request: Request) -> None:
        """Those ops of the step under way whose due time is known."""
        step = request.steps[request.begun]
        depth = len(step) if self.load.request_depth is None else self.load.request_depth
        freed = sorted(task.end for task in step if task.end is not None)
        for i, task in enumerate(step):
            if task.due is None and i < depth:
                task.due = request.due
            elif task.due is None and i - depth < len(freed):
                task.due = max(request.due, freed[i - depth])

    def go_on(self, request: Request) -> None:
        """Ends the step under way if its ops are done."""
        step = request.steps[request.begun]
        if all(task.end is not None for task in step):
            so_far = [task for earlier in request.steps[: request.begun + 1] for task in earlier]
            latest = max(task.end for task in so_far if task.end is not None)
            request.due = latest + sum(task.wait for task in step)
            request.begun += 1
        if request.begun == len(request.steps):
            request.over = request.due
        else:
            self.let_go(request)

    def follow(self, now: int) -> None:
        """What follows from moves that are done: ops done, steps and requests due."""
        for task in self.tasks:
            if task.end is None and task.moves is not None and all(move.end is not None for move in task.moves):
                task.end = now
        for request in self.requests:
            if request.over is not None:
                continue
            if request.start is None:
                request.start = self.start_of(request, now)
                request.due = -1 if request.start is None else request.start
            if request.start is not None:
                self.go_on(request)

    # The virtual clock

    def run(self) -> Result:
        now = 0
        self.follow(now)
        while True:
            self.end_transfers(now)
            while len(self.under_way) < self.load.workers and self.choose(now):
                pass
            if all(task.end is not None for task in self.tasks):
                return self.result()
            now = self.next_time(now)

    def end_transfers(self, now: int) -> None:
        ended = [part for tier in self.tiers for part in tier.leave(now)]
        for part in ended:
            self.next_part(part.move, now)
        self.join(now)
        if ended:
            self.follow(now)

    def join(self, now: int) -> None:
        for part in [part for part in self.latencies if part.joins == now]:
            self.latencies.remove(part)
            self.tiers[part.tier].join(part, now)

    def next_part(self, move: Move, now: int) -> None:
        if move.parts:
            part = move.parts.pop(0)
            part.joins = now + part.latency
            self.latencies.append(part)
            return
        move.end = now
        self.under_way.remove(move)
        if move.name == "store" and self.permits is not None:
            self.permits += 1
            if self.aside:
                again = min(self.aside, key=lambda move: move.rank)
                self.aside.remove(again)
                self.unstarted.append(again)

    def first_row(self, task: Task) -> int:
        """The first row of the task's request."""
        return min(other.row for other in self.tasks if other.op.request == task.op.request)

    def start_time(self, task: Task) -> int:
        start = self.request_of[task.op.request].start
        assert start is not None
        return start

    def choose(self, now: int) -> bool:
        """Whether there was anything to choose."""
        ready = [move for move in self.unstarted if all(other.end is not None for other in move.waits)]
        waiting = [task for task in self.tasks if task.moves is None and task.due is not None and task.due <= now]
        m = min(ready, key=lambda move: move.rank, default=None)
        o = min(
            waiting, key=lambda task: (task.op.qos, self.start_time(task), self.first_row(task), task.row), default=None
        )
        if o is not None and (m is None or o.op.qos < m.op.qos):
            self.decide(o)
        elif m is not None:
            self.start(m, now)
        else:
            return False
        return True

    def start(self, move: Move, now: int) -> None:
        self.unstarted.remove(move)
        if move.name == "store" and self.permits is not None:
            if self.permits == 0:
                self.aside.append(move)
                return
            self.permits -= 1
        move.start = now
        move.parts = self.parts(move)
        self.under_way.append(move)
        self.next_part(move, now)
        self.join(now)
        if move.end is not None:
            self.follow(now)

    def next_time(self, now: int) -> int:
        times = [end for tier in self.tiers for end in tier.ends()]
        times += [part.joins for part in self.latencies]
        assert all(time > now for time in times)
        times += [task.due for task in self.tasks if task.due is not None and task.due > now]
        return min(times)

    # Who writes first, and the waterfall

    def kind(self, op: Op) -> str:
        """What the op is decided as."""
        if op.op == "delete":
            return "delete"
        if op.key in self.unwritten:
            self.unwritten.remove(op.key)
            return "write"
        return "read"

    def decide(self, task: Task) -> None:
        op, before = task.op, len(self.cache.rows)
        self.cache.begin(len(self.order))
        self.order.append(op.op_id)
        kind, breaks = self.kind(op), False
        if kind == "write":
            self.cache.store(op.key, op.size)
            breaks = True
        elif kind == "read":
            broken = self.lookup == "contiguous" and op.phase == "prefill" and op.request in self.broken
            breaks = self.cache.read(op.key, op.size, self.promote, broken)
        else:
            self.cache.delete(op.key, op.size)
        if breaks and op.phase == "prefill":
            self.broken.add(op.request)
        self.cache.check()
        rows = [(op.op_id, *row[1:]) for row in self.cache.rows[before:]]
        task.moves = [self.ledgers.add(op, row) for row in rows]
        task.wait = self.wait_of(op, kind, rows[0][2])
        self.unstarted += task.moves

    # How long a move takes

    def parts(self, move: Move) -> list[Part]:
        _, _, name, _, source, target, size = move.row
        parts = []
        if name in ("hit", "promote", "demote"):
            device = self.devices[source]
            parts.append(Part(move, source, device.read_latency_ns, work(size, device.read_bytes_per_s)))
        if name in ("store", "demote"):
            device = self.devices[target]
            parts.append(Part(move, target, device.write_latency_ns, work(size, device.write_bytes_per_s)))
        return parts

    def result(self) -> Result:
        result = Result(self.order, [move.row for move in self.ledgers.moves])
        for move in self.ledgers.moves:
            assert move.start is not None
            assert move.end is not None
            result.spans[move.number] = (move.start, move.end)
        for request in self.requests:
            assert request.over is not None
            result.over[request.first.op.request] = request.over
        return result


def work(size: int, bytes_per_s: int) -> int:
    return max(1, ceil_div(size * SECOND, bytes_per_s))


def simulate(
    ops: Sequence[Op],
    usable: Usable,
    load: Load,
    devices: tuple[Device, Device, Device],
    promote: bool = False,
    lookup: str = "independent",
    capacity: Usable | None = None,
    arrangement: str = "waterfall",
) -> Result:
    """The reference order of the ops, its plan, and when each move ran; `capacity`: where it is more than `usable`."""
    if not ops:
        return Result()
    return Simulation(ops, CACHES[arrangement](usable), load, devices, promote, lookup, capacity or usable).run()


def fingerprint(rows: Iterable[Row]) -> str:
    """SHA-256 of the version, 2, and the rows, seven little-endian int64 each."""
    digest = hashlib.sha256((2).to_bytes(8, "little", signed=True))
    for op_id, seq, move, key, source, target, size in rows:
        for number in (op_id, seq, CODES[move], key, source, target, size):
            digest.update(number.to_bytes(8, "little", signed=True))
    return digest.hexdigest()
