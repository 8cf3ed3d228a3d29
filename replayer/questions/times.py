"""The predicted times of a cell: its plan on the clock of a profile, and a few metrics of that log.

The metrics have the names and the definitions of `analysis`.
"""

from typing import Final

import polars as pl

from replayer.planning.executing import Records, Rows, make_settings
from replayer.planning.pace import PlanWindow, Span
from replayer.planning.plan import Plan
from replayer.prediction.profile import Profile
from replayer.prediction.virtual_engine import VirtualEngine
from replayer.record.columns import MOVES
from replayer.record.options import TIERS
from replayer.record.simulation import Cell
from tracegen.progress import Advance
from tracegen.schema import ENUMS

_COLUMNS: Final = (
    *("start_ns", "end_ns", "due_ns", "read_ns", "request_id", "new_tokens"),
    *("move", "from_tier", "phase"),
)
_SUMS: Final = (pl.min("start_ns"), pl.max("end_ns"), pl.sum("new_tokens"))
# The moves that read the tier that they come from
_READS: Final = [MOVES.index(move) for move in ("hit", "promote", "demote", "copy")]
# The moves that a request makes for others
_FOR_OTHERS: Final = [MOVES.index(move) for move in ("demote", "drop", "copy")]
_PREFILL: Final = ENUMS["phase"].index("prefill")


class CellTimes:
    """The metrics of a predicted log, batch by batch."""

    def __init__(self) -> None:
        self._sums: list[pl.DataFrame] = []
        self._reads: list[pl.DataFrame] = []
        self._requests: list[pl.DataFrame] = []

    def add(self, records: Records) -> None:
        """Add rows of the log; they are copied as far as they are kept."""
        # Copied: compiled code uses the memory of the records again.
        rows = pl.DataFrame({name: records[name].copy() for name in _COLUMNS})
        self._sums.append(rows.select(_SUMS))
        self._reads.append(rows.filter(pl.col("move").is_in(_READS)).select("from_tier", "read_ns"))
        prefill_end = pl.col("end_ns").filter(pl.col("phase") == _PREFILL).max()
        # What a request evicts for others is no part of its own wait.
        own = rows.filter(~pl.col("move").is_in(_FOR_OTHERS))
        self._requests.append(own.group_by("request_id").agg(pl.min("due_ns"), prefill_end))

    def to_cell(self, *, are_due: bool) -> Cell:
        """Return the columns of times.

        Args:
            are_due: whether requests are due at some time: under pace asap all are at once.
        """
        first, last, tokens = pl.concat(self._sums).select(_SUMS).row(0)
        elapsed_s = ((last or 0) - (first or 0)) / 1e9
        reads, requests = pl.concat(self._reads), pl.concat(self._requests)
        ends = requests.group_by("request_id").agg(pl.min("due_ns"), pl.max("end_ns"))
        first_bytes = ends["end_ns"] - ends["due_ns"]
        return {
            "elapsed_s": elapsed_s,
            "wall_clock_tok_s": tokens / elapsed_s if elapsed_s else None,
            **{
                f"{tier}_read_p95_ms": _find_p95_ms(reads.filter(from_tier=code)["read_ns"])
                for code, tier in enumerate(TIERS)
            },
            "ttfb_p95_ms": _find_p95_ms(first_bytes) if are_due else None,
        }


def _find_p95_ms(times_ns: pl.Series) -> float | None:
    """Return the P95 in ms, linear between order statistics; None without any value."""
    p95_ns = times_ns.drop_nulls().quantile(0.95, "linear")
    return None if p95_ns is None else p95_ns / 1e6


def predict_cell(plan: Plan, profile: Profile, note: Advance) -> Cell:
    """Execute a cell's plan on the clock of a profile; return its columns of times.

    Args:
        plan: of the cell.
        profile: of the machine.
        note: takes the number of ops executed since its last call; an exception ends the work.
    """
    conditions = profile.assumed_conditions
    pace = plan.options.demand.pace
    io_bytes = conditions.io_bytes * conditions.io_depth
    settings = make_settings(plan, conditions.verify, io_bytes, PlanWindow.for_pace(pace), Span())
    engine = VirtualEngine(plan, settings, profile.struct())
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
