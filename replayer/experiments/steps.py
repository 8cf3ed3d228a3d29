"""The measurements of a search for users: trials, steps of several trials, targets, a result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Final, Literal

from tracegen.errors import format_count

Decision = Literal["up", "down", "stop", "confirm"]

T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, 97.5%, by degrees of freedom from 1 (NIST/SEMATECH e-Handbook, table 1.3.6.7.2)."""
T975_LIMIT: Final = 1.96
"""Student's t, 97.5%, with more degrees of freedom than T975 has."""
TIGHT_SHARE: Final = 0.05
"""Half an interval over its middle, up to which it is tight."""
DECISIVE_FACTOR: Final = 1.5
"""If a single trial is off the target by this factor, it decides where to search next."""
MAX_STRETCH: Final = 8
"""The longest trial, over the duration asked for, that a step tries to get enough samples."""


@dataclass(frozen=True)
class MeasuredTrial:
    """The measurements of one replay.

    Attributes:
        value: of the metric that the search goes by; None: not measured, as latency without reads.
        throughput: of the nvme tier, reads and writes together, in GiB/s; None: not measured.
        p95_ms: of reads from the nvme tier; None: nothing was read.
        saturation: share of the time in which the busiest tier was busy.
        run: its directory.
        count: samples behind `value`; None: the metric does not count any.
        reads: samples behind `p95_ms`.
        ended: whether the trace ended before the time limit, so that a longer trial brings nothing.
        predicted: whether it was predicted: then there is no interval.
    """

    value: float | None
    throughput: float | None
    p95_ms: float | None
    saturation: float
    run: str = ""
    count: int | None = None
    reads: int = 0
    ended: bool = False
    predicted: bool = False


@dataclass
class Step:
    """A number of users, and the trials made with it.

    Attributes:
        users: in each trial.
        trials: that count.
        decision: what the search did next.
        reason: for the decision.
        least: samples that a trial's value must rest on.
        must_last: whether a trial whose trace ended is no evidence.
        stretch: the duration of its trials, over the duration asked for.
        short_trials: repeated with a longer duration, because they had too few samples.
        given_up: whether a longer duration did not help either.
    """

    users: int
    trials: list[MeasuredTrial] = field(default_factory=list)
    decision: Decision = "stop"
    reason: str = ""
    least: int = 1
    must_last: bool = False
    stretch: int = 1
    short_trials: list[MeasuredTrial] = field(default_factory=list)
    given_up: bool = False

    @property
    def values(self) -> list[float]:
        """The metric's value in each trial that measured one."""
        return [trial.value for trial in self.trials if trial.value is not None]

    @property
    def count(self) -> int | None:
        """The fewest samples behind a trial's value; None: not counted."""
        return min((trial.count for trial in self.trials if trial.count is not None), default=None)

    @property
    def shortcoming(self) -> str | None:
        """Why the step is no evidence; None: it is."""
        if len(self.values) < max(1, len(self.trials)):
            return "not measured"
        if self.count is not None and self.count < self.least:
            samples = format_count(self.count, "sample")
            return f"{self.mean:.4g} from {samples}, fewer than {self.least:,}"
        if self.must_last and any(trial.ended for trial in self.trials):
            return f"{self.mean:.4g} until the trace ended, before the time limit"
        return None

    @property
    def is_evidence(self) -> bool:
        """Whether every trial measured a value from enough samples."""
        return self.shortcoming is None

    @property
    def mean(self) -> float:
        """The mean of the values; 0 without any."""
        return fmean(self.values) if self.values else 0.0

    @property
    def saturation(self) -> float:
        """The mean share of the time in which the busiest tier was busy."""
        return fmean(trial.saturation for trial in self.trials)

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval: of several trials."""
        return len(self.values) > 1

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the mean by Student's t, at least 0; of one trial, all numbers."""
        values = self.values
        freedom = len(values) - 1
        if freedom < 1:
            return -math.inf, math.inf
        t = T975[freedom - 1] if freedom <= len(T975) else T975_LIMIT
        half = t * stdev(values) / math.sqrt(len(values))
        return max(0.0, self.mean - half), self.mean + half

    @property
    def is_tight(self) -> bool:
        """Whether the interval is tight."""
        low, high = self.interval
        return high - low <= 2 * TIGHT_SHARE * abs(self.mean)

    @property
    def basis(self) -> str:
        """The trials, or the prediction, that its value rests on."""
        is_predicted = any(trial.predicted for trial in self.trials)
        return "a prediction" if is_predicted else format_count(len(self.trials), "trial")

    @property
    def no_interval(self) -> str:
        """The reason for having no interval."""
        return f"{self.basis} has no interval"

    def describe(self) -> str:
        """Describe the value, its interval and what it rests on."""
        if shortcoming := self.shortcoming:
            return shortcoming
        basis = self.basis
        if self.count is not None:
            basis = f"n {self.count:,}, {basis}"
        if not self.has_interval:
            return f"{self.mean:.4g} ({basis})"
        low, high = self.interval
        return f"{self.mean:.4g} ({low:.4g} to {high:.4g}, {basis})"

    def lengthen(self) -> bool:
        """Start again with longer trials if they can have enough samples; return whether it did."""
        if not self.count or any(trial.ended for trial in self.trials):
            return False
        needed = 2 ** math.ceil(math.log2(1.1 * self.stretch * self.least / self.count))
        if not self.stretch < needed <= MAX_STRETCH:
            return False
        self.short_trials += self.trials
        self.trials = []
        self.stretch = needed
        return True

    @property
    def throughput(self) -> float | None:
        """The mean throughput of the nvme tier; None: not measured."""
        rates = [trial.throughput for trial in self.trials if trial.throughput is not None]
        return fmean(rates) if rates else None

    @property
    def tail(self) -> tuple[float | None, int]:
        """The highest P95 of the trials in ms, and the samples behind it."""
        tails = [(trial.p95_ms, trial.reads) for trial in self.trials if trial.p95_ms is not None]
        return max(tails, default=(None, 0))

    def row(self) -> dict[str, object]:
        """Return the step as autoscale.json holds it."""
        p95_ms, p95_n = self.tail
        return {
            "users": self.users,
            "trials": len(self.trials),
            "value": self.mean if self.values else None,
            "interval": list(self.interval) if self.has_interval else None,
            "n": self.count,
            "evidence": self.is_evidence,
            "times_duration": self.stretch,
            "throughput_gib_s": self.throughput,
            "p95_ms": p95_ms,
            "p95_n": p95_n,
            "saturation": self.saturation,
            "decision": self.decision,
            "reason": self.reason,
            "runs": [trial.run for trial in self.trials],
            "short_runs": [trial.run for trial in self.short_trials],
        }


