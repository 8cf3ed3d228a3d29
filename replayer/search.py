"""The search for how many users a system carries: the most under a target, or where its throughput peaks.

Nothing here measures: what a number of users gives in a trial is an argument, so that tests search systems whose answer
is known.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final, Literal

Decision = Literal["up", "down", "stop", "confirm"]

T975: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t, 97.5%, by degrees of freedom from 1 (NIST/SEMATECH e-Handbook, table 1.3.6.7.2); 1.96 beyond."""
TIGHT: Final = 0.05  # half an interval over its middle
FAR: Final = 1.5  # one trial decides where it is that many times off the target
GROWS: Final = 1.1  # doubling goes on while throughput grows by a tenth
STEEPLY: Final = 1.5  # one trial decides where throughput grows so much
STALLS: Final = 1.02  # below, it has stopped growing
NEAR_PEAK: Final = 0.95


@dataclass(frozen=True)
class Sample:
    """A trial.

    Attributes:
        value: what is searched by; None where the run has none of it, as latency of a tier that nothing touched.
        throughput: GiB/s, or what was asked for.
        p95_ms: of storage.
        saturation: share of the time that the busiest tier was busy.
        run: its directory.
    """

    value: float | None
    throughput: float
    p95_ms: float | None
    saturation: float
    run: str = ""


