"""The figures of an execution while it runs, for whoever watches it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

from replayer.bindings.compiled import State
from replayer.bindings.figures import LogFigures
from replayer.live.figures import Figures, TierRate
from replayer.planning.executing import Records
from replayer.planning.pace import Span
from replayer.planning.plan import Plan
from replayer.record.columns import TIERS

NOW_S: Final = 1.0
"""The least time over which a rate of now is taken."""
_P95: Final = 0.95
_GIB: Final = 2**30

WARM_UP: Final = "warming up"
REPLAY: Final = "replaying"
DRAIN: Final = "draining"


@dataclass(frozen=True)
class RunExtent:
    """The work of an execution.

    Attributes:
        ops: of the plan.
        span: the part that is executed and measured.
        requests: of the trace; 0: they have no time.
        tiers: numbers of the tiers that it uses.
        ranks: processes that execute it; each counts its own moves.
    """

    ops: int
    span: Span
    requests: int = 0
    tiers: tuple[int, ...] = ()
    ranks: int = 1

    @property
    def ops_to_do(self) -> int:
        """Ops to execute, if no time limit cuts them."""
        return self.ops if self.span.ops is None else min(self.ops, self.span.ops)

    @property
    def has_warmup(self) -> bool:
        """Whether metrics leave a start out."""
        return bool(self.span.warmup_ops or self.span.warmup_s)


def describe_extent(plan: Plan, span: Span, ranks: int) -> RunExtent:
    """Describe the part of a plan that is executed."""
    is_timed = plan.options.demand.pace.kind != "asap"
    return RunExtent(
        ops=plan.workload.ops,
        span=span,
        requests=plan.workload.requests if is_timed else 0,
        tiers=tuple(tier for tier, size in enumerate(plan.usable) if size != 0),
        ranks=ranks,
    )


class Gauge:
    """Adds up what an execution does, and tells how far it is.

    Args:
        extent: of the execution.
        clock: in seconds.
    """

    def __init__(self, extent: RunExtent, clock: Callable[[], float] = monotonic) -> None:
        self._extent = extent
        self._clock = clock
        self._log = LogFigures(extent.requests)
        self._began_s: float | None = None
        self._samples = deque([(clock(), self._log.tier_bytes())])
        self._drain: tuple[float, int] | None = None

    def add(self, records: Records) -> None:
        """Add rows of the log."""
        if self._began_s is None:  # the engine plans ahead before its clock starts
            self._began_s = self._clock()
            self._samples[0] = (self._began_s, self._log.tier_bytes())
        self._log.add(records)

    def read(self, state: State) -> Figures:
        """Return the figures as of now.

        Args:
            state: of the engine.
        """
        now_s = self._clock()
        stage, unit, done, total, left_s = self._find_progress(state, now_s)
        log = self._log
        prompt = log.struct.prompt_tokens
        return Figures(
            stage=stage,
            unit=unit,
            done=max(0.0, min(done, total)),
            total=total,
            left_s=left_s,
            ops_left=state.left if state.cut else None,
            tiers=self._find_rates(now_s),
            hit_rate=log.struct.hit_tokens / prompt if prompt else None,
            nvme_read_p95_ms=_to_ms(log.nvme_read_ns(_P95)),
            first_byte_p95_ms=_to_ms(log.first_byte_ns(_P95)),
            in_flight=state.in_flight,
            queued=state.queued,
            failures=state.failures,
            ranks=self._extent.ranks,
        )

    def _find_progress(self, state: State, now_s: float) -> tuple[str, str, float, float, float | None]:
        """Return the stage, the unit, how much is done, how much there is, and the time left."""
        span = self._extent.span
        elapsed_s = 0.0 if self._began_s is None else now_s - self._began_s
        if state.cut:
            return self._find_drain(state, now_s)
        is_warm = not self._extent.has_warmup or state.steady_ns >= 0
        stage = REPLAY if is_warm else WARM_UP
        if span.duration_s is not None:
            return stage, "s", elapsed_s, span.duration_s, max(0.0, span.duration_s - elapsed_s)
        done, total = state.retired, self._extent.ops_to_do
        return stage, "op", done, total, estimate_left_s(done, total, elapsed_s)

    def _find_drain(self, state: State, now_s: float) -> tuple[str, str, float, float, float | None]:
        """Return the same of a drain: by its limit, or by the ops that were left at its start."""
        self._drain = self._drain or (now_s, state.left)
        began_s, ops = self._drain
        elapsed_s = now_s - began_s
        limit_s = self._extent.span.drain_s
        if limit_s is not None:
            return DRAIN, "s", elapsed_s, limit_s, max(0.0, limit_s - elapsed_s)
        done = ops - state.left
        return DRAIN, "op", done, ops, estimate_left_s(done, ops, elapsed_s)

    def _find_rates(self, now_s: float) -> dict[str, TierRate]:
        """Return what each tier moved per second since a second ago."""
        samples = self._samples
        samples.append((now_s, self._log.tier_bytes()))
        while len(samples) > 2 and now_s - samples[1][0] >= NOW_S:
            samples.popleft()
        (then_s, before), (_, after) = samples[0], samples[-1]
        span_bytes = max(now_s - then_s, 1e-9) * _GIB
        rates = {}
        for tier in self._extent.tiers:
            read, written = (end - start for start, end in zip(before[tier], after[tier], strict=True))
            rates[TIERS[tier]] = TierRate(read / span_bytes, written / span_bytes)
        return rates


def estimate_left_s(done: float, total: float, elapsed_s: float) -> float | None:
    """Return the time left if the rest goes as fast as what is done; None: nothing is done."""
    return elapsed_s * (total - done) / done if done > 0 else None


def _to_ms(time_ns: float | None) -> float | None:
    return None if time_ns is None else time_ns / 1e6
