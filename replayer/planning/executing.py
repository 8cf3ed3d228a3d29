"""Executions of a plan by compiled code: what those on the real clock share with those on a computed one."""

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import (
    NONE,
    RECORD,
    UNFINISHED,
    UNLIMITED,
    EngineSettings,
    State,
    TotalsStruct,
    address,
    call,
    reference,
    view,
)
from replayer.planning.counts import describe_totals
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan, free_live
from replayer.record.options import Verify
from replayer.record.run_info import Totals

# Numbers per row of a plan.
ROW_NUMBERS: Final = 7
# Of an execution of either kind.
_state = call("run_state")
_totals = call("run_totals")
_unfinished = call("run_unfinished")
_take_records = call("run_take_records")
_take_rows = call("run_take_rows")
VERIFY: Final[dict[Verify, int]] = {"off": 0, "stamps": 1, "full": 2}

# Rows of the log, of dtype RECORD.
Records = NDArray[Any]
# Executed moves in the plan's order, seven numbers each, for the fingerprint.
Rows = NDArray[np.int64]
# Taker of records, of errors by the number that records give, and of rows.
Flush = Callable[[Records, dict[int, str], Rows], None]


def make_settings(plan: Plan, verify: Verify, chunk: int, window: PlanWindow, span: Span) -> EngineSettings:
    """Return the settings of an execution as compiled code reads them.

    Args:
        plan: the plan to execute.
        verify: what is checked of the bytes read.
        chunk: bytes that a worker moves at once.
        window: how far the plan runs ahead.
        span: the part of the plan that is executed and measured.
    """
    return EngineSettings(
        workers=plan.options.demand.workers,
        chunk=chunk,
        verify=VERIFY[verify],
        window_ops=window.ops,
        window_bytes=UNLIMITED if window.bytes is None else window.bytes,
        duration_ns=_nanoseconds(span.duration_s),
        drain_ns=_nanoseconds(span.drain_s),
        most_ops=NONE if span.ops is None else span.ops,
        warmup_position=span.warmup_ops,
        warmup_ns=_nanoseconds(span.warmup_s),
        max_errors=span.max_errors,
        trace_order=plan.options.order.kind == "trace",
    )


def _nanoseconds(seconds: float | None) -> int:
    return NONE if seconds is None else int(seconds * 1e9)


class CompiledExecution:
    """One execution of a plan by compiled code, on the real clock or on a computed one.

    Args:
        prefix: first word of the names of the core's functions: engine or prediction.
        plan: the plan to execute; if its order is `live`, placement is decided during the run.
        settings: of the execution.
        machine: the arguments of the core's `new` that say on what the plan is executed; kept, as
            compiled code has their addresses.

    Attributes:
        began_ns: the clock at the log's time 0.
        causes: how many moves failed, by cause.
    """

    def __init__(self, prefix: str, plan: Plan, settings: EngineSettings, *machine: Any) -> None:
        is_live = plan.options.order.kind == "live"
        self.began_ns = 0
        self.causes = Counter[str]()
        self._free = call(f"{prefix}_free")
        self._kept = (plan, machine)
        self._live = plan.live() if is_live else None
        self._planner = None if is_live else plan.planner()
        self._handle: int | None = call(f"{prefix}_new")(
            reference(plan.workload.struct),
            reference(settings),
            reference(plan.options.demand.struct()),
            None if self._planner is None else self._planner.handle,
            self._live,
            reference(plan.rules()),
            *machine,
        )

    def _take(self) -> tuple[Records, Rows]:
        """Take the records and rows since the last call; they are valid until the next."""
        pointer = ctypes.c_void_p()
        count = _take_records(self._handle, ctypes.byref(pointer))
        records = view(pointer.value, count, RECORD)
        count = _take_rows(self._handle, ctypes.byref(pointer))
        rows = view(pointer.value, ROW_NUMBERS * count, np.dtype(np.int64))
        return records, rows.reshape(-1, ROW_NUMBERS)

    def state(self) -> State:
        """Return the counters and times of the execution so far."""
        state = State()
        _state(self._handle, ctypes.byref(state))
        return state

    def totals(self) -> Totals:
        """Return sums over the ops executed so far."""
        totals = TotalsStruct()
        _totals(self._handle, reference(totals))
        return describe_totals(totals)

    def unfinished(self) -> NDArray[Any]:
        """Return the requests that were due before the cut and are not done, of dtype UNFINISHED."""
        found = np.zeros(_unfinished(self._handle, None, 0), UNFINISHED)
        _unfinished(self._handle, address(found), len(found))
        return found

    def close(self) -> None:
        """Free the memory of the compiled code, planner and placement."""
        if self._handle is not None:
            # Before the others: it has pointers to the planner and the placement.
            self._free(self._handle)
            self._handle = None
            self._planner = None
            if self._live is not None:
                free_live(self._live)
