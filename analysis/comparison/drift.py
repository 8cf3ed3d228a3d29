"""Drift and disturbance: how the machine may have made the difference between systems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.comparison.trials import Trial

DISTURBED: Final = ("busy machine", "starved")
"""Kinds of doubt on a run whose machine did not serve it alone."""
_MANY: Final = 0.5
"""Share of a system's trials that are disturbed, from which on its figures are."""


@dataclass(frozen=True)
class Disturbance:
    """A doubt on a verdict that the sentence itself must state.

    Attributes:
        remark: a clause for the sentence; empty if there is nothing to say.
        withholds: whether it may have made the difference, so that there is no verdict.
    """

    remark: str = ""
    withholds: bool = False


QUIET: Final = Disturbance()


def find_disturbance(systems: Mapping[str, Sequence[Trial]]) -> Disturbance:
    """Find what else than the systems may have made the difference between two of them.

    One side that was disturbed more than the other withholds the verdict. Both disturbed alike, or
    measured one after the other on one machine, qualify it.
    """
    shares = {system: _share_disturbed(trials) for system, trials in systems.items()}
    disturbed = [system for system, share in shares.items() if share >= _MANY]
    is_mixed = _are_interleaved(systems)
    if len(disturbed) == 1 and min(shares.values()) < _MANY:
        (system,) = disturbed
        count = f"{_count_disturbed(systems[system])} of {len(systems[system])} trials of {system}"
        text = f"the machine was busy with other work in {count}, less so for the other"
        return Disturbance(text, withholds=True)
    remarks = []
    if disturbed:
        remarks.append("the machine was busy with other work on both sides")
    if not is_mixed and _share_machine(systems):
        remarks.append(
            "the trials were not interleaved, so a drift of the machine counts as a difference",
        )
    return Disturbance("; ".join(remarks))


def _count_disturbed(trials: Sequence[Trial]) -> int:
    return sum(any(doubt.kind in DISTURBED for doubt in trial.summary.doubts) for trial in trials)


def _share_disturbed(trials: Sequence[Trial]) -> float:
    return _count_disturbed(trials) / len(trials)


def _share_machine(systems: Mapping[str, Sequence[Trial]]) -> bool:
    """Return whether all trials were measured on one host."""
    trials = [trial for own in systems.values() for trial in own]
    hosts = {trial.summary.provenance.machine.host for trial in trials}
    return len(hosts) == 1 and None not in hosts


def _are_interleaved(systems: Mapping[str, Sequence[Trial]]) -> bool:
    """Return whether no system was measured before the other; True if times are unknown."""
    starts = [[zero for trial in own for zero in trial.summary.provenance.zero_ns[:1]] for own in systems.values()]
    known = [[zero for zero in own if zero is not None] for own in starts]
    if len(known) < 2 or not all(known):
        return True
    one, other = known
    return max(one) > min(other) and max(other) > min(one)
