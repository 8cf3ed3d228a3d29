"""Executes a plan, or decides one on the way: threads that work in compiled code (`core/engine.c`).

A worker comes back to Python for moves that touch a tier which compiled code cannot reach (a GPU). A feeder plans
ahead; the main thread writes the log and shows progress.
"""

import ctypes
import gc
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import RECORD, UNLIMITED, EngineSettings, FaultStruct, Job, State, call, reference, view
from replayer.bindings.faults import described
from replayer.engine.move_executor import Elsewhere, Staging, Verify
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan, free_live
from replayer.planning.plan_summary import MoveTotals
from replayer.record.wording import causes_of, commonest
from replayer.tiers.base import Tier
from replayer.tiers.payload import Payload

POLL_S: Final = 0.05
_VERIFY: Final[dict[Verify, int]] = {"off": 0, "stamps": 1, "full": 2}

_new, _free, _feed, _start, _work, _wait, _stop = (
    call(f"engine_{name}") for name in ("new", "free", "feed", "start", "work", "wait", "stop")
)
_state, _totals, _take_records, _take_rows, _fault, _run_delay = (
    call(f"engine_{name}") for name in ("state", "totals", "take_records", "take_rows", "fault", "run_delay")
)

Records = NDArray[Any]
Rows = NDArray[np.int64]
Flush = Callable[[Records, dict[int, str], Rows], None]


class TooManyErrorsError(Exception):
    """The budget of failed moves is used up."""


class Engine:
    """One execution.

    Args:
        plan: what is executed; where its order is `live`, placement is decided on the way.
        tiers: by number; None where there is none.
        payload: makes and checks bytes.
        staging: makes a worker's buffers.
        elsewhere: makes the moves that compiled code cannot.

    Attributes:
        began_ns: perf_counter_ns() at time 0.
        causes: why moves failed, and how many did.
    """

    def __init__(
        self,
        plan: Plan,
        tiers: Sequence[Tier | None],
        payload: Payload,
        staging: Callable[[int], Staging],
        elsewhere: Elsewhere,
        verify: Verify,
        chunk: int,
        window: PlanWindow,
        span: Span,
    ) -> None:
        order, demand = plan.options.order, plan.options.demand
        self._plan, self._staging, self._elsewhere, self._workers = plan, staging, elsewhere, demand.workers
        self._payload, self._tiers, self._span = payload, tiers, span
        self._live = plan.live() if order.kind == "live" else None
        self._planner = plan.planner() if self._live is None else None
        settings = EngineSettings(
            demand.workers, chunk, _VERIFY[verify], window.ops, UNLIMITED if window.bytes is None else window.bytes,
            _ns(span.duration_s), _ns(span.drain_s), -1 if span.ops is None else span.ops, span.warmup_ops,
            int(span.warmup_s * 1e9), span.max_errors, order.kind == "trace",
        )  # fmt: skip
        handles = (ctypes.c_void_p * 3)(*(None if tier is None else tier.engine_handle for tier in tiers))
        self._handle: int | None = _new(
            reference(plan.workload.struct), reference(settings), reference(demand.struct()),
            self._planner.handle if self._planner is not None else None, self._live,
            reference(plan.rules()), reference(handles), payload.handle,
        )  # fmt: skip
        self._crash: BaseException | None = None
        self.began_ns, self.causes = 0, Counter[str]()

    def run(
        self,
        flush: Flush,
        poll: Callable[[], None] = lambda: None,
        every_s: float = POLL_S,
        begun: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Execute to the end; `flush` gets what has been recorded and executed since its last call, in this thread.

        Args:
            flush: called every `every_s`, and at the end.
            poll: called often; what it raises ends the run.
            every_s: how often to flush.
            begun: called once with time 0, `began_ns`, before the first move.

        Raises:
            TooManyErrorsError: more moves failed than the budget allows; those in flight have been finished.
            KeyboardInterrupt: what `poll`, called often, raised, after the moves in flight have been finished; so with
                any other.
        """
        workers = [
            threading.Thread(target=self._work, args=(number, self._staging(number))) for number in range(self._workers)
        ]
        started: list[threading.Thread] = []
        if self._planner is not None:
            started.append(threading.Thread(target=_feed, args=(self._handle,)))
            started[0].start()
        gc.disable()  # it would stop the threads that make moves in Python
        try:
            self._wait_for_window(poll)
            begun(self.began_ns)
            for thread in workers:
                thread.start()
                started.append(thread)
            flushed = perf_counter_ns()
            while not _wait(self._handle, int(min(POLL_S, every_s) * 1e9)):
                poll()
                if perf_counter_ns() - flushed >= every_s * 1e9:
                    flush(*self._taken())
                    flushed = perf_counter_ns()
        finally:
            _stop(self._handle)
            for thread in started:
                thread.join()
            gc.enable()
            flush(*self._taken())
        self._raise_what_ended_it()

    def _wait_for_window(self, poll: Callable[[], None]) -> None:
        """The window is full before the clock starts."""
        while (began := _start(self._handle, int(POLL_S * 1e9))) == 0:
            poll()
        self.began_ns = began

    def _raise_what_ended_it(self) -> None:
        state = self.state()
        if self._crash is not None:
            raise self._crash
        if state.stuck:
            raise RuntimeError("the reference system cannot go on: this is a defect of the replayer")
        if state.too_many_errors:
            limit = f", more than --max-errors {self._span.max_errors}"
            raise TooManyErrorsError(f"{state.failures:,} moves failed{limit}: {commonest(self.causes)}")

    def _work(self, worker: int, staging: Staging) -> None:
        job, resumed = Job(), 0
        try:
            while _work(self._handle, worker, staging.address, ctypes.byref(job), resumed):
                self._elsewhere.run(job, staging)
                resumed = 1
        except BaseException as error:  # noqa: BLE001 (a dead worker ends the run; the main thread raises what killed it)
            self._crash = self._crash or error
            _stop(self._handle)

    def _taken(self) -> tuple[Records, dict[int, str], Rows]:
        """Records and rows since the last call, valid until the next; errors by the number that records give."""
        pointer = ctypes.c_void_p()
        count = _take_records(self._handle, ctypes.byref(pointer))
        records = view(pointer.value, count, RECORD)
        count = _take_rows(self._handle, ctypes.byref(pointer))
        rows = view(pointer.value, 7 * count, np.dtype(np.int64)).reshape(-1, 7)
        errors, fault = dict[int, str](), FaultStruct()
        for number in records["error"][records["error"] >= 0].tolist():
            _fault(self._handle, number, ctypes.byref(fault))
            errors[number] = described(fault)
        self.causes.update(causes_of(errors.values()))
        return records, errors, rows

    def state(self) -> State:
        """Where the execution stands."""
        found = State()
        _state(self._handle, ctypes.byref(found))
        return found

    def run_delay_ns(self) -> int | None:
        """How long the workers so far have been ready and waited for a CPU; None where the kernel does not say."""
        waited = int(_run_delay(self._handle))
        return None if waited < 0 else waited

    def totals(self) -> MoveTotals:
        """Sums over what has been executed."""
        found = MoveTotals()
        _totals(self._handle, reference(found.struct))
        return found

    def close(self) -> None:
        """Give back memory."""
        if self._handle is not None:
            _free(self._handle)
            self._handle = None
            self._planner = None
            if self._live is not None:
                free_live(self._live)


def _ns(seconds: float | None) -> int:
    return -1 if seconds is None else int(seconds * 1e9)
