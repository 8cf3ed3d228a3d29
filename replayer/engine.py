"""Executes a plan: real tiers, real concurrency, one log row per move.

Workers are threads that take the most urgent ready move; the interpreter's lock is free during system calls, memory
copies and verification, where the time goes. The main thread writes the log and shows progress.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from struct import pack
from time import perf_counter_ns
from typing import Final

from replayer.execution import OK, Executor, Outcome, Staging
from replayer.ordering import Move, Op, Ordering
from replayer.plan import PlanHash, Planned
from replayer.schema import LOG_COLUMNS, Row
from replayer.waterfall import DEMOTE, HIT, MISS, PROMOTE, STORE, Usable

_OP_COLUMNS: Final = LOG_COLUMNS[2:11]
_MOVES_BYTES: Final = frozenset((HIT, PROMOTE, DEMOTE, STORE))


@dataclass(frozen=True)
class Window:
    """How far the plan runs ahead of the lowest unfinished op: no further op is admitted beyond either limit."""

    ops: int = 4096
    bytes: int = 64 << 30


@dataclass
class Progress:
    """What has been done so far."""

    moved_bytes: int = 0
    hits: int = 0
    reads: int = 0
    failures: int = 0


class Engine:
    """One execution of a plan.

    Args:
        plan: stretches of the plan, taken as the window moves on.
        usable: bytes per tier, as the plan's.
        executor: carries out the moves.
        staging: makes a worker's buffers.
        window: how far the plan runs ahead.

    Attributes:
        executed_ops: all ops of the trace below this one are done.
        hash: the plan fingerprint of exactly those.
        progress: what has been done so far.
    """

    def __init__(
        self,
        plan: Iterator[Planned],
        usable: Usable,
        executor: Executor,
        staging: Callable[[], Staging],
        window: Window,
    ) -> None:
        self._ops, self._executor, self._staging, self._limits = _unpack(plan), executor, staging, window
        self._ordering, self._window = Ordering(usable), deque[Op]()
        self._window_bytes, self._planned_all, self._stopping = 0, False, False
        self._rows: list[Row] = []
        self._crash: BaseException | None = None
        lock = threading.Lock()
        self._work_ready, self._ended = threading.Condition(lock), threading.Condition(lock)
        self._began = perf_counter_ns()
        self.executed_ops, self.hash, self.progress = 0, PlanHash(), Progress()

    def run(self, workers: int, flush: Callable[[list[Row]], None], every_s: float = 0.5) -> None:
        """Execute to the end with so many workers; `flush` gets the rows logged since its last call, in this thread.

        Raises:
            KeyboardInterrupt: after the moves in flight have been finished and logged.
        """
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(workers)]
        self._began = perf_counter_ns()
        started = []
        try:
            for thread in threads:
                thread.start()
                started.append(thread)
            while not self._ended_within(every_s):
                flush(self._take_rows())
        finally:
            with self._work_ready:
                self._stopping = True
                self._work_ready.notify_all()
            for thread in started:
                thread.join()
            flush(self._take_rows())
        if self._crash is not None:
            raise self._crash

    def _ended_within(self, seconds: float) -> bool:
        with self._ended:
            return self._ended.wait_for(self._is_over, seconds)

    def _take_rows(self) -> list[Row]:
        with self._ended:
            rows, self._rows = self._rows, []
        return rows

    @property
    def finished(self) -> bool:
        """Whether every op of the plan is done."""
        return self._planned_all and not self._window

    def _is_over(self) -> bool:
        return self._stopping or self.finished

    def _now(self) -> int:
        return perf_counter_ns() - self._began

    def _work(self, worker: int) -> None:
        try:
            staging = self._staging()
            while (move := self._next()) is not None:
                start = self._now()
                outcome = self._executor.run(move, staging)
                end = self._now()
                self._done(move, outcome, _row(move, outcome, start, end, worker))
        except BaseException as error:  # noqa: BLE001 (a dead worker ends the run; the main thread raises what killed it)
            self._crash = error
        finally:
            with self._ended:
                self._stopping |= self._crash is not None
                self._ended.notify_all()
                self._work_ready.notify_all()

    def _next(self) -> Move | None:
        """The next move to run; waits for one, None at the end."""
        with self._work_ready:
            while not self._is_over():
                self._admit()
                if (move := self._ordering.take()) is not None:
                    if self._ordering.ready():
                        self._work_ready.notify()
                    return move
                if not self._is_over():
                    self._work_ready.wait()
            return None

    def _admit(self) -> None:
        """Fill the window; the lowest unfinished op is always in it."""
        while not self._planned_all and (
            not self._window or (len(self._window) < self._limits.ops and self._window_bytes < self._limits.bytes)
        ):
            op, moves = next(self._ops, (None, []))
            if op is None:
                self._planned_all = True
                return
            self._window.append(op)
            self._window_bytes += sum(move.size for move in moves)
            self._ordering.admit(op, moves, self._now())

    def _done(self, move: Move, outcome: Outcome, row: Row) -> None:
        with self._work_ready:
            self._rows.append(row)
            progress, succeeded = self.progress, outcome.status == OK
            progress.failures += not succeeded
            progress.moved_bytes += move.size if succeeded and move.kind in _MOVES_BYTES else 0
            progress.hits += move.kind in (HIT, PROMOTE)
            progress.reads += move.kind in (HIT, PROMOTE, MISS)
            if self._ordering.complete(move, self._now()):
                self._retire()

    def _retire(self) -> None:
        """Move the window past the ops that are done."""
        while self._window and not self._window[0].left:
            op = self._window.popleft()
            for move in op.moves:
                self._window_bytes -= move.size
                fields = (op.op_id, move.seq, move.kind, move.key, move.from_tier, move.to_tier, move.size)
                self.hash.update(pack("<7q", *fields), op.op_id)
            self.executed_ops = op.op_id + 1
            op.moves, op.followers = [], []  # they point back at it: nothing should wait for the cycle collector


def _unpack(plan: Iterable[Planned]) -> Iterator[tuple[Op, list[Move]]]:
    """Ops with their moves, one by one, from stretches of columns."""
    for part in plan:
        rows = zip(*(part.ops[name].tolist() for name in _OP_COLUMNS), part.ops["new_tokens"].tolist(), strict=True)
        moves = part.moves
        columns = (moves.seq, moves.move, moves.key, moves.from_tier, moves.to_tier, moves.size, part.tokens)
        planned = zip(*(column.tolist() for column in columns), strict=True)
        begin = 0
        for op_id, row, end in zip(part.ops["op_id"].tolist(), rows, part.ends.tolist(), strict=True):
            op = Op(op_id, row[0], row[5], row)
            yield op, [Move(op, *next(planned)) for _ in range(end - begin)]
            begin = end


def _row(move: Move, outcome: Outcome, start: int, end: int, worker: int) -> Row:
    *of_op, new_tokens = move.op.columns
    return (
        move.op.op_id, move.seq, *of_op, 0 if move.seq else new_tokens,
        move.key, move.tokens, move.size, move.kind, outcome.status, _tier(move.from_tier), _tier(move.to_tier),
        move.due_ns, move.ready_ns, start, end,
        outcome.read_ns, outcome.write_ns, outcome.device_read_ns, outcome.device_write_ns, outcome.verify_ns,
        worker, 0, False, outcome.error,
    )  # fmt: skip


def _tier(code: int) -> int | None:
    return None if code < 0 else code
