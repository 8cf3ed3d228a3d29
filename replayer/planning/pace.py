"""What makes requests wait: pace, generation, recomputation, and how much is asked for at once."""

from dataclasses import dataclass
from typing import Final, Literal

from replayer.bindings.compiled import Load
from tracegen.errors import InputError

TOKEN_MS: Final = {"none": 0.0, "fast": 2.0, "realistic": 30.0}  # of kv-cache.py's generation modes
PACES: Final = ("asap", "closed", "open")


@dataclass(frozen=True)
class Pace:
    """When requests ask.

    Attributes:
        kind: when a request may start. asap: as soon as the window holds it. closed: a user's first at its time, the
            next its think time after the last one completed, generation included. open: at its time.
        speedup: divides the trace's times and think times.
        token_ms: generation of one token.
        prefill_tok_s: tokens per second that a prefill computes; None: it takes no time.
        request_depth: ops of one step at once; None: all.
    """

    kind: Literal["asap", "closed", "open"] = "asap"
    speedup: float = 1
    token_ms: float = 0
    prefill_tok_s: float | None = None
    request_depth: int | None = 1

    def check(self) -> None:
        """Refuse what means nothing.

        Raises:
            InputError: a rate is not more than 0, or a time is negative.
        """
        positive = {"--speedup": self.speedup, "--prefill-tok-s": self.prefill_tok_s}
        for flag, value in positive.items():
            if value is not None and not 1e-3 <= value < 1e12:
                raise InputError(f"{flag} {value:g} must be at least 0.001 and below 1e12.")
        if not 0 <= self.token_ms < 1e9:
            raise InputError(f"--token-ms {self.token_ms:g} must be 0 or more, and below 1e9.")
        if self.request_depth is not None and self.request_depth < 1:
            raise InputError(f"--request-depth {self.request_depth} must be at least 1, or all.")

    @property
    def takes_time(self) -> bool:
        """Whether requests take time beyond their I/O."""
        return bool(self.token_ms or self.prefill_tok_s)


@dataclass(frozen=True)
class Demand:
    """The load that a reference order is made under; for an execution what its scheduler needs of it.

    Attributes:
        workers: moves in flight at most.
        allocs: stores in flight at most; None: any number.
    """

    pace: Pace
    workers: int
    allocs: int | None = None

    def struct(self) -> Load:
        """As the core reads it."""
        pace = self.pace
        return Load(
            PACES.index(pace.kind), pace.speedup, pace.token_ms, pace.prefill_tok_s or 0,
            pace.request_depth or 0, self.allocs or 0, self.workers,
        )  # fmt: skip


@dataclass(frozen=True)
class Span:
    """How much of the plan is executed, and from where on it counts.

    Attributes:
        duration_s: after so long nothing past the highest op already issued starts; None: the plan's end.
        drain_s: so long after that nothing starts at all; None: what was issued is completed, however long it takes.
        ops: only the plan's first so many; None: all.
        warmup_ops: ops below this one are warm-up.
        warmup_s: so are ops up to the highest issued by then.
        max_errors: more failed moves end the run.
    """

    duration_s: float | None = None
    drain_s: float | None = None
    ops: int | None = None
    warmup_ops: int = 0
    warmup_s: float = 0
    max_errors: int = 100

    def check(self, ops: int) -> None:
        """Refuse a warm-up after which nothing is left to measure.

        Args:
            ops: of the plan.

        Raises:
            InputError: it is as long as the run.
        """
        most = ops if self.ops is None else min(ops, self.ops)
        if self.warmup_ops >= most:
            whose = "the plan has" if self.ops is None else "--ops leaves"
            left = "so nothing would be measured; pass fewer, or a time, as 30s"
            raise InputError(f"--warmup {self.warmup_ops}: {whose} {most:,} ops, {left}.")
        if self.duration_s is not None and self.warmup_s >= self.duration_s:
            left = f"--duration is {self.duration_s:g} s, so nothing would be measured; pass less"
            raise InputError(f"--warmup {self.warmup_s:g}s: {left}.")


@dataclass(frozen=True)
class Window:
    """How far the plan runs ahead of the lowest unfinished op: no op is admitted beyond either limit.

    Attributes:
        ops: admitted and not done.
        bytes: that their moves write; None: any number.
    """

    ops: int = 4096
    bytes: int | None = None

    @classmethod
    def of(cls, pace: Pace, ops: int | None = None, size: int | None = None) -> "Window":
        """As wide as a pace asks for, where nobody has said how wide."""
        return cls(ops or (4096 if pace.kind == "asap" else 65536), size)
