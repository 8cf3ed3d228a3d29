"""Executes a plan: real tiers, real concurrency, one record per move.

Workers are threads that take the most urgent ready moves; the interpreter's lock is free during system calls, memory
copies and verification, where the time goes. A feeder thread plans ahead; the main thread writes the log and shows
progress.
"""

import gc
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any, Final

from replayer.execution import OK, UPSTREAM, Executor, Outcome, Staging
from replayer.feed import Feed, Stretch, Window
from replayer.ordering import Move, Op, Ordering
from replayer.pacing import Pacer, Span

RECORD: Final = (
    "index", "status", "due_ns", "ready_ns", "start_ns", "end_ns", "read_ns", "write_ns", "device_read_ns",
    "device_write_ns", "verify_ns", "worker", "warmup",
)  # fmt: skip
"""What a worker notes of a move; the rest of a row is the plan's."""

ADMIT_OPS: Final = 64  # at once, as the others wait meanwhile
DEAL_MOVES: Final = 64
DEAL_NS: Final = 1_000_000
POLL_S: Final = 0.05
SWITCH_S: Final = 5e-4  # so long a thread that plans or logs may keep one that is due from the interpreter
_FAR: Final = 1 << 62

Records = Any  # array of int64, as many per move as RECORD names (array.array takes no parameter at run time)
Flush = Callable[[Records, dict[int, str]], None]


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
        over: nothing more is started; set under the lock, read without.
        retired: how many ops of the plan are done, all before them included.
        executed_ops: all op_ids below this one are done.
        warmup_ops: ops below this one are warm-up, once known.
        issued_ns, ended_ns, steady_ns: when the last move was started, the last ended, the first past the warm-up was
            started.
        began_ns: perf_counter_ns() at time 0.
        cut, cut_ns: whether the run was cut at its duration, and when.
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
        self._window_bytes, self._stopping, self.over = 0, False, False
        self._records, self._errors, self.failures = array("q"), dict[int, str](), 0
        self._crash: BaseException | None = None
        self._dealt, self._done, self._move_ns = deque[Move](), deque[tuple[Move, Outcome, int]](), DEAL_NS
        self._lock = threading.Lock()
        self._work_ready, self._ended, self._timer = (threading.Condition(self._lock) for _ in range(3))
        self._timer_due, self._idle, self._workers = _FAR, 0, 0
        self.cut, self.cut_ns, self._limit, self._highest = (
            False,
            0,
            -1,
            -1,
        )  # op_ids: where it is cut, and what was issued
        self.warmup_ops = span.warmup_ops if not span.warmup_s else _FAR
        self.began_ns = self.issued_ns = self.ended_ns = self.steady_ns = self.retired = self.executed_ops = 0

    def run(self, workers: int, flush: Flush, poll: Callable[[], None] = lambda: None, every_s: float = 0.05) -> None:
        """Execute to the end with so many workers; `flush` gets the records since its last call, in this thread.

        Raises:
            TooManyErrorsError: more moves failed than the budget allows; those in flight have been finished.
            KeyboardInterrupt: what `poll`, called often, raised, after the moves in flight have been finished; so with
                any other.
        """
        self._workers = workers
        threads = [
            threading.Thread(target=self._work, args=(number, self._staging(number))) for number in range(workers)
        ]
        started, interval = [], sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        gc.disable()  # it would stop all for as long as it looks through the window; what is done leaves no cycles
        self._feed.start()
        try:
            with self._work_ready:
                self._prefill()
            self.began_ns = perf_counter_ns()
            for thread in threads:
                thread.start()
                started.append(thread)
            flushed = perf_counter_ns()
            while not self._wait(min(POLL_S, every_s)):
                poll()
                if perf_counter_ns() - flushed >= every_s * 1e9:
                    flush(*self._take_records())
                    flushed = perf_counter_ns()
        finally:
            with self._ended:
                self._stopping = self.over = True
                self._wake_all()
            self._feed.stop()
            for thread in started:
                thread.join()
            sys.setswitchinterval(interval)
            gc.enable()
            with self._ended:
                self._complete()
            flush(*self._take_records())
        if self._crash is not None:
            raise self._crash

    def _wait(self, every_s: float) -> bool:
        """Wait so long, or less if something is to be done; returns whether the run is over."""
        with self._ended:
            now = self._now()
            self._mark(now)
            for mark_s in (self._span.duration_s or 0, self._span.warmup_s):
                if mark_s * 1e9 > now:
                    every_s = min(every_s, mark_s - now / 1e9)
            return self._ended.wait_for(self._is_over, every_s)

    def _mark(self, now_ns: int) -> None:
        """Cut the run and end the warm-up when it is time; not in one thread alone, as logs may be slow to write."""
        if self._span.duration_s is not None and not self.cut and now_ns >= self._span.duration_s * 1e9:
            self._limit, self.cut, self.cut_ns = self._highest, True, now_ns
            self._wake_all()
        if self.warmup_ops == _FAR and now_ns >= self._span.warmup_s * 1e9:
            self.warmup_ops = self._highest + 1

    def _wake_all(self) -> None:
        for condition in (self._ended, self._work_ready, self._timer):
            condition.notify_all()

    def _take_records(self) -> tuple[Records, dict[int, str]]:
        with self._ended:
            records, self._records = self._records, array("q")
            errors, self._errors = self._errors, {}
        return records, errors

    @property
    def finished(self) -> bool:
        """Whether every op that is to be executed is done."""
        if self._window:
            return self.cut and self._window[0].op_id > self._limit
        return self._feed.exhausted or self.cut

    def _is_over(self) -> bool:
        self.over = self._stopping or self.finished
        return self.over

    def _now(self) -> int:
        return perf_counter_ns() - self.began_ns

    def _planned_more(self) -> None:
        with self._work_ready:
            self._work_ready.notify()
            self._timer.notify()

    def _end_with(self, error: BaseException) -> None:
        with self._ended:
            self._crash, self._stopping, self.over = self._crash or error, True, True
            self._wake_all()

    def _work(self, worker: int, staging: Staging) -> None:
        try:
            run = self._executor.run
            while (move := self._next()) is not None:
                self._done.append((move, run(move, staging), worker))
        except BaseException as error:  # noqa: BLE001 (a dead worker ends the run; the main thread raises what killed it)
            self._end_with(error)

    def _next(self) -> Move | None:
        """The next move to run; waits for one, None at the end.

        Moves are dealt a few ahead, so that workers need not queue for the lock that guards what decides them: whoever
        finds few left deals anew, the others go on meanwhile.
        """
        while not self.over:
            if len(self._dealt) < self._workers and self._lock.acquire(blocking=not self._dealt):
                try:
                    self._deal()
                finally:
                    self._lock.release()
                if self._done and len(self._dealt) < self._workers:
                    continue  # handed in meanwhile by one who found the lock taken
            try:
                return self._dealt.popleft()
            except IndexError:  # others were faster
                continue
        return None

    def _deal(self) -> None:
        """Hand in what is done, deal what is ready; waits for something to deal, or the end."""
        while not self._is_over():
            self._complete()
            if self._is_over():
                break
            now = self._now()
            self._mark(now)
            more = self._admit(ADMIT_OPS)
            self._pacer.release(now)
            self._take()
            if self._dealt:
                self._wake()
                return
            if not more and not self._is_over():
                self._sleep()
        self._wake_all()

    def _take(self) -> None:
        """Deal the most urgent moves: as many as the workers do in a millisecond, one if they are slower."""
        target = min(DEAL_MOVES, DEAL_NS * self._workers // self._move_ns)
        if self._ordering.permits_are_few:  # a permit is held during I/O, not while a move is dealt
            target = 1
        while len(self._dealt) < max(1, target) and (move := self._ordering.take()) is not None:
            op_id = move.op.op_id
            if self.cut and op_id > self._limit:
                self._ordering.give_back(move)
                continue
            self._highest = max(self._highest, op_id)
            self._dealt.append(move)

    def _wake(self) -> None:
        """Wake one worker per move dealt but for this worker's, and one to watch the clock if none does.

        Not where this worker is back before another would have woken up.
        """
        if all(map(self._executor.is_quick, list(self._dealt))):
            return
        others = len(self._dealt) - 1 + self._ordering.ready()
        self._work_ready.notify(min(others, self._idle))
        if others > self._idle and self._timer_due != _FAR:
            self._timer.notify()
        due = self._pacer.next_due()
        if due is not None and due < self._timer_due:
            if self._timer_due != _FAR:
                self._timer.notify()
            elif self._idle > others:
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

    def _complete(self) -> None:
        """Take in what the workers have done."""
        now, began, retire = self._now(), self.began_ns, False
        while self._done:
            move, outcome, worker = self._done.popleft()
            op, start, end = move.op, outcome.start_ns - began, outcome.end_ns - began
            warm = op.op_id < self.warmup_ops
            self._records.extend((
                move.index, outcome.status, op.due_ns, move.ready_ns, start, end,
                outcome.read_ns, outcome.write_ns, outcome.device_read_ns, outcome.device_write_ns, outcome.verify_ns,
                worker, warm,
            ))  # fmt: skip
            self._move_ns = max(1000, (3 * self._move_ns + end - start) >> 2)
            self.issued_ns, self.ended_ns = max(self.issued_ns, start), max(self.ended_ns, end)
            if not warm and (not self.steady_ns or start < self.steady_ns):
                self.steady_ns = start
            if outcome.status != OK:
                self._note_failure(move, outcome)
            if self._ordering.complete(move, outcome.done_ns - began):
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
            self._stopping = self.over = True
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
