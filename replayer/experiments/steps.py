"""The measurements of a search for users: trials, steps of several trials, targets, a result."""

import math
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Final, Literal

Decision = Literal["up", "down", "stop", "confirm"]

MOST_TRIALS: Final = 10
# Student's t, 97.5%, of 2 to MOST_TRIALS values (NIST/SEMATECH e-Handbook, table 1.3.6.7.2)
T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
# Half an interval over its middle, up to which it is tight
TIGHT_SHARE: Final = 0.05
# If a single trial is off the target by this factor, it decides where to search next
DECISIVE_FACTOR: Final = 1.5


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
        is_enough: whether the value rests on enough samples, and on all of the time if it must.
    """

    value: float | None
    throughput: float | None
    p95_ms: float | None
    saturation: float
    run: str = ""
    count: int | None = None
    reads: int = 0
    is_enough: bool = True


@dataclass
class Step:
    """A number of users, the trials made with it, and what the search did next."""

    users: int
    trials: list[MeasuredTrial] = field(default_factory=list)
    decision: Decision = "stop"

    @property
    def values(self) -> list[float]:
        """The metric's value in each trial that measured one."""
        return [trial.value for trial in self.trials if trial.value is not None]

    @property
    def is_evidence(self) -> bool:
        """Whether every trial measured enough."""
        return bool(self.trials) and all(trial.is_enough and trial.value is not None for trial in self.trials)

    @property
    def mean(self) -> float:
        """The mean of the values; 0 without any."""
        return fmean(self.values) if self.values else 0.0

    @property
    def saturation(self) -> float:
        """The mean share of the time in which the busiest tier was busy."""
        return fmean(trial.saturation for trial in self.trials)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the mean by Student's t, at least 0; of one trial there is none."""
        values = self.values
        if len(values) < 2:
            return None
        half = T975[len(values) - 2] * stdev(values) / math.sqrt(len(values))
        # Latencies, rates and shares are never negative.
        return max(0.0, self.mean - half), self.mean + half

    @property
    def is_tight(self) -> bool:
        """Whether there is an interval, and it is tight."""
        if self.interval is None:
            return False
        low, high = self.interval
        return high - low <= 2 * TIGHT_SHARE * abs(self.mean)

    def row(self) -> dict[str, object]:
        """Return the step as autoscale.json holds it; its P95 is the highest of the trials."""
        rates = [trial.throughput for trial in self.trials if trial.throughput is not None]
        tails = [(trial.p95_ms, trial.reads) for trial in self.trials if trial.p95_ms is not None]
        p95_ms, p95_n = max(tails, default=(None, 0))
        return {
            "users": self.users,
            "trials": len(self.trials),
            "value": self.mean if self.values else None,
            "interval": self.interval,
            "n": min((trial.count for trial in self.trials if trial.count is not None), default=None),
            "evidence": self.is_evidence,
            "throughput_gib_s": fmean(rates) if rates else None,
            "p95_ms": p95_ms,
            "p95_n": p95_n,
            "saturation": self.saturation,
            "decision": self.decision,
            "runs": [trial.run for trial in self.trials],
        }


@dataclass(frozen=True)
class Target:
    """A bound on a metric's value, an upper limit or a lower one."""

    value: float
    at_most: bool = True

    def is_met_by(self, value: float) -> bool:
        """Whether a value is within the bound."""
        return value <= self.value if self.at_most else value >= self.value

    def is_decided_by(self, step: Step) -> bool:
        """Whether a step's trials tell where to search next; a single one does if it is far off."""
        # Far off the target, trials are better spent on other numbers of users.
        if len(step.trials) == 1:
            ratio = step.mean / self.value if self.value else math.inf
            return not 1 / DECISIVE_FACTOR < ratio < DECISIVE_FACTOR
        return step.is_tight or self.is_excluded_by(step)

    def is_excluded_by(self, step: Step) -> bool:
        """Whether the bound is outside the step's interval; a single trial has none."""
        if step.interval is None:
            return False
        low, high = step.interval
        return self.is_met_by(low) == self.is_met_by(high)


@dataclass(frozen=True)
class Result:
    """The answer of a search.

    Attributes:
        users: 0: not even one user meets the target; None: too little was measured.
        doubts: why it is not sure.
        peak: the throughput reached, if the search was for capacity.
    """

    users: int | None
    doubts: list[str]
    peak: float | None = None
