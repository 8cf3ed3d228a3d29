"""The figures of an execution while it runs, for whoever watches it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from replayer.bindings.compiled import State
from replayer.planning.executing import Records
from replayer.planning.moves import BYPASS, COPY, DEMOTE, HIT, MISS, PROMOTE, STORE
from replayer.planning.pace import Span
from replayer.record.columns import STATUSES
from replayer.record.options import TIERS
from replayer.run.figures import Figures, TierRate
from tracegen.schema import ENUMS, PREFILL, WRITE

# The time over which a rate of now is taken
NOW_S: Final = 1.0
_GIB: Final = 2**30
_OK: Final = STATUSES.index("ok")
_RAG: Final = ENUMS["source"].index("rag")

_TRANSFERS: Final = (HIT, STORE, DEMOTE, PROMOTE, COPY)


@dataclass(frozen=True)
class RunExtent:
    """The work of an execution: ops of the plan, and the part that is executed and measured.

    Attributes:
        tiers: numbers of the tiers that it uses.
        ranks: processes that execute it; each counts its own moves.
    """

    ops: int
    span: Span
    tiers: tuple[int, ...] = ()
    ranks: int = 1

    @property
    def ops_to_do(self) -> int:
        """Ops to execute, if no time limit cuts them."""
        return self.ops if self.span.ops is None else min(self.ops, self.span.ops)


class LogSums:
    """The sums of a log so far.

    Attributes:
        moved: bytes by tier: read, written; the warm-up's, too.
        prompt_tokens, hit_tokens: as the metric hit_rate_prompt_tokens counts them: without the
            warm-up's once there are others.
    """

    def __init__(self) -> None:
        self.moved = np.zeros((len(TIERS), 2))
        self.prompt_tokens = 0
        self.hit_tokens = 0
        self._is_steady = False

    def add(self, rows: Records) -> None:
        """Add rows of the log."""
        kinds = np.ascontiguousarray(rows["move"])  # rows are wide: each column is read from afar
        succeeded = rows["status"] == _OK
        sizes = np.where(succeeded & np.isin(kinds, _TRANSFERS), rows["size_bytes"], 0)
        for side, name in enumerate(("from_tier", "to_tier")):
            # Tier -1 is none: it is counted first and left out.
            self.moved[:, side] += np.bincount(rows[name] + 1, sizes, len(TIERS) + 1)[1:]
        self._add_tokens(rows, kinds, succeeded)

    def _add_tokens(self, rows: Records, kinds: NDArray[np.int8], succeeded: NDArray[np.bool_]) -> None:
        """Add the tokens of prompts: of reads, and of the first touch of all but RAG's documents."""
        is_hit = np.isin(kinds, (HIT, PROMOTE))
        is_first_touch = (rows["op"] == WRITE) & (rows["source"] != _RAG) & np.isin(kinds, (STORE, BYPASS))
        prompt = (rows["phase"] == PREFILL) & (is_hit | (kinds == MISS) | is_first_touch)
        steady = rows["warmup"] == 0
        if not self._is_steady and steady.any():
            self.prompt_tokens = self.hit_tokens = 0
            self._is_steady = True
        if self._is_steady:
            prompt &= steady
        self.prompt_tokens += int(rows["tokens"][prompt].sum())
        self.hit_tokens += int(rows["tokens"][prompt & succeeded & is_hit].sum())


class Gauge:
    """Adds up what an execution does, and tells how far it is.

    Args:
        extent: of the execution.
        clock: in seconds.
    """

    def __init__(self, extent: RunExtent, clock: Callable[[], float] = monotonic) -> None:
        self._extent = extent
        self._clock = clock
        self._sums = LogSums()
        self._began_s: float | None = None
        self._samples = deque([(clock(), self._sums.moved.copy())])
        self._drain: tuple[float, int] | None = None

    def add(self, records: Records) -> None:
        """Add rows of the log."""
        if self._began_s is None:  # the engine plans ahead before its clock starts
            self._began_s = self._clock()
            self._samples[0] = (self._began_s, self._sums.moved.copy())
        self._sums.add(records)

    def begins_drain(self, state: State) -> bool:
        """Return whether a drain has begun since the figures were read: it may be too short for a frame."""
        return bool(state.cut) and self._drain is None

    def read(self, state: State) -> Figures:
        """Return the figures as of now, from the engine's state."""
        now_s = self._clock()
        prompt = self._sums.prompt_tokens
        return replace(
            self._measure_progress(state, now_s),
            ops_left=state.left if state.cut else None,
            tiers=self._find_rates(now_s),
            hit_rate=self._sums.hit_tokens / prompt if prompt else None,
            in_flight=state.in_flight,
            queued=state.queued,
            failures=state.failures,
            ranks=self._extent.ranks,
        )

    def _measure_progress(self, state: State, now_s: float) -> Figures:
        """Return how far the execution, or its drain, is: by its time limit, else by ops."""
        span = self._extent.span
        began_s = now_s if self._began_s is None else self._began_s
        done, total, limit_s = state.retired, self._extent.ops_to_do, span.duration_s
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
        span = self._extent.span
        return state.steady_ns < 0 and bool(span.warmup_ops or span.warmup_s)

    def _find_rates(self, now_s: float) -> dict[str, TierRate]:
        """Return what each tier moved per second since a second ago."""
        samples = self._samples
        samples.append((now_s, self._sums.moved.copy()))
        # Of samples older than a second only the youngest stays: the rate is since then.
        while len(samples) > 2 and now_s - samples[1][0] >= NOW_S:
            samples.popleft()
        (then_s, before), (_, after) = samples[0], samples[-1]
        # A run's first rows may have been taken a moment ago, but they were not moved in a moment.
        rates = (after - before) / (max(now_s - then_s, NOW_S) * _GIB)
        return {TIERS[tier]: TierRate(*map(float, rates[tier])) for tier in self._extent.tiers}


def estimate_left_s(done: float, total: float, elapsed_s: float) -> float | None:
    """Return the time left if the rest goes as fast as what is done; None: nothing is done."""
    return elapsed_s * (total - done) / done if done > 0 else None
