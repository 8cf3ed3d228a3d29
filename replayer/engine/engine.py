"""Executes a plan, or decides placement during the run, with threads of compiled code.

Workers run `core/engine.c` and come back to Python only for moves that touch a tier outside
compiled code (a GPU). A feeder thread plans ahead. The main thread writes the log and shows
progress.
"""

import ctypes
import gc
import os
import threading
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final

from replayer.bindings.compiled import EngineSettings, FaultStruct, Job, call, reference, refuse_memory
from replayer.bindings.faults import describe_fault
from replayer.engine.move_executor import MoveExecutor, Staging
from replayer.machine.device_counters import RunDelays
from replayer.planning.executing import CompiledExecution, Flush, Records, Rows
from replayer.planning.plan import Plan
from replayer.record.wording import causes_of, commonest
from replayer.tiers.native import NativeTier
from replayer.tiers.payload import Payload

POLL_S: Final = 0.05  # a signal is seen, and the log fed, so often; each costs microseconds

_feed = call("engine_feed")
_start = call("engine_start")
_work = call("engine_work")
_wait = call("engine_wait")
_stop = call("engine_stop")
_fault = call("engine_fault")


class TooManyErrorsError(Exception):
    """More moves failed than the run's settings allow."""


class Engine(CompiledExecution):
    """One execution of a plan.

    The compiled engine has the lock and the state that its threads share. `_crash` is the only
    field that workers write; assignments to it are atomic, and the main thread reads it after it
    has joined them.

    Args:
        plan: the plan to execute; if its order is `live`, placement is decided during the run.
        settings: of the execution.
        tiers: by number; None for a tier that the run does not have.
        payload: makes and checks the bytes of objects.
        staging: makes the buffers of a worker, given its number.

    Attributes:
        begun: called once with `began_ns`, before the first move.
    """

    def __init__(
        self,
        plan: Plan,
        settings: EngineSettings,
        tiers: Sequence[NativeTier | None],
        payload: Payload,
        staging: Callable[[int], Staging],
    ) -> None:
        settings.cores = len(os.sched_getaffinity(0))
        handles = (ctypes.c_void_p * len(tiers))(*(None if tier is None else tier.engine_handle for tier in tiers))
        super().__init__("engine", plan, settings, reference(handles), payload.handle)
        self._executor = MoveExecutor(tiers, payload, settings.verify)
        self._staging = staging
        self._workers = settings.workers
        self._max_errors = settings.max_errors
        self.begun: Callable[[int], None] = lambda _: None
        self._crash: BaseException | None = None
        self._delays = RunDelays()

    def run(self, flush: Flush, poll: Callable[[], None] = lambda: None, every_s: float = POLL_S) -> None:
        """Execute the plan to its end, or until a limit or an exception ends the run.

        Args:
            flush: takes the records, errors and rows since its last call; called in this thread
                every `every_s` seconds, and at the end.
            poll: called often, in this thread; an exception that it raises ends the run.
            every_s: seconds between flushes.

        Raises:
            TooManyErrorsError: more moves failed than the limit allows.
            KeyboardInterrupt: raised by `poll`, as any other exception may be.

        All exceptions are raised after the moves in flight have been finished.
        """
        # Buffers are allocated, and the window planned, before the clock starts.
        workers = self._make_workers()
        started = self._start_feeder()
        gc.disable()  # a collection would stop the threads that make moves in Python
        try:
            self._wait_for_window(poll)
            self.begun(self.began_ns)
            for worker in workers:
                worker.start()
                started.append(worker)
            self._flush_until_over(flush, poll, every_s)
        finally:
            # Workers end their moves and leave; what they logged meanwhile is flushed last.
            _stop(self._handle)
            for thread in started:
                thread.join()
            gc.enable()
            flush(*self._take_batch())
        self._raise_failure()

    def _make_workers(self) -> list[threading.Thread]:
        return [
            threading.Thread(target=self._work, args=(number, self._staging(number))) for number in range(self._workers)
        ]

    def _start_feeder(self) -> list[threading.Thread]:
        """Start the thread that plans ahead; none if placement is decided during the run."""
        if self._planner is None:
            return []
        feeder = threading.Thread(target=_feed, args=(self._handle,))
        feeder.start()
        return [feeder]

    def _flush_until_over(self, flush: Flush, poll: Callable[[], None], every_s: float) -> None:
        flushed = perf_counter_ns()
        while not _wait(self._handle, int(min(POLL_S, every_s) * 1e9)):
            poll()
            if perf_counter_ns() - flushed >= every_s * 1e9:
                flush(*self._take_batch())
                flushed = perf_counter_ns()

    def _wait_for_window(self, poll: Callable[[], None]) -> None:
        """Wait until the planning window is full; then the clock starts."""
        while (began := _start(self._handle, int(POLL_S * 1e9))) == 0:
            poll()
        self.began_ns = began

    def _raise_failure(self) -> None:
        """Raise the exception for whatever ended the run early."""
        state = self.state()
        # A worker that died says more than the counters that it left behind.
        if self._crash is not None:
            raise self._crash
        refuse_memory(state.refused_bytes)
        if state.stuck:
            raise RuntimeError("the reference system cannot go on: this is a defect of the replayer")
        if state.too_many_errors:
            raise TooManyErrorsError(
                f"{state.failures:,} moves failed, more than the {self._max_errors:,} allowed: {commonest(self.causes)}"
            )

    def _work(self, worker: int, staging: Staging) -> None:
        """Run one worker: in compiled code, except for moves that it hands to Python."""
        job = Job()
        resumed = 0
        self._delays.begin_thread()
        try:
            # The call lets the interpreter go; it comes back with a move for Python, or when the run is over.
            while _work(self._handle, worker, staging.address, ctypes.byref(job), resumed):
                self._executor.run(job, staging)
                resumed = 1
        except BaseException as error:  # noqa: BLE001 (the main thread raises it and ends the run)
            self._crash = self._crash or error  # the first: others may follow from it
            _stop(self._handle)
        finally:
            self._delays.note(threading.get_native_id())

    def _take_batch(self) -> tuple[Records, dict[int, str], Rows]:
        """Take the records and rows since the last call; they are valid until the next.

        Returns:
            Records, the errors by the number that records give, and rows.
        """
        records, rows = self._take()
        errors = self._describe_errors(records)
        self.causes.update(causes_of(errors.values()))
        return records, errors, rows

    def _describe_errors(self, records: Records) -> dict[int, str]:
        errors = dict[int, str]()
        fault = FaultStruct()
        for number in records["error"][records["error"] >= 0].tolist():
            _fault(self._handle, number, ctypes.byref(fault))
            errors[number] = describe_fault(fault)
        return errors

    def run_delay_ns(self) -> int | None:
        """Return how long the workers were ready but waited for a CPU; None if unknown."""
        return self._delays.total_ns()
