"""Settings and reports that all executions of a plan share."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.bindings.compiled import NONE, UNFINISHED, UNLIMITED, EngineSettings, address
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan
from replayer.record.options import Verify

ROW_NUMBERS: Final = 7
"""Numbers per row of a plan."""
_VERIFY: Final[dict[Verify, int]] = {"off": 0, "stamps": 1, "full": 2}

Records = NDArray[Any]
"""Rows of the log, of dtype RECORD."""
Rows = NDArray[np.int64]
"""Executed moves in the plan's order, seven numbers each, for the fingerprint."""
Flush = Callable[[Records, dict[int, str], Rows], None]
"""Taker of records, of errors by the number that records give, and of rows."""


def make_settings(
    plan: Plan,
    verify: Verify,
    chunk: int,
    window: PlanWindow,
    span: Span,
) -> EngineSettings:
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
        verify=_VERIFY[verify],
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


def list_unfinished(function: Callable[..., int], handle: int | None) -> NDArray[Any]:
    """Return the requests that were due before the cut and are not done, of dtype UNFINISHED.

    Args:
        function: the core's, for the kind of execution.
        handle: the execution.
    """
    found = np.zeros(function(handle, None, 0), UNFINISHED)
    function(handle, address(found), len(found))
    return found


def _nanoseconds(seconds: float | None) -> int:
    return NONE if seconds is None else int(seconds * 1e9)
