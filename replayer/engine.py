"""Executes a plan: real tiers, real concurrency, one record per move.

Workers are threads that take the most urgent ready moves; the interpreter's lock is free during system calls, memory
copies and verification, where the time goes. A feeder thread plans ahead; the main thread writes the log and shows
progress.
"""

import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

from replayer.execution import OK, UPSTREAM, Executor, Outcome, Staging
from replayer.feed import Feed, Stretch
from replayer.ordering import Move, Op, Ordering
from replayer.pacing import Pacer

RECORD: Final = (
    "index", "status", "due_ns", "ready_ns", "start_ns", "end_ns", "read_ns", "write_ns", "device_read_ns",
    "device_write_ns", "verify_ns", "worker", "warmup",
)  # fmt: skip
"""What a worker notes of a move; the rest of a row is the plan's."""

ADMIT_OPS: Final = 64  # at once, as the others wait meanwhile
BATCH_MOVES: Final = 16
BATCH_BYTES: Final = 256 << 10
BATCH_NS: Final = 1_000_000
SWITCH_S: Final = 5e-4  # so long a thread that plans or logs may keep one that is due from the interpreter
_FAR: Final = 1 << 62

Records = Any  # array of int64, as many per move as RECORD names (array.array takes no parameter at run time)
Flush = Callable[[Records, dict[int, str]], None]


@dataclass(frozen=True)
class Window:
    """How far the plan runs ahead of the lowest unfinished op: no op is admitted beyond either limit.

    Attributes:
        ops: admitted and not done.
        bytes: that their moves write.
    """

    ops: int = 4096
    bytes: int = 256 << 30


@dataclass(frozen=True)
class Span:
    """How much of the plan is executed, and from where on it counts.

    Attributes:
        duration_s: after so long nothing past the highest op already issued starts; None: the plan's end.
        warmup_ops: ops below this one are warm-up.
        warmup_s: so are ops up to the highest issued by then.
        max_errors: more failed moves end the run.
    """

    duration_s: float | None = None
    warmup_ops: int = 0
    warmup_s: float = 0
    max_errors: int = 100


class TooManyErrorsError(Exception):
    """The budget of failed moves is used up."""


