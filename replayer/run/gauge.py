"""The figures of an execution while it runs, for whoever watches it."""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from replayer.bindings.compiled import State
from replayer.planning.executing import Records
from replayer.planning.moves import COPY, DEMOTE, HIT, PROMOTE, STORE
from replayer.planning.pace import Span
from replayer.record.columns import STATUSES
from replayer.record.options import TIERS
from replayer.run.figures import Figures, TierRate

# The time over which a rate of now is taken
NOW_S: Final = 1.0
_GIB: Final = 2**30
_OK: Final = STATUSES.index("ok")

_TRANSFERS: Final = (HIT, STORE, DEMOTE, PROMOTE, COPY)


def sum_transfers(rows: Records) -> NDArray[np.float64]:
    """Sum the bytes that rows of the log moved, by tier: read, written."""
    kinds = np.ascontiguousarray(rows["move"])  # rows are wide: each column is read from afar
    sizes = np.where((rows["status"] == _OK) & np.isin(kinds, _TRANSFERS), rows["size_bytes"], 0)
    # Tier -1 is none: it is counted first and left out.
    sides = [np.bincount(rows[name] + 1, sizes, len(TIERS) + 1)[1:] for name in ("from_tier", "to_tier")]
    return np.stack(sides, axis=1)


class Gauge:
    """Adds up what an execution does, and tells how far it is.

    Args:
        ops: of the plan.
        span: the part of the plan that is executed and measured.
        tiers: numbers of the tiers that it uses.
        ranks: processes that execute it; each counts its own moves.
        clock: in seconds.

    Attributes:
        ops_to_do: ops to execute, if no time limit cuts them.
    """

    def __init__(
        self, ops: int, span: Span, tiers: Sequence[int], ranks: int = 1, clock: Callable[[], float] = monotonic
    ) -> None:
        self.ops_to_do = ops if span.ops is None else min(ops, span.ops)
        self._span = span
        self._tiers = tiers
        self._ranks = ranks
        self._clock = clock
        self._moved = np.zeros((len(TIERS), 2))
        self._began_s: float | None = None
        self._samples = deque([(clock(), self._moved)])
        self._drain: tuple[float, int] | None = None

    def add(self, records: Records) -> None:
        """Add rows of the log."""
        if self._began_s is None:  # the engine plans ahead before its clock starts
            self._began_s = self._clock()
            self._samples[0] = (self._began_s, self._moved)
        self._moved = self._moved + sum_transfers(records)

    def begins_drain(self, state: State) -> bool:
        """Return whether a drain has begun since the figures were read: it may be too short for a frame."""
        return bool(state.cut) and self._drain is None

    def read(self, state: State) -> Figures:
        """Return the figures as of now, from the engine's state."""
        now_s = self._clock()
        return replace(
            self._measure_progress(state, now_s),
            ops_left=state.left if state.cut else None,
            tiers=self._find_rates(now_s),
            in_flight=state.in_flight,
            queued=state.queued,
            failures=state.failures,
            ranks=self._ranks,
        )

    def _measure_progress(self, state: State, now_s: float) -> Figures:
        """Return how far the execution, or its drain, is: by its time limit, else by ops."""
        span = self._span
        began_s = now_s if self._began_s is None else self._began_s
        done, total, limit_s = state.retired, self.ops_to_do, span.duration_s
        stage = "warming up" if self._is_warming_up(state) else "replaying"
        if state.cut:
            # A drain is over at its limit, or when the ops that were left at its start are done.
            self._drain = self._drain or (now_s, state.left)
            began_s, total = self._drain
            done, limit_s, stage = total - state.left, span.drain_s, "draining"
        elapsed_s = now_s - began_s
        if limit_s is None:
            return Figures(stage, "op", done, total, estimate_left_s(done, total, elapsed_s))
        done_s = max(0.0, min(elapsed_s, limit_s))
        return Figures(stage, "s", done_s, limit_s, limit_s - done_s)

    def _is_warming_up(self, state: State) -> bool:
        span = self._span
        return state.steady_ns < 0 and bool(span.warmup_ops or span.warmup_s)

    def _find_rates(self, now_s: float) -> dict[str, TierRate]:
        """Return what each tier moved per second since a second ago."""
        samples = self._samples
        samples.append((now_s, self._moved))
        # Of samples older than a second only the youngest stays: the rate is since then.
        while len(samples) > 2 and now_s - samples[1][0] >= NOW_S:
            samples.popleft()
        (then_s, before), (_, after) = samples[0], samples[-1]
        # A run's first rows may have been taken a moment ago, but they were not moved in a moment.
        rates = (after - before) / (max(now_s - then_s, NOW_S) * _GIB)
        return {TIERS[tier]: TierRate(*map(float, rates[tier])) for tier in self._tiers}


def estimate_left_s(done: float, total: float, elapsed_s: float) -> float | None:
    """Return the time left if the rest goes as fast as what is done; None: nothing is done."""
    return elapsed_s * (total - done) / done if done > 0 else None
