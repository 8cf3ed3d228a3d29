"""The search for how many users a system carries.

It looks for the most users that meet a target, or for those at which throughput peaks. Nothing here
measures: a callable returns the measurements of a trial, so that tests can search systems whose
answer is known.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from replayer.experiments.steps import TIGHT_SHARE, Decision, MeasuredTrial, Result, Step, Target
from tracegen.errors import format_count

# A single trial decides if throughput grows by this factor
STEEP_GAIN: Final = 1.5
# Throughput that grows by less has stopped growing
MIN_GAIN: Final = 1.02
SearchMode = Literal["qos", "capacity"]
LATENCY: Final = "ttfb_p95_ms"
THROUGHPUT: Final = "steady_nvme_read_gib_s+steady_nvme_write_gib_s"
NEAR_PEAK: Final = 0.95
LEAST_SATURATION: Final = 0.8  # share of the time; a tier that is less busy can do more
NO_INTERVAL: Final = "one trial has no interval"

# Measures one trial: (users, number of the trial)
Measure = Callable[[int, int], MeasuredTrial]


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """The bounds of a search.

    Attributes:
        users: the most in a step.
        trials: the most in a step.
        precision: bisection ends if the bounds are this close, as a share of the lower one.
        near: share of the peak that the fewest users must reach.
    """

    users: int
    trials: int
    precision: float
    near: float = NEAR_PEAK


class _Bounds(NamedTuple):
    """The steps next to the answer: the most users known to meet the target, the fewest to miss it."""

    good: Step | None
    bad: Step | None

    @property
    def low(self) -> int:
        """The most users known to meet the target; 0: not even one is known to."""
        return self.good.users if self.good else 0


class Search:
    """The steps of a search, each number of users once.

    Args:
        measure: makes a trial.
        limits: of the search.
        report: gets each step when the search has decided about it.

    Attributes:
        steps: in the order taken.
    """

    def __init__(
        self, measure: Measure, limits: SearchLimits, report: Callable[[Step], object] = lambda _step: None
    ) -> None:
        self.steps: list[Step] = []
        self._measure = measure
        self._limits = limits
        self._report = report

    def _try(self, users: int, is_decided: Callable[[Step], bool]) -> Step:
        """Make trials with a number of users until they decide; continue a step that exists.

        A step whose trials measured too little gets no more of them: they would measure no more.
        """
        step = next((step for step in self.steps if step.users == users), None)
        if step is None:
            step = Step(users)
            self.steps.append(step)
        while not step.trials or (step.is_evidence and len(step.trials) < self._limits.trials and not is_decided(step)):
            step.trials.append(self._measure(users, len(step.trials) + 1))
        return step

    def _decide(self, step: Step, decision: Decision) -> None:
        """Record what follows from a step, and report it."""
        step.decision = decision
        self._report(step)

    def _bisect(self, low: int, high: int) -> int | None:
        """Return the users halfway; None: the bounds are close enough."""
        is_close = high - low <= max(1, math.floor(low * self._limits.precision))
        return None if is_close else (low + high) // 2

    def _list_evidence(self) -> list[Step]:
        """Return the steps that are evidence, by users."""
        evidence = [step for step in self.steps if step.is_evidence]
        return sorted(evidence, key=lambda step: step.users)

    def find_most_users(self, target: Target) -> Result:
        """Find the most users that meet a target: double until they miss it, bisect, confirm."""
        while True:
            bounds = self._find_bounds(target)
            users = self._next_users(bounds)
            if users is not None:
                step = self._try(users, target.is_decided_by)
                self._decide(step, self._choose_decision(target, step))
                continue
            unconfirmed = self._find_unconfirmed(bounds)
            if unconfirmed is None:
                return self._conclude_users(target, bounds)
            step = self._try(unconfirmed.users, lambda step: step.interval is not None and target.is_decided_by(step))
            self._decide(step, "confirm")

    def _find_bounds(self, target: Target) -> _Bounds:
        """Return the steps next to the answer, of those that are evidence."""
        evidence = self._list_evidence()
        # The first miss: more users that meet the target again do so by chance.
        bad = next((step for step in evidence if not target.is_met_by(step.mean)), None)
        met = [step for step in evidence if target.is_met_by(step.mean)]
        good = [step for step in met if bad is None or step.users < bad.users]
        return _Bounds(good[-1] if good else None, bad)

    def _next_users(self, bounds: _Bounds) -> int | None:
        """Return the users of the next step; None: no step can tell more."""
        if bounds.bad is None:
            top = max((step.users for step in self.steps), default=0)
            return min(max(1, top * 2), self._limits.users) if top < self._limits.users else None
        # Fewer users than those with whom too little was measured would measure even less.
        unmeasured = [users for users in self._list_unmeasured(bounds) if users < bounds.bad.users]
        return self._bisect(max([bounds.low, *unmeasured]), bounds.bad.users)

    def _find_unconfirmed(self, bounds: _Bounds) -> Step | None:
        """Return a step next to the answer that a further trial could confirm."""
        if bounds.good is None and self._list_unmeasured(bounds):
            return None  # the answer is not known, whatever the other bound is
        # One trial has no interval, so it cannot be sure.
        least_trials = min(2, self._limits.trials)
        steps = [step for step in (bounds.good, bounds.bad) if step is not None]
        return next((step for step in steps if len(step.trials) < least_trials), None)

    def _list_unmeasured(self, bounds: _Bounds) -> list[int]:
        """Return the numbers of users between the bounds with which too little was measured."""
        high = bounds.bad.users if bounds.bad else self._limits.users + 1
        inside = (step for step in self.steps if bounds.low < step.users < high)
        return sorted(step.users for step in inside if not step.is_evidence)

    def _choose_decision(self, target: Target, step: Step) -> Decision:
        if self._next_users(self._find_bounds(target)) is None:
            return "stop"
        return "up" if not step.is_evidence or target.is_met_by(step.mean) else "down"

    def _conclude_users(self, target: Target, bounds: _Bounds) -> Result:
        """Return the answer between the bounds, and why it is not sure."""
        unmeasured = self._list_unmeasured(bounds)
        users = bounds.low if bounds.good or (bounds.bad and not unmeasured) else None
        doubts = []
        if unmeasured:
            doubts.append(f"too little was measured with {join_users(unmeasured)}")
        for step in bounds:
            if step is not None and not target.is_excluded_by(step):
                reason = "the interval includes the target" if step.interval else NO_INTERVAL
                doubts.append(f"{reason} at {format_count(step.users, 'user')}")
        return Result(users, doubts)

    def find_peak(self) -> Result:
        """Find where throughput peaks, and the fewest users that reach a share of the peak."""
        best = self._grow()
        if not best.is_evidence:
            tried = join_users(sorted(step.users for step in self.steps))
            return Result(None, [f"the trace ended, or too little was measured, with {tried}"])
        best = self._climb(best)
        while True:
            # The highest of several noisy steps is high by chance: three trials correct it.
            best = self._try(best.users, lambda step: len(step.trials) > 2 and step.is_tight)
            self._decide(best, "confirm")
            fewest = self._find_fewest(best)
            top = max(self._list_evidence(), key=lambda step: step.mean)
            if top.mean <= MIN_GAIN * best.mean:
                return Result(fewest.users, self._list_doubts_of_peak(best, fewest), best.mean)
            best = top

    def _list_doubts_of_peak(self, best: Step, fewest: Step) -> list[str]:
        """Return why the peak, or the fewest users near it, are not sure."""
        known = [step.users for step in self._list_evidence() if step.users < fewest.users]
        # Steps far below the answer, or between it and the peak, cannot change it.
        apart = {*range(max(known, default=0)), *range(fewest.users, best.users)}
        doubts = []
        if lost := sorted({step.users for step in self.steps if not step.is_evidence} - apart):
            doubts.append(f"the trace ended, or too little was measured, with {join_users(lost)}")
        if best.saturation < LEAST_SATURATION:
            doubts.append(f"at the peak the busiest tier is busy {best.saturation:.0%} of the time")
        if not (best.interval and fewest.interval):
            doubts.append(NO_INTERVAL)
        elif not (best.is_tight and fewest.is_tight):
            doubts.append(f"intervals stay wider than {TIGHT_SHARE:.0%} of their middle")
        return doubts

    def _try_rate(self, users: int, before: Step) -> Step:
        """Make trials until throughput is far above that of a step before, or its interval is tight."""
        steep = STEEP_GAIN * max(0, _rate(before))
        return self._try(users, lambda step: step.mean >= steep or step.is_tight)

    def _grow(self) -> Step:
        """Double the users while throughput grows; return the step with the highest.

        A step that measured too little does not end that: more users measure more.
        """
        users = 1
        best = Step(0)
        while True:
            step = self._try_rate(users, best)
            is_growing = not step.is_evidence or step.mean >= MIN_GAIN * _rate(best)
            self._decide(step, "up" if is_growing else "stop")
            best = max(best, step, key=_rate)
            if users == self._limits.users or not is_growing:
                return best
            users = min(2 * users, self._limits.users)

    def _climb(self, best: Step) -> Step:
        """Try users halfway between the best step and its neighbours while one is better."""
        while True:
            before = best
            for users in self._list_midpoints(best.users):
                step = self._try_rate(users, best)
                self._decide(step, "confirm")
                best = max(best, step, key=_rate)
            if best.mean <= MIN_GAIN * before.mean:
                return best

    def _list_midpoints(self, users: int) -> list[int]:
        """Return the users halfway to the neighbours of a step that have no step yet."""
        tried = sorted(step.users for step in self.steps)
        place = tried.index(users)
        neighbours = tried[max(0, place - 1) : place] + tried[place + 1 : place + 2]
        midpoints = [(neighbour + users) // 2 for neighbour in neighbours]
        return [midpoint for midpoint in midpoints if midpoint not in tried]

    def _find_fewest(self, best: Step) -> Step:
        """Return the step with the fewest users that reach the share `near` of the best value."""
        enough = self._limits.near * best.mean
        fewest = next(step for step in self._list_evidence() if step.mean >= enough)
        below = max((step.users for step in self.steps if step.users < fewest.users), default=0)
        while (users := self._bisect(below, fewest.users)) is not None:
            step = self._try(users, lambda step: step.is_tight)
            is_enough = step.is_evidence and step.mean >= enough
            self._decide(step, "down" if is_enough else "up")
            if is_enough:
                fewest = step
            else:
                below = users
        return self._try(fewest.users, lambda step: step.is_tight)


def _rate(step: Step) -> float:
    """Return the throughput of a step; -1 if too little was measured."""
    return step.mean if step.is_evidence else -1.0


def join_users(numbers: list[int]) -> str:
    """Return 1, 2 and 4 users."""
    *first, last = (f"{number:,}" for number in numbers)
    return f"{', '.join(first)} and {last} users" if first else format_count(numbers[0], "user")
