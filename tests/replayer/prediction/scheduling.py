"""What may run, and when ops are due: the part of the second predictor that docs/ordering.md specifies."""

from collections.abc import Callable, Sequence

from tests.replayer.arrangements.tiers import Op
from tests.replayer.order_ledgers import Load
from tests.replayer.prediction.tasks import (
    IDLE,
    LEAVES,
    Group,
    Move,
    Planned,
    Request,
    Task,
    Usable,
    is_background,
    trade_places,
)


class Scheduler:
    """Ops, moves and what they wait for; `inclusive`: several tiers may hold an object."""

    def __init__(self, ops: Sequence[Op], load: Load, capacity: Usable, inclusive: bool, live: bool) -> None:
        self.load, self.inclusive, self.live = load, inclusive, live
        self.requests = self._grouped(ops)
        self.tasks = sorted((task for one in self.requests for task in one.tasks), key=lambda task: task.row)
        self.now = 0
        self.ledgers: list[list[list[object]] | None] = [None if size is None else [[size, None]] for size in capacity]
        self.changes: dict[tuple[int, int], Move] = {}
        self.groups: dict[tuple[int, int], Group] = {}
        self.ready: list[Move] = []
        self.aside: list[Move] = []
        self.waiting: list[Task] = []  # live: due and not decided
        self.permits = load.allocs
        self.numbers = self.decided = 0
        self.decide: Callable[[Task], tuple[str, list[Planned]]] | None = None
        self.most = len(ops)  # live: no op is decided from this position on
        if live:
            self._start_requests()

    @staticmethod
    def _grouped(ops: Sequence[Op]) -> list[Request]:
        requests: dict[int, Request] = {}
        last: dict[int, Request] = {}
        for row, op in enumerate(ops):
            if op.request not in requests:
                requests[op.request] = Request([], [])
                if op.user in last:
                    last[op.user].after = requests[op.request]
                    requests[op.request].is_first = False
                last[op.user] = requests[op.request]
            request = requests[op.request]
            request.tasks.append(Task(op, row, request, op.op_id))
            request.steps.append(op.step)
        return list(requests.values())

    # When ops are due

    def in_progress(self) -> int:
        started = [one for one in self.requests if one.start is not None]
        return sum(any(task.end is None for task in one.tasks) for one in started)

    def _start_requests(self) -> None:
        """Placement is decided during the run: start the requests that may start now."""
        for request in self.requests:
            if request.start is not None:
                continue
            arrives = self.load.scaled(request.tasks[0].op.time_ns)
            if self.load.pace == "closed":
                request.start = arrives if request.is_first else None
            elif self.load.pace == "open":
                request.start = arrives
            elif self.in_progress() < self.load.workers:
                request.start = self.now
            if request.start is not None:
                self._go_on(request)

    def admit(self, task: Task, position: int, role: str, moves: Sequence[Planned]) -> None:
        """The plan brings an op."""
        request = task.request
        self._add(task, position, role, moves, self.now)
        if request.start is None:
            if self.load.pace == "asap":
                request.start = self.now
            elif self.load.pace == "open" or request.is_first:
                request.start = self.load.scaled(task.op.time_ns)
        self._go_on(request)

    def _go_on(self, request: Request) -> None:
        """Release the ops of which the request's own order allows it."""
        while request.start is not None and request.released < len(request.tasks):
            task = request.tasks[request.released]
            if not self.live and task.position < 0:
                return
            running = [one for one in request.tasks[: request.released] if one.end is None]
            if task.op.step != request.step:
                if running:
                    return
                request.due = request.start if request.released == 0 else request.end + request.wait
                request.step, request.wait, request.places, request.of_step = task.op.step, 0, [], 0
            if self.load.request_depth is not None and len(running) >= self.load.request_depth:
                return
            task.due = request.due
            if self.load.request_depth is not None and request.of_step >= self.load.request_depth:
                task.due = max(request.due, request.places.pop(0))
            request.released += 1
            request.of_step += 1
            if task.due <= self.now:
                self._become_due(task)

    def release(self) -> None:
        """Ops whose due time has come are waiting."""
        due = [task for task in self.tasks if task.due is not None and not task.is_due and task.due <= self.now]
        for task in sorted(due, key=lambda task: (task.due, task.row)):
            self._become_due(task)

    def next_due(self) -> list[int]:
        return [task.due for task in self.tasks if task.due is not None and not task.is_due]

    def _become_due(self, task: Task) -> None:
        task.is_due = True
        assert task.due is not None
        if self.live:
            self.waiting.append(task)
            return
        self._trade(task)
        for move in task.moves:
            self._pull_evictions(move, task.due)
            if move.pulled is None:
                self._unblock(move, task.due, None, None)

    def _trade(self, task: Task) -> None:
        """The op would only read what an op that is not due stores: the two trade places."""
        foreground = [move for move in task.moves if not move.background]
        if [move.name for move in foreground] != ["hit"]:
            return
        for store in foreground[0].needs:
            other = store.task
            is_ahead = not store.done and store.name == "store" and not other.is_due
            if is_ahead and other.op.session != task.op.session and task.may_trade and other.may_trade:
                trade_places(task, other)
                return

    def _pull_evictions(self, move: Move, now: int) -> None:
        """An op that is due needs the move: the evictions that it waits for do not wait for their ops."""
        if not move.blockers:
            return
        for other in reversed(move.needs):
            if other.done or other.pulled is not None or other.task.is_due or other.name not in ("demote", "drop"):
                continue
            other.pulled = now
            self._pull_evictions(other, now)
            self._unblock(other, now, None, None)

    # What a move waits for

    def _add(self, task: Task, position: int, role: str, moves: Sequence[Planned], now: int) -> None:
        task.position, task.role, task.admitted = position, role, now
        names = [planned[0] for planned in moves]
        computes = task.op.phase == "prefill" if role == "write" else role == "read" and bool({*names} & {*IDLE})
        task.wait = self.load.wait_of(task.op, computes)
        background = is_background(names)
        served: Move | None = None
        for seq, planned in enumerate(moves):
            move = Move(self.numbers, seq, task, planned, background[seq], now)
            self.numbers += 1
            task.moves.append(move)
            self._order_by_object(move)
            if move.name == "hit":
                served = move
            if move.name == "store" and served is not None and self.inclusive:
                self._wait_for(move, served, "data")
            self._order_by_room(move)

    def _wait_for(self, move: Move, blocker: Move, why: str) -> None:
        if blocker.done:
            return
        blocker.dependents.append((move, why))
        move.needs.append(blocker)
        move.blockers += 1

    def _order_by_object(self, move: Move) -> None:
        name, key, source, target, _ = move.planned
        if name in IDLE:
            return
        if not self.inclusive:
            (self._read if name == "hit" else self._change)(move, (key, 0))
            return
        if source >= 0:
            (self._read if name in ("hit", "copy") else self._change)(move, (key, source))
        if target >= 0:
            self._change(move, (key, target))

    def _read(self, move: Move, what: tuple[int, int]) -> None:
        if what in self.changes:
            self._wait_for(move, self.changes[what], "data")
        move.reads = self.groups.setdefault(what, Group())
        move.reads.left += 1

    def _change(self, move: Move, what: tuple[int, int]) -> None:
        group = self.groups.pop(what, None)
        if group is not None and group.left:
            group.waiter = move
            move.blockers += 1
        elif group is None and what in self.changes:
            self._wait_for(move, self.changes[what], "data")
        self.changes[what] = move

    def _order_by_room(self, move: Move) -> None:
        name, _, source, target, size = move.planned
        ledger = self.ledgers[target] if target >= 0 else None
        while ledger is not None and size > 0:
            entry = ledger[0]
            room, freed_by = entry
            assert isinstance(room, int)
            if isinstance(freed_by, Move):
                self._wait_for(move, freed_by, "eviction" if freed_by.task is move.task else "room")
            entry[0] = room - min(room, size)
            size -= min(room, size)
            if not entry[0]:
                ledger.pop(0)
        freed = self.ledgers[source] if source >= 0 else None
        if freed is not None and name in LEAVES:
            freed.append([move.size, move])

    def _order_wait(self, move: Move, blocker: Move) -> int:
        """The part of waiting for the blocker in which the plan's order alone was the reason."""
        if move.due is None:
            return 0
        blocker_due = -1 if blocker.due is None else blocker.due
        since = max(blocker_due, move.due)
        return since - move.due + min(blocker.order, max(0, blocker.ready - since))

    def _unblock(self, move: Move, when: int, why: str | None, blocker: Move | None) -> None:
        if when > move.ready:
            move.ready, move.waited_for = when, why
            move.order = self._order_wait(move, blocker) if blocker is not None and not self.live else 0
        move.blockers -= 1
        if not move.blockers:
            move.rank = move.task.op.qos, move.number
            self.ready.append(move)

    # Moves start and are done

    def take(self) -> Move | None:
        """The most urgent move; it may be to be set aside."""
        while True:
            m = min(self.ready, key=lambda move: move.rank, default=None)
            o = min(self.waiting, key=self._urgency, default=None) if self.decided < self.most else None
            if o is not None and (m is None or o.op.qos < m.rank[0]):
                self._decide(o)
            elif m is None:
                return None
            else:
                self.ready.remove(m)
                if m.name != "store" or self.permits is None:
                    return m
                if self.permits:
                    self.permits -= 1
                    return m
                self.aside.append(m)

    @staticmethod
    def _urgency(task: Task) -> tuple[int, int, int, int]:
        assert task.request.start is not None
        return task.op.qos, task.request.start, task.request.row, task.row

    def _decide(self, task: Task) -> None:
        assert self.decide is not None
        assert task.due is not None
        self.waiting.remove(task)
        role, moves = self.decide(task)
        self._add(task, self.decided, role, moves, task.due)
        self.decided += 1
        for move in task.moves:
            self._unblock(move, task.due, None, None)

    def give_permit(self, move: Move) -> None:
        if move.name == "store" and self.permits is not None:
            self.permits += 1
            if self.aside:
                again = min(self.aside, key=lambda one: one.rank)
                self.aside.remove(again)
                self.ready.append(again)

    def complete(self, move: Move) -> None:
        """The move is done: what waits for it may go on, and perhaps its op is done, too."""
        move.done = True
        for other, why in reversed(move.dependents):
            self._unblock(other, self.now, why, move)
        self.give_permit(move)
        if move.reads is not None:
            move.reads.left -= 1
            if not move.reads.left and move.reads.waiter is not None:
                self._unblock(move.reads.waiter, self.now, "data", move)
        task, request = move.task, move.task.request
        if move.background or task.end is not None or not all(one.done or one.background for one in task.moves):
            return
        task.end = self.now
        request.end = max(request.end, task.end)
        request.wait += task.wait
        request.places.append(task.end)
        if request.released < len(request.tasks):
            self._go_on(request)
        elif all(one.end is not None for one in request.tasks):
            self._end(request)

    def _end(self, request: Request) -> None:
        if self.live and self.load.pace == "asap":
            self._start_requests()
        after = request.after
        if self.load.pace == "closed" and after is not None:
            after.start = request.end + request.wait + self.load.scaled(after.tasks[0].op.think_ns)
            self._go_on(after)