class Engine:
    """One execution of a plan.

    Args:
        plan: ops and their moves, in stretches; iterated in a thread of its own.
        ordering, pacer: what says when they may run; the pacer lets go ops of the ordering.
        executor: carries out the moves.
        staging: makes a worker's buffers.

    Attributes:
        retired: how many ops of the plan are done, all before them included.
        executed_ops: all op_ids below this one are done.
        warmup_ops: ops below this one are warm-up, once known.
        issued_ns, ended_ns, steady_ns: when the last move was started, the last ended, the first past the warm-up was
            started.
        began_ns: perf_counter_ns() at time 0.
    """

    def __init__(
        self,
        plan: Iterator[Stretch],
        ordering: Ordering,
        pacer: Pacer,
        executor: Executor,
        staging: Callable[[int], Staging],
        window: Window,
        span: Span,
    ) -> None:
        self._executor, self._staging, self._limits, self._span = executor, staging, window, span
        self._ordering, self._pacer, self._window = ordering, pacer, deque[Op]()
        self._feed = Feed(plan, self._planned_more, self._end_with)
        self._window_bytes, self._stopping = 0, False
        self._records, self._errors, self.failures = array("q"), dict[int, str](), 0
        self._crash: BaseException | None = None
        lock = threading.Lock()
        self._work_ready, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._timer, self._timer_due, self._idle, self._workers = threading.Condition(lock), _FAR, 0, 0
        self._limit = self._highest = -1  # op_ids: where the run is cut, and what was issued
        self.warmup_ops = span.warmup_ops if not span.warmup_s else _FAR
        self.began_ns = self.issued_ns = self.ended_ns = self.steady_ns = self.retired = self.executed_ops = 0

    def run(self, workers: int, flush: Flush, every_s: float = 0.5) -> None:
        """Execute to the end with so many workers; `flush` gets the records since its last call, in this thread.

        Raises:
            TooManyErrorsError: more moves failed than the budget allows; those in flight have been finished.
            KeyboardInterrupt: after the moves in flight have been finished.
        """
        self._workers = workers
        threads = [
            threading.Thread(target=self._work, args=(number, self._staging(number))) for number in range(workers)
        ]
        started, interval = [], sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._feed.start()
        try:
            with self._work_ready:
                self._prefill()
            self.began_ns = perf_counter_ns()
            for thread in threads:
                thread.start()
                started.append(thread)
            while not self._wait(every_s):
                flush(*self._take_records())
        finally:
            with self._ended:
                self._stopping = True
                self._wake_all()
            self._feed.stop()
            for thread in started:
                thread.join()
            sys.setswitchinterval(interval)
            flush(*self._take_records())
        if self._crash is not None:
            raise self._crash

    def _wait(self, every_s: float) -> bool:
        """Wait so long, or less if something is to be done; returns whether the run is over."""
        with self._ended:
            now_s = self._now() / 1e9
            if self._span.duration_s is not None and self._limit < 0:
                if now_s >= self._span.duration_s:
                    self._limit = max(self._highest, 0)
                    self._wake_all()
                else:
                    every_s = min(every_s, self._span.duration_s - now_s)
            if self.warmup_ops == _FAR:
                if now_s >= self._span.warmup_s:
                    self.warmup_ops = self._highest + 1
                else:
                    every_s = min(every_s, self._span.warmup_s - now_s)
            return self._ended.wait_for(self._is_over, every_s)

    def _wake_all(self) -> None:
        for condition in (self._ended, self._work_ready, self._timer):
            condition.notify_all()

    def _take_records(self) -> tuple[Records, dict[int, str]]:
        with self._ended:
            records, self._records = self._records, array("q")
            errors, self._errors = self._errors, {}
        return records, errors

    @property
    def cut(self) -> bool:
        """Whether the run was cut at its duration."""
        return self._limit >= 0

    @property
    def finished(self) -> bool:
        """Whether every op that is to be executed is done."""
        if self._window:
            return self.cut and self._window[0].op_id > self._limit
        return self._feed.exhausted or self.cut

    def _is_over(self) -> bool:
        return self._stopping or self.finished

    def _now(self) -> int:
        return perf_counter_ns() - self.began_ns

    def _planned_more(self) -> None:
        with self._work_ready:
            self._work_ready.notify()
            self._timer.notify()

    def _end_with(self, error: BaseException) -> None:
        with self._ended:
            self._crash, self._stopping = self._crash or error, True
            self._wake_all()

    def _work(self, worker: int, staging: Staging) -> None:
        try:
            run, began = self._executor.run, self.began_ns
            done: list[tuple[Move, int, Outcome]] = []
            per_move_ns = BATCH_NS
            while batch := self._exchange(done, worker, BATCH_NS // per_move_ns):
                done = []
                first = perf_counter_ns()
                for move in batch:
                    outcome = run(move, staging)
                    done.append((move, outcome.end_ns - began, outcome))
                per_move_ns = max(1000, (perf_counter_ns() - first) // len(batch))
        except BaseException as error:  # noqa: BLE001 (a dead worker ends the run; the main thread raises what killed it)
            self._end_with(error)

    def _exchange(self, done: list[tuple[Move, int, Outcome]], worker: int, most: int) -> list[Move]:
        """Hand in moves that are done, get the next ones to run; waits for some, none at the end."""
        with self._work_ready:
            if done:
                self._complete(done, worker)
            while not self._is_over():
                more = self._admit(ADMIT_OPS)
                self._pacer.release(self._now())
                if batch := self._take(most):
                    if not all(map(self._executor.is_quick, batch)):
                        self._wake()
                    return batch
                if not more and not self._is_over():
                    self._sleep()
            self._wake_all()
            return []

    def _wake(self) -> None:
        """Pass on what this worker leaves: a ready move to one that waits for work, else the clock to watch.

        Not where it is back before another thread would have woken up.
        """
        if self._ordering.ready():
            if self._idle:
                self._work_ready.notify()
            elif self._timer_due != _FAR:
                self._timer.notify()
        elif (due := self._pacer.next_due()) is not None and due < self._timer_due:
            if self._timer_due != _FAR:
                self._timer.notify()
            elif self._idle:
                self._work_ready.notify()

    def _sleep(self) -> None:
        """Wait for work. One of those who wait watches the clock for ops that will be due."""
        due = self._pacer.next_due()
        if due is None or due >= self._timer_due:
            self._idle += 1
            self._work_ready.wait()
            self._idle -= 1
            return
        if self._timer_due != _FAR:  # another watches a later time: let it work, and watch this one
            self._timer.notify()
        self._timer_due = due
        self._timer.wait(max(0, due - self._now()) / 1e9)
        if self._timer_due == due:
            self._timer_due = _FAR

    def _take(self, most: int) -> list[Move]:
        """The most urgent moves; several only where they are small, quick, and more than the workers can start."""
        batch: list[Move] = []
        room, most = BATCH_BYTES, min(most, BATCH_MOVES, self._ordering.ready() // self._workers)
        if self._ordering.permits_are_few:  # held during I/O, not while a batch waits
            most = 1
        while (move := self._ordering.take()) is not None:
            op_id = move.op.op_id
            if self._limit >= 0 and op_id > self._limit:
                continue  # past the cut: what is after it is dropped
            self._highest = max(self._highest, op_id)
            batch.append(move)
            room -= move.size
            if len(batch) >= most or room <= 0:
                break
        return batch

    def _prefill(self) -> None:
        """Fill the window before the clock starts."""
        while self._has_room() and not self._feed.exhausted and not self._stopping:
            if not self._admit(self._limits.ops):
                self._work_ready.wait(0.1)

    def _has_room(self) -> bool:
        """Whether the window takes one more op; the lowest unfinished op is always in it."""
        return not self._window or (
            len(self._window) < self._limits.ops and self._window_bytes < self._limits.bytes and not self.cut
        )

    def _admit(self, most: int) -> bool:
        """Take so many ops at most into the window; returns whether more could be taken at once."""
        now = self._now() if self.began_ns else 0
        for _ in range(most):
            if not self._has_room() or (planned := self._feed.take()) is None:
                return False
            op, moves = planned
            self._window.append(op)
            for move in moves:
                if move.to_tier >= 0:
                    self._window_bytes += move.size
            self._ordering.admit(op, moves, now)
            self._pacer.admit(op, now)
        return True

    def _complete(self, done: list[tuple[Move, int, Outcome]], worker: int) -> None:
        now, retire = self._now(), False
        for move, end, outcome in done:
            op, start = move.op, outcome.start_ns - self.began_ns
            warm = op.op_id < self.warmup_ops
            self._records.extend((
                move.index, outcome.status, op.due_ns, move.ready_ns, start, end,
                outcome.read_ns, outcome.write_ns, outcome.device_read_ns, outcome.device_write_ns, outcome.verify_ns,
                worker, warm,
            ))  # fmt: skip
            self.issued_ns = max(self.issued_ns, start)
            self.ended_ns = max(self.ended_ns, end)
            if not warm and (not self.steady_ns or start < self.steady_ns):
                self.steady_ns = start
            if outcome.status != OK:
                self._note_failure(move, outcome)
            if self._ordering.complete(move, end):
                self._pacer.complete(op, now)
                retire = True
        if retire:
            self._retire()

    def _note_failure(self, move: Move, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._errors[move.index] = outcome.error
        self.failures += outcome.status != UPSTREAM
        if self.failures > self._span.max_errors and not self._stopping:
            self._crash = TooManyErrorsError(
                f"{self.failures:,} moves failed, more than --max-errors {self._span.max_errors}"
            )
            self._stopping = True
            self._wake_all()

    def _retire(self) -> None:
        """Move the window past the ops that are done."""
        while self._window and not self._window[0].left:
            op = self._window.popleft()
            for move in op.moves:
                if move.to_tier >= 0:
                    self._window_bytes -= move.size
            self.retired += 1
            self.executed_ops = op.op_id + 1
            op.moves = []  # they point back at it: nothing should wait for the cycle collector
