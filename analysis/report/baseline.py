"""Ranking of systems against one of them, which a report shows if it has a baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analysis.comparison.conditions import conditions_of, find_differing
from analysis.comparison.matching import match_configurations
from analysis.comparison.ratios import compute_ratio
from analysis.comparison.trials import Trial, compute_statistics, load_trials
from tracegen.errors import InputError

METRIC: Final = "wall_clock_tok_s"


@dataclass(frozen=True)
class Rank:
    """A system against the baseline, by METRIC.

    Attributes:
        system: its name.
        tok_s: mean of its trials.
        speed_up: ratio to the baseline; None if they cannot be compared.
        low: start of the 95% interval of speed_up; None with a single trial of either system.
        high: end of the same interval.
        cut: whether runs were cut, so that each is judged over its own window.
        why: why there is no speed-up.
        trials: number of valid trials.
        tok_s_low: start of the 95% interval of tok_s; None for a single trial.
        tok_s_high: end of the same interval.
    """

    system: str
    tok_s: float | None
    speed_up: float | None = None
    low: float | None = None
    high: float | None = None
    cut: bool = False
    why: str | None = None
    trials: int = 0
    tok_s_low: float | None = None
    tok_s_high: float | None = None


def rank_systems(systems: Mapping[str, Sequence[Path]], baseline: str) -> list[Rank]:
    """Rank systems against one of them: the fastest first, those without a speed-up last.

    Capacities and other conditions may differ: their effect is what is compared.

    Args:
        systems: run directories by system.
        baseline: name of the system to which all are compared.
    """
    trials: dict[str, list[Trial] | InputError] = {}
    for system, runs in systems.items():
        try:
            trials[system] = load_trials(runs)[0]
        except InputError as error:
            trials[system] = error
    ranks = [_rank(system, own, trials[baseline], baseline) for system, own in trials.items()]
    return sorted(ranks, key=lambda rank: (rank.speed_up is None, -(rank.speed_up or 0.0)))


def _rank(system: str, trials: list[Trial] | InputError, base: list[Trial] | InputError, baseline: str) -> Rank:
    """Compare a system with the baseline; an error means that the trials cannot be loaded."""
    if isinstance(trials, InputError):
        return Rank(system, None, why=str(trials))
    stats = compute_statistics(trial.summary.metrics[METRIC] for trial in trials)
    if system == baseline:
        return Rank(
            system,
            stats.mean,
            speed_up=1.0,
            cut=any(trial.summary.provenance.is_cut for trial in trials),
            trials=stats.n,
            tok_s_low=stats.low,
            tok_s_high=stats.high,
        )
    if isinstance(base, InputError):
        return Rank(system, None, why=str(base))
    vary = find_differing(*(conditions_of(trial) for trial in (*trials, *base)))
    try:
        configurations, _ = match_configurations({system: trials, baseline: base}, vary)
    except InputError as error:
        return Rank(system, None, why=str(error))
    ratio = compute_ratio(configurations, system, baseline, METRIC)
    return Rank(
        system,
        stats.mean,
        speed_up=ratio.ratio,
        low=ratio.low,
        high=ratio.high,
        cut=configurations[0].cut,
        trials=stats.n,
        tok_s_low=stats.low,
        tok_s_high=stats.high,
    )