@dataclass(frozen=True)
class Target:
    """A bound on a metric's value.

    Attributes:
        value: the bound.
        at_most: whether it is an upper limit.
    """

    value: float
    at_most: bool = True

    def describe(self) -> str:
        """Describe the bound."""
        return f"at {'most' if self.at_most else 'least'} {self.value:g}"

    def is_met_by(self, value: float) -> bool:
        """Whether a value is within the bound."""
        return value <= self.value if self.at_most else value >= self.value

    def is_decided_by(self, step: Step) -> bool:
        """Whether a step's trials tell where to search next; a single one does if it is far off."""
        if len(step.trials) == 1:
            ratio = step.mean / self.value if self.value else math.inf
            return not 1 / DECISIVE_FACTOR < ratio < DECISIVE_FACTOR
        return step.is_tight or self.is_excluded_by(step)

    def is_confirmed_by(self, step: Step) -> bool:
        """Whether a step with an interval tells where to search next."""
        return step.has_interval and self.is_decided_by(step)

    def is_excluded_by(self, step: Step) -> bool:
        """Whether the bound is outside the step's interval; a single trial has none."""
        low, high = step.interval
        return step.has_interval and self.is_met_by(low) == self.is_met_by(high)


@dataclass(frozen=True)
class Result:
    """The answer of a search.

    Attributes:
        users: 0: not even one user meets the target; None: too little was measured.
        sure: whether the trials leave no doubt.
        text: sentences that say so.
        knee: users to mark in a plot.
        peak: the throughput reached, if the search was for capacity.
        doubts: why it is not sure.
    """

    users: int | None
    sure: bool
    text: str
    knee: int | None
    peak: float | None = None
    doubts: Sequence[str] = ()
