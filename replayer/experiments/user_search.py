"""The search for how many users a system carries: the most under a target, or where its throughput peaks.

Nothing here measures: what a number of users gives in a trial is an argument, so that tests search systems whose answer
is known.
"""

import math
from collections.abc import Callable
from typing import Final

from replayer.experiments.steps import TIGHT, Decision, Result, Sample, Step, Target
from tracegen.errors import format_count

GROWS: Final = 1.1  # doubling goes on while throughput grows by a tenth
STEEPLY: Final = 1.5  # one trial decides where throughput grows so much
STALLS: Final = 1.02  # below, it has stopped growing
NEAR_PEAK: Final = 0.95
ALL: Final = "These are all users that the trace has: a larger one may show more"

Measure = Callable[[int, int, int], Sample]
"""What so many users give in a trial that takes so many times the time asked for: (users, trial, times)."""


class Search:
    """Steps so far, each number of users once.

    Args:
        metric: what it searches by, for its sentences.
        measure: makes a trial.
        most: users that there are.
        trials: at most, of a step.
        precision: bisection ends where the bounds are that close, as a share of the lower one.
        told: hears of each step when it is decided.
        least: samples that a trial's value must rest on.
        near: share of the peak that the fewest users must reach.
        ceiling: the sentence to end with where `most` was reached.
    """

    def __init__(
        self,
        metric: str,
        measure: Measure,
        most: int,
        trials: int,
        precision: float,
        told: Callable[[Step], object],
        *,
        least: int = 1,
        near: float = NEAR_PEAK,
        ceiling: str = ALL,
    ) -> None:
        self.steps: list[Step] = []
        self._metric, self._least, self._near, self._ceiling = metric, least, near, ceiling
        self._measure, self._most, self._trials, self._precision, self._told = measure, most, trials, precision, told

    def _step(self, users: int, enough: Callable[[Step], bool], *, longer: bool = False) -> Step:
        """Trials of so many users until they are enough; again, more are added to those there are.

        Where they have too few samples, no more are made, but with `longer` of a longer time, where that helps.
        """
        step = next((one for one in self.steps if one.users == users), None)
        if step is None:
            self.steps.append(step := Step(users, least=self._least))
        while True:
            if step.samples and step.lacks is not None:
                if not longer or not step.lengthen():
                    step.given_up = longer
                    return step
            elif step.samples and (enough(step) or len(step.samples) >= self._trials):
                return step
            step.samples.append(self._measure(users, len(step.samples) + 1, step.stretch))

    def _decide(self, step: Step, decision: Decision, why: str) -> None:
        step.decision, step.why = decision, why
        self._told(step)

    def _between(self, low: int, high: int) -> int | None:
        """Where to look next; None where it is precise enough."""
        return (low + high) // 2 if high - low > max(1, math.floor(low * self._precision)) else None

    def qos(self, target: Target) -> Result:
        """The most users that keep a target: doubled until they do not, then bisected, then confirmed."""
        while True:
            good, bad = self._bounds(target)
            users = self._following(good, bad)
            if users is not None:
                longer = bad is not None or users == self._most
                step = self._step(users, target.decided, longer=longer)
                self._decide(step, self._decision(target, step), self._judgement(target, step))
                continue
            alone = [one for one in (good, bad) if one is not None and len(one.samples) < min(2, self._trials)]
            if not alone or (good is None and self._vain(good, bad)):  # no answer that more trials could confirm
                return self._qos_result(target, good, bad)
            step = self._step(alone[0].users, target.confirmed, longer=True)
            self._decide(step, "confirm", self._judgement(target, step))

    def _bounds(self, target: Target) -> tuple[Step | None, Step | None]:
        """The most users that keep the target below the fewest that do not; only of steps that are evidence."""
        known = [step for step in self.steps if step.lacks is None]
        bad = min((one for one in known if not target.keeps(one.mean)), key=lambda one: one.users, default=None)
        below = [one for one in known if target.keeps(one.mean) and (bad is None or one.users < bad.users)]
        return max(below, key=lambda one: one.users, default=None), bad

    def _following(self, good: Step | None, bad: Step | None) -> int | None:
        """Users of the next step; None where all is known that can be."""
        if bad is None:
            top = max((step.users for step in self.steps), default=0)
            return min(max(1, top * 2), self._most) if top < self._most else None
        vain = (step.users for step in self.steps if step.given_up and step.users < bad.users)
        return self._between(max(good.users if good else 0, *vain, 0), bad.users)

    def _vain(self, good: Step | None, bad: Step | None) -> list[int]:
        """Users between the bounds of whom too little was measured."""
        low, high = good.users if good else 0, bad.users if bad else self._most + 1
        return sorted(step.users for step in self.steps if step.lacks is not None and low < step.users < high)

    def _decision(self, target: Target, step: Step) -> Decision:
        good, bad = self._bounds(target)
        if self._following(good, bad) is None:
            return "stop"
        return "up" if step.lacks is not None or target.keeps(step.mean) else "down"

    def _judgement(self, target: Target, step: Step) -> str:
        """What a step shows of the target."""
        if step.lacks is not None:
            return f"{self._metric} {step.lacks}: no evidence for or against {target.limit}"
        return f"{self._metric} {step.shown}, {'meets' if target.keeps(step.mean) else 'misses'} {target.limit}"

    def _qos_result(self, target: Target, good: Step | None, bad: Step | None) -> Result:
        """The answer between the bounds, and why it is sure or not."""
        vain = self._vain(good, bad)
        found = [f"{_users(good.users)}: {self._metric} {good.shown}, {target.limit}"] if good else []
        if bad is not None:
            found.append(f"{_users(bad.users)}: {self._metric} {bad.shown}, not {target.limit}")
        doubts = [f"nothing or too little was measured with {_listed(vain)}"] if vain else []
        for step in (good, bad):
            if step is not None and not target.clear(step):
                why = "1 trial has no interval" if len(step.samples) == 1 else "the interval includes the target"
                doubts.append(f"{why} at {step.users:,}")
        users = good.users if good else 0 if bad is not None and not vain else None
        head = "" if good else "not even 1 user: " if users == 0 else "not known how many users: "
        ends = [head + "; ".join(found)] if found else [f"not known how many users: no step measured {self._metric}"]
        ends += [self._ceiling] if bad is None and good is not None and not vain else []
        ends.append(f"Not sure: {'; '.join(doubts)}" if doubts else "Sure: no interval includes the target")
        return Result(users, not doubts, ". ".join(ends) + ".", users or (bad.users if bad else None))

    def capacity(self) -> Result:
        """Where throughput peaks, and the fewest users that reach a share of it."""
        best = self._step(1, self._steady(None))
        self._decide(best, "up", best.shown)
        best = self._grow(2, GROWS, best)
        best = self._climb(self._grow(1.5, STALLS, best))
        if best.lacks is not None:
            text = f"Not known where it peaks: no step measured {self._metric}. Not sure."
            return Result(None, sure=False, text=text, knee=None)
        while True:
            best = self._step(best.users, lambda step: len(step.samples) > 2 and step.tight)
            self._decide(best, "confirm", f"the peak: {self._metric} {best.shown}")
            few = self._fewest(best)
            top = max(self.steps, key=lambda step: step.mean)
            if top.mean <= STALLS * best.mean:
                return self._capacity_result(best, few)
            best = top

    def _capacity_result(self, best: Step, few: Step) -> Result:
        near = f"{few.mean / best.mean:.0%} of it at {_users(few.users)}" if best.mean else "nothing was moved"
        ends = [f"Peak {self._metric} {best.shown} at {_users(best.users)}; {near}"]
        ends += [self._ceiling] if best.users == self._most else []
        wide = [one.users for one in (best, few) if not one.tight]
        ends.append(
            f"Not sure: intervals stay wider than {TIGHT:.0%} of their middle" if wide else "Sure: both are tight"
        )
        return Result(few.users, not wide, ". ".join(ends) + ".", few.users, best.mean)

    def _steady(self, before: Step | None) -> Callable[[Step], bool]:
        """Enough trials: one where throughput grows steeply, else until the interval is tight."""
        return lambda step: before is None or step.mean >= STEEPLY * before.mean or step.tight

    def _grow(self, factor: float, grows: float, best: Step) -> Step:
        """More users, by a factor, while throughput grows by another; what measured nothing is no reason to stop."""
        users = best.users
        while users < self._most:
            users = min(math.ceil(users * factor), self._most)
            step = self._step(users, self._steady(best))
            if step.lacks is not None:
                self._decide(step, "up", f"{step.shown}: no evidence")
                continue
            gain = step.mean / best.mean if best.mean else math.inf
            shown = f"{step.shown}, {gain:.2f} times that of {_users(best.users)}"
            if step.mean > best.mean or best.lacks is not None:
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
                self._decide(step, "confirm", f"{step.shown}, beside the best")
                best = max(best, step, key=lambda one: one.mean)
            if best.mean <= STALLS * before.mean:
                return best

    def _fewest(self, best: Step) -> Step:
        """The fewest users with `near` of the best throughput."""
        enough = self._near * best.mean
        few = min((step for step in self.steps if step.mean >= enough), key=lambda step: step.users)
        below = max((step.users for step in self.steps if step.users < few.users), default=0)
        while (users := self._between(below, few.users)) is not None:
            step = self._step(users, lambda step: step.tight)
            reaches = step.mean >= enough
            self._decide(step, "down" if reaches else "up", f"{step.shown}, {step.mean / best.mean:.0%} of the peak")
            few, below = (step, below) if reaches else (few, users)
        return self._step(few.users, lambda step: step.tight)


def _users(users: int) -> str:
    return format_count(users, "user")


def _listed(users: list[int]) -> str:
    *first, last = (f"{one:,}" for one in users)
    return f"{', '.join(first)} and {last} users" if first else _users(users[0])
