"""Systems ranked against one of them, over the work that both did: what `--baseline` adds to a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analysis.matching import conditions_of, differing, match
from analysis.ratios import ratio
from analysis.trials import load
from tracegen.schema import InputError

METRIC: Final = "wall_clock_tok_s"


@dataclass(frozen=True)
class Rank:
    """A system against the baseline, by the wall-clock throughput.

    Attributes:
        tok_s: mean of its trials, over all they did.
        speed_up: over the baseline, over the first ops that both executed; None where nothing can be compared.
        low, high: 95% interval of it, where there are trials.
        first_ops: how many those were; None: all.
        why: why there is no speed-up.
    """

    system: str
    tok_s: float | None
    speed_up: float | None = None
    low: float | None = None
    high: float | None = None
    first_ops: int | None = None
    why: str | None = None


def ranked(systems: Mapping[str, Sequence[Path]], baseline: str) -> list[Rank]:
    """All systems, the fastest first; those that cannot be compared, last.

    Capacities and other conditions may differ: that is what is compared.
    """
    found = [_rank(system, systems, baseline) for system in systems]
    return sorted(found, key=lambda one: (one.speed_up is None, -(one.speed_up or 0.0)))


def _rank(system: str, systems: Mapping[str, Sequence[Path]], baseline: str) -> Rank:
    try:
        trials, _ = load(systems[system])
        speeds = [trial.summary[METRIC] for trial in trials if trial.summary[METRIC] is not None]
        mean = sum(speeds) / len(speeds) if speeds else None
        if system == baseline:
            return Rank(system, mean, 1.0)
        sides = {system: trials, baseline: load(systems[baseline])[0]}
        vary = differing(*(conditions_of(trial) for side in sides.values() for trial in side))
        configurations, _ = match(sides, vary)
        one = ratio(configurations, system, baseline, METRIC)
    except InputError as error:
        return Rank(system, None, why=error.message)
    return Rank(system, mean, one.ratio, one.low, one.high, configurations[0].first_ops)