@dataclass
class Step:
    """A number of users, in as many trials as it took.

    Attributes:
        why: what was decided and for which reason, once it was.
    """

    users: int
    samples: list[Sample] = field(default_factory=list)
    decision: Decision = "stop"
    why: str = ""

    @property
    def values(self) -> list[float]:
        """Of the trials; nothing to wait for is no wait."""
        return [sample.value or 0.0 for sample in self.samples]

    @property
    def mean(self) -> float:
        """Of the values."""
        return fmean(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """95%, by Student's t over trials, from 0 on as no metric is below; of one trial all numbers."""
        values = self.values
        if len(values) == 1:
            return -math.inf, math.inf
        t = T975[len(values) - 2] if len(values) - 2 < len(T975) else 1.96
        half = t * stdev(values) / math.sqrt(len(values))
        return max(0.0, self.mean - half), self.mean + half

    @property
    def tight(self) -> bool:
        """Whether the interval is within TIGHT of its middle."""
        low, high = self.interval
        return high - low <= 2 * TIGHT * abs(self.mean)


Measure = Callable[[int, int], Sample]
"""What so many users give in a trial."""


@dataclass(frozen=True)
class Target:
    """What a value must keep to.

    Attributes:
        at_most: whether it is an upper limit.
    """

    value: float
    at_most: bool = True

    def keeps(self, value: float) -> bool:
        """Whether a value does."""
        return value <= self.value if self.at_most else value >= self.value

    def decided(self, step: Step) -> bool:
        """Whether a step's trials tell on which side it is."""
        if len(step.samples) == 1:
            off = step.mean / self.value if self.value else math.inf
            return not 1 / FAR < off < FAR
        low, high = step.interval
        return step.tight or self.keeps(low) == self.keeps(high)

    def clear(self, step: Step) -> bool:
        """Whether the whole interval is on one side; a single trial must be far from the target."""
        low, high = step.interval
        return self.decided(step) if len(step.samples) == 1 else self.keeps(low) == self.keeps(high)


@dataclass(frozen=True)
class Result:
    """What was found.

    Attributes:
        users: the answer: 0 where not even one user keeps the target.
        sure: whether the trials leave no doubt.
        text: the sentence that says so.
        knee: users to mark in a plot.
        peak: the throughput reached, in capacity mode.
    """

    users: int
    sure: bool
    text: str
    knee: int
    peak: float | None = None


class Search:
    """Steps so far, each number of users once.

    Args:
        metric: what it searches by, for its sentences.
        measure: makes a trial.
        most: users that there are.
        trials: at most, of a step.
        precision: bisection ends where the bounds are that close, as a share of the lower one.
        told: hears of each step when it is decided.
    """

    def __init__(
        self, metric: str, measure: Measure, most: int, trials: int, precision: float, told: Callable[[Step], object]
    ) -> None:
        self.steps: list[Step] = []
        self._metric = metric
        self._measure, self._most, self._trials, self._precision, self._told = measure, most, trials, precision, told

    def _step(self, users: int, enough: Callable[[Step], bool]) -> Step:
        """Trials of so many users until they are enough; again, more are added to those there are."""
        step = next((one for one in self.steps if one.users == users), None)
        if step is None:
            self.steps.append(step := Step(users))
        while not step.samples or (not enough(step) and len(step.samples) < self._trials):
            step.samples.append(self._measure(users, len(step.samples) + 1))
        return step

    def _decide(self, step: Step, decision: Decision, why: str) -> None:
        step.decision, step.why = decision, why
        self._told(step)

    def _between(self, low: int, high: int) -> int | None:
        """Where to look next; None where it is precise enough."""
        return (low + high) // 2 if high - low > max(1, math.floor(low * self._precision)) else None

    def qos(self, target: Target) -> Result:
        """The most users that keep a target: doubled until they do not, then bisected."""
        good, bad, users = None, None, 1
        while True:
            step = self._step(users, target.decided)
            keeps = target.keeps(step.mean)
            shown = f"{self._metric} {_spread(step)}, {'within' if keeps else 'beyond'} {target.value:g}"
            good, bad = (step, bad) if keeps else (good, step)
            following = (
                min(users * 2, self._most) if bad is None else self._between(good.users if good else 0, bad.users)
            )
            if following is None or following == users:
                self._decide(step, "stop", shown)
                return self._qos_result(target, good, bad)
            self._decide(step, "up" if keeps else "down", shown)
            users = following

    def _qos_result(self, target: Target, good: Step | None, bad: Step | None) -> Result:
        limit = f"{'at or below' if target.at_most else 'at or above'} {target.value:g}"
        if good is None:
            assert bad is not None, "one of them was measured"
            return Result(0, target.clear(bad), f"not even 1 user: {self._metric} {_spread(bad)} is not {limit}.", 1)
        held = f"{_count(good.users)}: {self._metric} {_spread(good)}, {limit}"
        if bad is None:
            return Result(good.users, target.clear(good), f"{held}. {_ALL}.", good.users)
        unclear = [f"{step.users:,}" for step in (good, bad) if not target.clear(step)]
        sure = (
            f"Not sure: intervals include the target at {' and '.join(unclear)}"
            if unclear
            else "Sure: no interval includes the target"
        )
        text = f"{held}; {_count(bad.users)}: {_spread(bad)}, not. {sure}."
        return Result(good.users, not unclear, text, good.users)

    def capacity(self) -> Result:
        """Where throughput peaks, and the fewest users that reach 95% of it."""
        best = self._step(1, self._steady(None))
        self._decide(best, "up", _spread(best))
        best = self._grow(2, GROWS, best)
        best = self._climb(self._grow(1.5, STALLS, best))
        while True:
            best = self._step(best.users, lambda step: len(step.samples) > 2 and step.tight)
            self._decide(best, "confirm", f"the peak: {self._metric} {_spread(best)}")
            few = self._fewest(best)
            top = max(self.steps, key=lambda step: step.mean)
            if top.mean <= STALLS * best.mean:
                break
            best = top
        near = f"{few.mean / best.mean:.0%} of it at {_count(few.users)}" if best.mean else "nothing was moved"
        ends = [f"peak {self._metric} {_spread(best)} at {_count(best.users)}; {near}"]
        ends += [_ALL] if best.users == self._most else []
        wide = [one.users for one in (best, few) if not one.tight]
        ends += (
            [f"Not sure: intervals stay wider than {TIGHT:.0%} of their middle"] if wide else ["Sure: both are tight"]
        )
        return Result(
            few.users, not wide, ". ".join(ends)[:1].upper() + ". ".join(ends)[1:] + ".", few.users, best.mean
        )

    def _steady(self, before: Step | None) -> Callable[[Step], bool]:
        """Enough trials: one where throughput grows steeply, else until the interval is tight."""
        return lambda step: before is None or step.mean >= STEEPLY * before.mean or step.tight

    def _grow(self, factor: float, grows: float, best: Step) -> Step:
        """More users, by a factor, while throughput grows by another."""
        users = best.users
        while users < self._most:
            users = min(math.ceil(users * factor), self._most)
            step = self._step(users, self._steady(best))
            gain = step.mean / best.mean if best.mean else math.inf
            shown = f"{_spread(step)}, {gain:.2f} times that of {_count(best.users)}"
            if step.mean > best.mean:
                best = step
            self._decide(step, "up" if gain >= grows else "stop", shown)
            if gain < grows:
                break
        return best

    def _climb(self, best: Step) -> Step:
        """Between the best and its neighbours, where the peak may lie, while that is better."""
        while True:
            known = sorted(step.users for step in self.steps)
            place = known.index(best.users)
            beside = [(known[place - 1] + best.users) // 2] if place else []
            beside += [(best.users + known[place + 1]) // 2] if place + 1 < len(known) else []
            before = best
            for users in (one for one in beside if one not in known):
                step = self._step(users, self._steady(best))
                self._decide(step, "confirm", f"{_spread(step)}, beside the best")
                best = max(best, step, key=lambda one: one.mean)
            if best.mean <= STALLS * before.mean:
                return best

    def _fewest(self, best: Step) -> Step:
        """The fewest users with NEAR_PEAK of the best throughput."""
        enough = NEAR_PEAK * best.mean
        few = min((step for step in self.steps if step.mean >= enough), key=lambda step: step.users)
        below = max((step.users for step in self.steps if step.users < few.users), default=0)
        while (users := self._between(below, few.users)) is not None:
            step = self._step(users, lambda step: step.tight)
            reaches = step.mean >= enough
            self._decide(step, "down" if reaches else "up", f"{_spread(step)}, {step.mean / best.mean:.0%} of the peak")
            few, below = (step, below) if reaches else (few, users)
        return self._step(few.users, lambda step: step.tight)


_ALL: Final = "These are all users that the trace has: a larger one may show more"


def _count(users: int) -> str:
    return f"{users:,} user{'' if users == 1 else 's'}"


def _spread(step: Step) -> str:
    if len(step.samples) == 1:
        return f"{step.mean:.4g} (1 trial)"
    low, high = step.interval
    return f"{step.mean:.4g} ({low:.4g} to {high:.4g}, {len(step.samples)} trials)"


def stats(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """`autoscaling_stats`: a row per step, in the order taken."""
    return [
        {
            "users": step.users,
            "trials": len(step.samples),
            "value": step.mean,
            "interval": None if len(step.samples) == 1 else list(step.interval),
            "throughput_gib_s": fmean(sample.throughput for sample in step.samples),
            "p95_ms": max((sample.p95_ms for sample in step.samples if sample.p95_ms is not None), default=None),
            "saturation": fmean(sample.saturation for sample in step.samples),
            "decision": step.decision,
            "reason": step.why,
            "runs": [sample.run for sample in step.samples],
        }
        for step in steps
    ]
