"""The load of a replay: pace, generation and prefill times, parallelism, and how long it lasts."""

from dataclasses import dataclass
from typing import Any, Final

from replayer.bindings.compiled import Load
from replayer.record.options import DurationOrigin, PaceKind
from replayer.record.run_parts import Depth, Milliseconds, Rate
from tracegen.errors import InputError, format_count
from tracegen.typed_files import convert

PACES: Final = ("asap", "closed", "open")
# `analysis` looks for steady rounds of a second, and needs ten to judge.
LEAST_STEADY_S: Final = 10.0
# Users who wait keep their ops in the window, so that a paced run needs a wider one.
_WINDOW_OPS_ASAP: Final = 4096
_WINDOW_OPS_PACED: Final = 65536
# As in run.json, whose readers plan again with them.
_RANGES: Final[dict[str, Any]] = {
    "speedup": Rate,
    "token_ms": Milliseconds,
    "prefill_tok_s": Rate | None,
    "request_depth": Depth | None,
}


@dataclass(frozen=True)
class Pace:
    """When requests start, and how long they take apart from I/O.

    Attributes:
        kind: when a request may start. asap: as soon as the window reaches it. closed: a user's
            first request at its time, the next one its think time after the previous one completed,
            generation included. open: at its time in the trace.
        speedup: divisor of the trace's times and think times.
        token_ms: milliseconds to generate one token.
        prefill_tok_s: tokens per second that a prefill computes; None: a prefill takes no time.
        request_depth: ops of one step in flight at once; None: all.

    Raises:
        InputError: a value is out of its range.
    """

    kind: PaceKind = "asap"
    speedup: float = 1
    token_ms: float = 0
    prefill_tok_s: float | None = None
    request_depth: int | None = 1

    def __post_init__(self) -> None:
        for setting, kind in _RANGES.items():
            convert(getattr(self, setting), kind, setting=setting)

    @property
    def takes_time(self) -> bool:
        """Whether requests take time apart from their I/O."""
        return bool(self.token_ms or self.prefill_tok_s)


@dataclass(frozen=True)
class Demand:
    """The load that a reference order is made under, and that an execution puts on the tiers.

    Attributes:
        pace: when requests start.
        workers: moves in flight at most.
        allocs: stores in flight at most; None: any number.
    """

    pace: Pace
    workers: int
    allocs: int | None = None

    def struct(self) -> Load:
        """Return the load as compiled code reads it."""
        return Load(
            PACES.index(self.pace.kind),
            self.pace.speedup,
            self.pace.token_ms,
            # In compiled code 0 stands for none, or for any number.
            self.pace.prefill_tok_s or 0,
            self.pace.request_depth or 0,
            self.allocs or 0,
            self.workers,
        )


@dataclass(frozen=True)
class Span:
    """The part of a plan that is executed, and the part of that which is measured.

    Attributes:
        duration_s: seconds after which no op beyond the highest one already issued starts; None:
            the run goes on to the end of the plan.
        drain_s: seconds after the cut at which nothing more starts; None: every op that was issued
            is completed, however long it takes.
        ops: number of ops of the plan to execute; None: all.
        warmup_ops: ops below this position are warm-up.
        warmup_s: seconds; ops up to the highest one issued by then are warm-up, too.
        begins_steady: the warm-up ends when the run is steady, which `analysis` finds out.
        max_errors: failed moves that a run survives; one more ends it.
        duration_by: what set duration_s.

    Raises:
        InputError: the warm-up is as long as the run, or the run too short to tell what is steady.
    """

    duration_s: float | None = None
    drain_s: float | None = None
    ops: int | None = None
    warmup_ops: int = 0
    warmup_s: float = 0
    begins_steady: bool = False
    max_errors: int = 100
    duration_by: DurationOrigin = "user"

    def __post_init__(self) -> None:
        if self.duration_s is not None and self.warmup_s >= self.duration_s:
            raise InputError(
                f"`duration` is {self.duration_s:g} s, so nothing would be measured",
                "pass a shorter warm-up",
                subject=f"{self.warmup_s:g}s",
                setting="warmup",
            )

        if self.begins_steady and self.duration_s is not None and self.duration_s < LEAST_STEADY_S:
            raise InputError(
                f"`duration` is {self.duration_s:g} s, and steady takes ten rounds of a second",
                f"pass {LEAST_STEADY_S:g} s or more, or a warm-up in seconds",
                subject="steady",
                setting="warmup",
            )

    def check_warmup(self, plan_ops: int) -> None:
        """Refuse a warm-up that leaves no op to measure.

        Args:
            plan_ops: number of ops of the plan.

        Raises:
            InputError: the warm-up covers all ops of the run.
        """
        # A run in which all is warm-up would end without a single figure.
        run_ops = plan_ops if self.ops is None else min(plan_ops, self.ops)
        if self.warmup_ops >= run_ops:
            extent = "the plan has" if self.ops is None else "`ops` leaves"
            raise InputError(
                f"{extent} {format_count(run_ops, 'op')}, so nothing would be measured",
                "pass fewer ops, or a time such as 30s",
                subject=self.warmup_ops,
                setting="warmup",
            )


@dataclass(frozen=True)
class PlanWindow:
    """The distance that execution may run ahead of the lowest unfinished op; both limits apply.

    Attributes:
        ops: ops admitted but not done.
        bytes: bytes that their moves write; None: any number.
    """

    ops: int = _WINDOW_OPS_ASAP
    bytes: int | None = None

    @classmethod
    def for_pace(cls, pace: Pace, ops: int | None = None, size: int | None = None) -> "PlanWindow":
        """Make a window of the given limits; without a number of ops, as wide as the pace needs."""
        default = _WINDOW_OPS_ASAP if pace.kind == "asap" else _WINDOW_OPS_PACED
        return cls(ops or default, size)
