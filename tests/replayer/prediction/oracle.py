"""A slow, plain second predictor, written from docs/predicting.md and docs/ordering.md alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.replayer.arrangements.tiers import Op
from tests.replayer.order_ledgers import Load
from tests.replayer.prediction.scheduling import Scheduler
from tests.replayer.prediction.stations import READ, WRITE, Cpu, Drive, Tier, Visit, enter_cpu, go_on
from tests.replayer.prediction.tasks import Move, Planned, Task, Usable

TRANSFERS = ("hit", "store", "promote", "demote", "copy")
TIERS = ("gpu", "cpu", "nvme")

# Rules of placement, for a run that decides on the way: what the op is decided as, and its moves
Decide = Callable[[Op], tuple[str, list[Planned]]]


@dataclass(frozen=True)
class Decided:
    """An op of a plan."""

    row: int
    position: int
    role: str
    moves: list[Planned]


@dataclass(frozen=True)
class Limits:
    """Of a run; None: no limit."""

    chunk: int
    verify: bool = True
    window_ops: int = 4096
    window_bytes: int | None = None
    duration_ns: int | None = None
    drain_ns: int | None = None
    ops: int | None = None
    warmup_ops: int = 0
    warmup_ns: int = 0


@dataclass
class Row:
    """A row of the log."""

    op_id: int
    made_for: int
    """row of the op whose request the move belongs to"""
    position: int
    seq: int
    op: str
    move: str
    key: int
    from_tier: int
    to_tier: int
    size_bytes: int
    due_ns: int
    ready_ns: int
    window_ns: int
    order_ns: int
    waited_for: str | None
    worker: int
    start_ns: int
    end_ns: int
    read_ns: int = 0
    write_ns: int = 0
    device_read_ns: int = 0
    device_write_ns: int = 0
    verify_ns: int = 0
    warmup: bool = False


@dataclass
class State:
    """What is known of a run at its end."""

    cut_ns: int | None = None
    stopped_ns: int | None = None
    issued_ns: int = 0
    ended_ns: int = 0
    steady_ns: int | None = None
    executed: int = 0
    retired: int = 0


@dataclass
class Job:
    """A worker and its move; the next things that the move does are the last ones of `steps`."""

    worker: int
    move: Move
    row: Row
    steps: list[Callable[[int], Visit | None]] = field(default_factory=list)


class Prediction:
    """One run on the computed clock."""

    def __init__(
        self, ops: Sequence[Op], load: Load, capacity: Usable, profile: Any, limits: Limits,
        plan: Sequence[Decided] | None, decide: Decide | None, inclusive: bool = False,
    ) -> None:  # fmt: skip
        self.load, self.limits = load, limits
        self.cpu_times = profile.cpu
        self.cpu = Cpu(profile.cpu.cores)
        drives: Mapping[str, Any] = profile.tiers
        self.drives = {TIERS.index(name): Drive(TIERS.index(name), drives[name]) for name in TIERS if name in drives}
        self.places: list[Tier] = [*self.drives.values(), self.cpu]
        self.plan = None if plan is None else list(plan)[: limits.ops]
        self.scheduler = Scheduler(ops, load, capacity, inclusive, plan is None)
        if decide is not None:
            self.scheduler.decide = lambda task: decide(task.op)
            self.scheduler.most = len(ops) if limits.ops is None else min(len(ops), limits.ops)
        self.wanted = self.scheduler.most
        self.now, self.jobs = 0, dict[int, Job]()
        self.window: list[Task] = []
        self.retired: list[Task] = []
        self.rows: list[Row] = []
        self.state = State()
        self.warmup_position: int | None = None if limits.warmup_ns else limits.warmup_ops
        self.highest, self.limit = -1, -1
        self.is_cut = self.is_stopped = False

    # The clock

    def run(self) -> list[Row]:
        while True:
            self.scheduler.now = self.now
            if not self.is_over():
                self.apply_limits()
            self.end_stages()
            self.scheduler.release()
            self.admit()
            self.start_moves()
            ends = [end for place in self.places for end in place.ends()]
            if not self.jobs and self.is_over():
                return self.rows
            if self.now in ends:
                continue
            self.now = min(time for time in (*ends, *self.scheduler.next_due(), *self.next_limits()) if time > self.now)

    def next_limits(self) -> list[int]:
        found = [self.limits.warmup_ns]
        if self.limits.duration_ns is not None:
            found.append(self.limits.duration_ns)
            if self.limits.drain_ns is not None:
                found.append(self.limits.duration_ns + self.limits.drain_ns)
        return found

    def apply_limits(self) -> None:
        end = self.limits.duration_ns
        if end is not None and not self.is_cut and self.now >= end:
            self.is_cut, self.state.cut_ns, self.limit = True, self.now, self.highest
            if self.plan is None:
                self.limit = self.scheduler.decided - 1
                self.scheduler.most = 0
        drain = self.limits.drain_ns
        if end is not None and drain is not None and not self.is_stopped and self.now >= end + drain:
            self.is_stopped, self.state.stopped_ns = True, self.now
        if self.warmup_position is None and self.now >= self.limits.warmup_ns:
            self.warmup_position = self.highest + 1

    def is_over(self) -> bool:
        """Whether no more moves start."""
        if self.is_stopped:
            return True
        if self.is_cut:
            return all(task.position > self.limit for task in self.window)
        if self.window:
            return False
        return not self.plan if self.plan is not None else self.scheduler.decided >= self.wanted

    def end_stages(self) -> None:
        for visit in [visit for place in self.places for visit in place.end_stages(self.now)]:
            go_on(visit, self.now)
            if visit.stage is None:
                self.account(visit)
                self.go_on(self.jobs[visit.worker])

    # The window

    def admit(self) -> None:
        while self.plan and self.has_room():
            one = self.plan.pop(0)
            task = self.scheduler.tasks[one.row]
            self.scheduler.admit(task, one.position, one.role, one.moves)
            self.window.append(task)

    def has_room(self) -> bool:
        if not self.window:
            return True
        written = sum(move.size for task in self.window for move in task.moves if move.planned[3] >= 0)
        most = self.limits.window_bytes
        return not self.is_cut and len(self.window) < self.limits.window_ops and (most is None or written < most)

    def retire(self) -> None:
        self.window.sort(key=lambda task: task.position)
        while self.window and all(move.done for move in self.window[0].moves):
            self.retired.append(self.window.pop(0))
            self.state.executed = self.retired[-1].position + 1
            self.state.retired += 1

    # Moves

    def start_moves(self) -> None:
        while not self.is_over() and len(self.jobs) < self.load.workers:
            decided = self.scheduler.decided
            move = self.scheduler.take()
            if self.plan is None:  # what was decided is in the window; its size does not matter
                new = [task for task in self.scheduler.tasks if task.position >= decided]
                self.window += sorted(new, key=lambda task: task.position)
            if move is None:
                return
            position = move.task.position
            if self.is_cut and position > self.limit:
                self.scheduler.give_permit(move)
                continue
            if move.pulled is None:
                self.highest = max(self.highest, position)
            self.start(move)
            self.admit()

    def start(self, move: Move) -> None:
        worker = min(set(range(self.load.workers)) - set(self.jobs))
        job = Job(worker, move, self.row_of(move, worker))
        job.steps = self.steps(job)[::-1]
        self.jobs[worker] = job
        self.go_on(job)

    def row_of(self, move: Move, worker: int) -> Row:
        task, due = move.task, move.due
        assert due is not None
        wait = move.ready - due
        outside = min(max(0, task.admitted - due), wait)
        name, key, source, target, size = move.planned
        return Row(
            move.op_id, task.row, task.position, move.seq, task.role, name, key, source, target, size, due, move.ready, outside,
            min(move.order, wait - outside), move.waited_for, worker, self.now, -1,
        )  # fmt: skip

    def steps(self, job: Job) -> list[Callable[[int], Visit | None]]:
        """What a move does, in order: visits, and being done."""
        move, worker = job.move, job.worker
        name, _, source, target, size = move.planned
        early = size
        if name == "hit":
            early = self.limits.chunk * ((size - 1) // self.limits.chunk)
        check = float(self.cpu_times.check_ns_per_byte) if self.limits.verify else 0.0

        def work(nanoseconds: float, what: str) -> Callable[[int], Visit | None]:
            return lambda now: enter_cpu(self.cpu, move, worker, nanoseconds, what, now)

        def visit(tier: int, direction: int, amount: int | None) -> Callable[[int], Visit | None]:
            return lambda now: self.drives[tier].enter(direction, move, worker, amount, now, self.limits.chunk)

        steps: list[Callable[[int], Visit | None]] = []
        if name == "store":
            steps.append(work(size * self.cpu_times.make_ns_per_byte, "verify"))
        if name in TRANSFERS and source >= 0:
            steps += [visit(source, READ, size), work(early * check, "verify")]
        if name in TRANSFERS and target >= 0:
            steps.append(visit(target, WRITE, size))
        if name in ("demote", "promote", "drop", "delete") and source >= 0:
            steps.append(visit(source, WRITE, None))
        steps.append(lambda now: self.be_done(job, now))
        if name == "hit":
            steps.append(work((size - early) * check, "verify"))
        steps.append(work(1000.0 * self.cpu_times.move_us, "keep"))
        return steps

    def go_on(self, job: Job) -> None:
        """Enter the next station, or be over."""
        while job.steps:
            if job.steps.pop()(self.now) is not None:
                return
        del self.jobs[job.worker]
        self.log(job.row)

    def be_done(self, job: Job, now: int) -> None:
        row = job.row
        row.end_ns = row.start_ns if row.move in ("miss", "bypass") else now - row.verify_ns
        self.scheduler.complete(job.move)
        self.retire()

    def account(self, visit: Visit) -> None:
        """Add the time of a visit that has ended to its move's row."""
        row, spent = self.jobs[visit.worker].row, self.now - visit.entered
        device = spent if visit.opened is None else self.now - visit.opened
        if visit.what == "read":
            row.read_ns, row.device_read_ns = spent, device
        elif visit.what == "write":
            row.write_ns, row.device_write_ns = spent, device
        elif visit.what == "verify":
            row.verify_ns += spent

    def log(self, row: Row) -> None:
        row.warmup = self.warmup_position is None or row.position < self.warmup_position
        state = self.state
        state.issued_ns, state.ended_ns = max(state.issued_ns, row.start_ns), max(state.ended_ns, row.end_ns)
        if not row.warmup:
            state.steady_ns = row.start_ns if state.steady_ns is None else min(state.steady_ns, row.start_ns)
        self.rows.append(row)


def predict(
    ops: Sequence[Op], load: Load, capacity: Usable, profile: Any, limits: Limits, plan: Sequence[Decided] | None = None,
    decide: Decide | None = None, inclusive: bool = False,
) -> Prediction:  # fmt: skip
    """The prediction of a plan, or (`decide`) of a run that decides placement on the way, at its end."""
    prediction = Prediction(ops, load, capacity, profile, limits, plan, decide, inclusive)
    if ops:
        prediction.run()
    return prediction
