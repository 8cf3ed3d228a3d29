"""A slow, plain second implementation of the reference order, written from docs/ordering.md and waterfall.md alone."""

from collections.abc import Sequence

from tests.replayer.arrangements.oracle import Planner
from tests.replayer.arrangements.tiers import Op, Table, Usable
from tests.replayer.order_ledgers import Device, Ledgers, Load, Move, Part, Request, Result, Task, Tier, ceil_div

SECOND, FINE = 10**9, 1024  # ns in a second; V counts 1/1024 ns


class Simulation:
    """The virtual clock, and all that hangs on it."""

    def __init__(
        self,
        ops: Sequence[Op],
        rules: Planner,
        load: Load,
        devices: tuple[Device, Device, Device],
        capacity: Usable,
    ) -> None:
        self.load, self.devices = load, devices
        self.tasks = [Task(op, row) for row, op in enumerate(ops)]
        self.request_of = self.grouped()
        self.requests = list(self.request_of.values())
        self.rules = rules
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

    def start_of(self, request: Request, now: int) -> int | None:
        first, before = request.first, request.before
        if self.load.pace == "asap":
            in_progress = [one for one in self.requests if one.start is not None and one.begun < len(one.steps)]
            return now if len(in_progress) < self.load.workers else None
        if self.load.pace == "open" or before is None:
            return self.load.scaled(first.op.time_ns)
        return None if before.over is None else before.over + self.load.scaled(first.op.think_ns)

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

    def decide(self, task: Task) -> None:
        op, before = task.op, len(self.rules.rows)
        is_first = op.name != "delete" and op.key in self.rules.unwritten  # who comes first writes
        self.rules.decide(op)
        self.order.append(op.op_id)
        rows = self.rules.rows[before:]
        task.moves = [self.ledgers.add(op, row) for row in rows]
        computes = op.phase == "prefill" if is_first else rows[0][2] in ("miss", "bypass")
        task.wait = self.load.wait_of(op, computes)
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
    table: Table | None = None,
    token_bytes: int = 1,
    capacity: Usable | None = None,
) -> Result:
    """The reference order of the ops, its plan, and when each move ran; `capacity`: where it is more than `usable`."""
    if not ops:
        return Result()
    rules = Planner(ops, table or {}, usable, token_bytes, chained=False)
    return Simulation(ops, rules, load, devices, capacity or usable).run()
