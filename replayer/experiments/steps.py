"""What a search for users measures: trials, steps of as many as it takes, targets, and what it found."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final, Literal

from tracegen.errors import format_count

Decision = Literal["up", "down", "stop", "confirm"]

T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, 97.5%, by degrees of freedom from 1 (NIST/SEMATECH e-Handbook, table 1.3.6.7.2); 1.96 beyond."""
TIGHT: Final = 0.05  # half an interval over its middle
FAR: Final = 1.5  # one trial says where to look next where it is that many times off the target
LONGEST: Final = 8
"""A step takes up to so many times the time that was asked for, where that brings enough samples."""


@dataclass(frozen=True)
class Sample:
    """A trial.

    Attributes:
        value: what is searched by; None where the run has none of it, as latency of a tier that nothing touched.
        throughput: of nvme, read and written, in GiB/s; None where it was not measured.
        p95_ms: of nvme reads; None where there were none.
        saturation: share of the time that the busiest tier was busy.
        run: its directory.
        count: samples that the value was computed from; None where the metric has no such count.
        reads: samples of p95_ms.
        ended: whether the trace ended before the time was over, so that more time brings nothing.
    """

    value: float | None
    throughput: float | None
    p95_ms: float | None
    saturation: float
    run: str = ""
    count: int | None = None
    reads: int = 0
    ended: bool = False


@dataclass
class Step:
    """A number of users, in as many trials as it took.

    Attributes:
        least: samples that a trial's value must rest on.
        stretch: how many times the time asked for its trials take.
        short: trials that were repeated for a longer time, because they had too few samples.
        given_up: whether a longer time was no remedy either.
        why: what was decided and for which reason, once it was.
    """

    users: int
    samples: list[Sample] = field(default_factory=list)
    decision: Decision = "stop"
    why: str = ""
    least: int = 1
    stretch: int = 1
    short: list[Sample] = field(default_factory=list)
    given_up: bool = False

    @property
    def values(self) -> list[float]:
        """Of the trials that measured one."""
        return [sample.value for sample in self.samples if sample.value is not None]

    @property
    def count(self) -> int | None:
        """The fewest samples that a trial's value rests on."""
        return min((sample.count for sample in self.samples if sample.count is not None), default=None)

    @property
    def lacks(self) -> str | None:
        """Why it is no evidence; None where it is."""
        if len(self.values) < max(1, len(self.samples)):
            return "not measured"
        if self.count is not None and self.count < self.least:
            return f"{self.mean:.4g} of {format_count(self.count, 'sample')}, fewer than {self.least:,}"
        return None

    @property
    def mean(self) -> float:
        """Of the values; 0 where there are none, so that it is never the best: `lacks` says so."""
        return fmean(self.values) if self.values else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """95%, by Student's t over trials, from 0 on as no metric is below; of one trial all numbers."""
        values = self.values
        if len(values) < 2:
            return -math.inf, math.inf
        t = T975[len(values) - 2] if len(values) - 2 < len(T975) else 1.96
        half = t * stdev(values) / math.sqrt(len(values))
        return max(0.0, self.mean - half), self.mean + half

    @property
    def tight(self) -> bool:
        """Whether the interval is within TIGHT of its middle."""
        low, high = self.interval
        return high - low <= 2 * TIGHT * abs(self.mean)

    @property
    def shown(self) -> str:
        """Its value, how far it may be off, and what it rests on."""
        if lacks := self.lacks:
            return lacks
        rests = format_count(len(self.samples), "trial")
        if self.count is not None:
            rests = f"n {self.count:,}, {rests}"
        if len(self.samples) == 1:
            return f"{self.mean:.4g} ({rests})"
        low, high = self.interval
        return f"{self.mean:.4g} ({low:.4g} to {high:.4g}, {rests})"

    def lengthen(self) -> bool:
        """Begin anew with a longer time where that brings enough samples; whether it did."""
        if not self.count or any(sample.ended for sample in self.samples):
            return False
        needed = 2 ** math.ceil(math.log2(1.1 * self.stretch * self.least / self.count))
        if not self.stretch < needed <= LONGEST:
            return False
        self.short, self.samples, self.stretch = [*self.short, *self.samples], [], needed
        return True


@dataclass(frozen=True)
class Target:
    """What a value must keep to.

    Attributes:
        at_most: whether it is an upper limit.
    """

    value: float
    at_most: bool = True

    @property
    def limit(self) -> str:
        """In words."""
        return f"at {'most' if self.at_most else 'least'} {self.value:g}"

    def keeps(self, value: float) -> bool:
        """Whether a value does."""
        return value <= self.value if self.at_most else value >= self.value

    def decided(self, step: Step) -> bool:
        """Whether a step's trials say where to look next; a single one does where it is far off."""
        if len(step.samples) == 1:
            off = step.mean / self.value if self.value else math.inf
            return not 1 / FAR < off < FAR
        return step.tight or self.clear(step)

    def confirmed(self, step: Step) -> bool:
        """Whether more than one trial does."""
        return len(step.samples) > 1 and self.decided(step)

    def clear(self, step: Step) -> bool:
        """Whether the whole interval is on one side; a single trial has none."""
        low, high = step.interval
        return len(step.samples) > 1 and self.keeps(low) == self.keeps(high)


@dataclass(frozen=True)
class Result:
    """What was found.

    Attributes:
        users: the answer: 0 where not even one user keeps the target; None where too little was measured for one.
        sure: whether the trials leave no doubt.
        text: the sentence that says so.
        knee: users to mark in a plot.
        peak: the throughput reached, in capacity mode.
    """

    users: int | None
    sure: bool
    text: str
    knee: int | None
    peak: float | None = None


def stats(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """`autoscaling_stats`: a row per step, in the order taken."""
    return [_row(step) for step in steps]


def _row(step: Step) -> dict[str, Any]:
    rates = [sample.throughput for sample in step.samples if sample.throughput is not None]
    tails = [(sample.p95_ms, sample.reads) for sample in step.samples if sample.p95_ms is not None]
    p95_ms, p95_n = max(tails, default=(None, 0))
    return {
        "users": step.users,
        "trials": len(step.samples),
        "value": step.mean if step.values else None,
        "interval": list(step.interval) if len(step.values) > 1 else None,
        "n": step.count,
        "evidence": step.lacks is None,
        "times_duration": step.stretch,
        "throughput_gib_s": fmean(rates) if rates else None,
        "p95_ms": p95_ms,
        "p95_n": p95_n,
        "saturation": fmean(sample.saturation for sample in step.samples),
        "decision": step.decision,
        "reason": step.why,
        "runs": [sample.run for sample in step.samples],
        "short_runs": [sample.run for sample in step.short],
    }
