"""Executes a plan on a computed clock with `core/prediction.c`."""

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import RECORD, ProfileStruct, State, call, reference, refuse_memory, view
from replayer.planning.counts import MoveTotals
from replayer.planning.executing import ROW_NUMBERS, Flush, list_unfinished, make_settings
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan, free_live
from replayer.record.options import Verify

_FLUSH_ROWS: Final = 1 << 16

_new = call("prediction_new")
_free = call("prediction_free")
_run = call("prediction_run")
_stop = call("prediction_stop")
_state = call("prediction_state")
_totals = call("prediction_totals")
_unfinished = call("prediction_unfinished")
_take_records = call("prediction_take_records")
_take_rows = call("prediction_take_rows")


class VirtualEngine:
    """One execution of a plan on the computed clock of a measured machine; one thread.

    Args:
        plan: the plan to execute.
        profile: the machine.
        verify: what is checked of the bytes read.
        chunk: bytes that a worker moves at once.
        window: how far the plan runs ahead.
        span: the part of the plan that is executed and measured.

    Attributes:
        began_ns: the clock's time 0.
        causes: of errors, by their texts: there are none.
    """

    def __init__(
        self,
        plan: Plan,
        profile: ProfileStruct,
        verify: Verify,
        chunk: int,
        window: PlanWindow,
        span: Span,
    ) -> None:
        is_live = plan.options.order.kind == "live"
        self.began_ns = 0
        self.causes = Counter[str]()
        # Compiled code keeps pointers to these.
        self._plan = plan
        self._profile = profile
        self._live = plan.live() if is_live else None
        self._planner = None if is_live else plan.planner()
        self._handle: int | None = _new(
            reference(plan.workload.struct),
            reference(make_settings(plan, verify, chunk, window, span)),
            reference(plan.options.demand.struct()),
            None if self._planner is None else self._planner.handle,
            self._live,
            reference(plan.rules()),
            reference(profile),
        )

    def run(self, flush: Flush, poll: Callable[[], None] = lambda: None) -> None:
        """Execute the plan to its end, or until a limit or an exception ends the run.

        Args:
            flush: takes the records, errors and rows since its last call; called every 65,536 rows
                of the log, and at the end.
            poll: called before each flush; an exception that it raises ends the run, after the
                moves in flight.

        Raises:
            RuntimeError: a stage takes longer than the clock counts.
        """
        try:
            while _run(self._handle, _FLUSH_ROWS):
                poll()
                self._flush(flush)
        except BaseException:
            _stop(self._handle)
            _run(self._handle, 1 << 62)
            raise
        finally:
            self._flush(flush)
        refuse_memory(self.state().refused_bytes)
        if self.state().stuck:
            raise RuntimeError("a move takes more than 10^18 ns: mend the profile's numbers")

    def _flush(self, flush: Flush) -> None:
        pointer = ctypes.c_void_p()
        count = _take_records(self._handle, ctypes.byref(pointer))
        records = view(pointer.value, count, RECORD)
        count = _take_rows(self._handle, ctypes.byref(pointer))
        rows = view(pointer.value, ROW_NUMBERS * count, np.dtype(np.int64))
        flush(records, {}, rows.reshape(-1, ROW_NUMBERS))

    def state(self) -> State:
        """Return the counters and times of the execution so far."""
        state = State()
        _state(self._handle, ctypes.byref(state))
        return state

    def totals(self) -> MoveTotals:
        """Return sums over the ops executed so far."""
        totals = MoveTotals()
        _totals(self._handle, reference(totals.struct))
        return totals

    def unfinished(self) -> NDArray[Any]:
        """Return the requests that were due and are not done, of dtype UNFINISHED."""
        return list_unfinished(_unfinished, self._handle)

    def close(self) -> None:
        """Free the memory of the compiled code, planner and placement."""
        if self._handle is not None:
            _free(self._handle)
            self._handle = None
            self._planner = None
            if self._live is not None:
                free_live(self._live)
