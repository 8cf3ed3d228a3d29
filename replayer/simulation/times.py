"""The predicted times of a cell: its plan on the clock of a profile, and a few metrics of that log.

The metrics have the names and the definitions of `analysis` (docs/metrics.md).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.planning.executing import Records, Rows
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan
from replayer.prediction.profile import Profile
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.record.columns import MOVES, TIERS
from replayer.record.simulation import Cell
from tracegen.schema import ENUMS

_READS: Final = np.array([move in ("hit", "promote", "demote", "copy") for move in MOVES])
"""The moves that read the tier that they come from, by code."""
_FOR_OTHERS: Final = np.array([move in ("demote", "drop", "copy") for move in MOVES])
"""The moves that a request makes for others, by code."""
_PREFILL: Final = ENUMS["phase"].index("prefill")
_P95: Final = 0.95

Column = NDArray[Any]


class CellTimes:
    """The metrics of a predicted log, batch by batch."""

    def __init__(self) -> None:
        self._tokens = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._reads: dict[str, list[Column]] = {tier: [] for tier in TIERS}
        self._requests: list[tuple[Column, ...]] = []

    def add(self, records: Records) -> None:
        """Add rows of the log; they are copied as far as they are kept."""
        if not len(records):
            return
        first = int(records["start_ns"].min())
        self._first_ns = first if self._first_ns is None else min(first, self._first_ns)
        self._last_ns = max(self._last_ns, int(records["end_ns"].max()))
        self._tokens += int(records["new_tokens"].sum())
        is_read = _READS[records["move"]]
        for number, tier in enumerate(TIERS):
            rows = is_read & (records["from_tier"] == number)
            self._reads[tier].append(records["read_ns"][rows])
        own = records[~_FOR_OTHERS[records["move"]]]
        prefill_end = np.where(own["phase"] == _PREFILL, own["end_ns"], -1)
        self._requests.append((own["request_id"].copy(), own["due_ns"].copy(), prefill_end))

    def to_cell(self, *, are_due: bool) -> Cell:
        """Return the columns of times.

        Args:
            are_due: whether requests are due at some time: under pace asap all are at once.
        """
        elapsed_s = (self._last_ns - (self._first_ns or 0)) / 1e9
        reads = {f"{tier}_read_p95_ms": _find_p95_ms(times) for tier, times in self._reads.items()}
        return {
            "elapsed_s": elapsed_s,
            "wall_clock_tok_s": self._tokens / elapsed_s if elapsed_s else None,
            **reads,
            "ttfb_p95_ms": _find_p95_ms(self._first_bytes_ns()) if are_due else None,
        }

    def _first_bytes_ns(self) -> list[Column]:
        """Return the time to first byte of each request that has one."""
        if not self._requests:
            return []
        ids, due, ends = (np.concatenate(parts) for parts in zip(*self._requests, strict=True))
        unique, places = np.unique(ids, return_inverse=True)
        first_due = np.full(len(unique), np.iinfo(np.int64).max)
        last_end = np.full(len(unique), -1)
        np.minimum.at(first_due, places, due)
        np.maximum.at(last_end, places, ends)
        has_prefill = last_end >= 0
        return [last_end[has_prefill] - first_due[has_prefill]]


def predict_cell(
    plan: Plan,
    profile: Profile,
    note: Callable[[int], object] = lambda _ops: None,
) -> Cell:
    """Execute a cell's plan on the clock of a profile; return its columns of times.

    Args:
        plan: of the cell.
        profile: of the machine.
        note: takes the number of ops executed since its last call; an exception ends the work.
    """
    conditions = profile.assumed_conditions
    pace = plan.options.demand.pace
    engine = VirtualEngine(
        plan,
        profile.struct(),
        conditions.verify,
        conditions.io_bytes * conditions.io_depth,
        PlanWindow.for_pace(pace),
        Span(),
    )
    times = CellTimes()
    noted = 0

    def flush(records: Records, _errors: dict[int, str], _rows: Rows) -> None:
        nonlocal noted
        times.add(records)
        retired = engine.state().retired
        note(retired - noted)
        noted = retired

    try:
        engine.run(flush)
    finally:
        engine.close()
    return times.to_cell(are_due=pace.kind != "asap")


def _find_p95_ms(batches: Sequence[Column]) -> float | None:
    """Return the P95 in ms, linear between order statistics; None without any value."""
    times_ns = np.concatenate([*batches, np.empty(0, np.int64)])
    return float(np.quantile(times_ns, _P95)) / 1e6 if len(times_ns) else None
