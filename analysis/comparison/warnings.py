"""Warnings about a comparison: copies, several machines, other conditions, unequal work."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from analysis.comparison.matching import Configuration
from analysis.comparison.trials import Systems
from analysis.metrics.headlines import TOTALS

DISTURBED: Final = ("busy machine", "starved")
"""Kinds of doubt on a run whose machine did not serve it alone."""
# Share of a system's trials that are disturbed, from which on its figures are.
_MANY: Final = 0.5


def warn_of_copies(systems: Systems) -> Iterator[str]:
    """Warn if a run, or a copy of it, belongs to several systems."""
    trials = [*chain(*systems.values())]
    # Host and start are equal for copies in other directories, too.
    counts = Counter(trial.origin for trial in trials)
    twice = dict.fromkeys(str(trial.run.path) for trial in trials if counts[trial.origin] > 1)
    if twice:
        yield f"{', '.join(twice)} belongs to more than one system: a run cannot be compared with itself."


def warn_of_machines(systems: Systems) -> Iterator[str]:
    """Warn if the trials of a system ran on several machines."""
    for system, trials in systems.items():
        machines = dict.fromkeys(trial.machine for trial in trials)
        # A run without an nvme tier names no device: its machine is the beginning of another's.
        distinct = [
            " ".join(machine)
            for machine in machines
            if not any(other[: len(machine)] == machine != other for other in machines)
        ]
        if len(distinct) > 1:
            mixed = f"{system} mixes machines ({'; '.join(distinct)})"
            yield f"{mixed}: all trials of a system must run on one machine."


def warn_of_predictions(systems: Systems) -> Iterator[str]:
    """Warn if predicted and measured runs are compared, or are in one system."""
    kinds = {system: {trial.summary.prediction is not None for trial in trials} for system, trials in systems.items()}
    for system, kind in kinds.items():
        if len(kind) > 1:
            yield f"{system} mixes measured and predicted runs: their mean is neither."
    predicted, measured = ([system for system, kind in kinds.items() if kind == {side}] for side in (True, False))
    if predicted and measured:
        verb = "is" if len(predicted) == 1 else "are"
        sides = f"{', '.join(predicted)} {verb} predicted and {', '.join(measured)} measured"
        yield f"{sides}: ratios between them contain the error of the prediction."


def warn_of_work(configurations: Sequence[Configuration]) -> Iterator[str]:
    """Warn if runs of one plan were measured over different work."""
    for one in configurations:
        metrics = [trial.summary.metrics for trial in chain(*one.trials.values())]
        names = [name for name in TOTALS if len({own.get(name) for own in metrics}) > 1]
        # Runs that were cut are compared over equal work anyway.
        if one.same_plan and not one.cut and names:
            yield (
                f"{one.name}: runs of one plan were measured over different work ({', '.join(names)}), as their"
                " warm-up ended at different ops; give the warm-up in ops instead of seconds, and replay."
            )


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


def find_disturbance(systems: Systems) -> Disturbance:
    """Find what else than the systems may have made the difference between two of them.

    One side that was disturbed more than the other withholds the verdict. Both disturbed alike, or
    measured one after the other on one machine, qualify it.
    """
    counts = {
        system: sum(any(doubt.kind in DISTURBED for doubt in trial.summary.doubts) for trial in own)
        for system, own in systems.items()
    }
    disturbed = [system for system, own in systems.items() if counts[system] >= _MANY * len(own)]
    if len(disturbed) == 1:
        (system,) = disturbed
        count = f"{counts[system]} of {len(systems[system])} trials of {system}"
        text = f"the machine was busy with other work in {count}, less so for the other"
        return Disturbance(text, withholds=True)
    remarks = ["the machine was busy with other work on both sides"] if disturbed else []
    hosts = {trial.summary.machine.host for own in systems.values() for trial in own}
    if len(hosts) == 1 and None not in hosts and not _are_interleaved(systems):
        remarks.append("the trials were not interleaved, so a drift of the machine counts as a difference")
    return Disturbance("; ".join(remarks))


def _are_interleaved(systems: Systems) -> bool:
    """Return whether neither of two systems was measured before the other; True if times are unknown."""
    starts = ([trial.summary.zero_ns[0] for trial in own] for own in systems.values())
    # Trials in turns see the same drift of the machine on both sides.
    one, other = ([zero for zero in own if zero is not None] for own in starts)
    return not (one and other) or (max(one) > min(other) and max(other) > min(one))
