"""Systems ranked against one of them: what `--baseline` adds to a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from analysis.comparison.matching import conditions_of, find_differing, match_configurations
from analysis.comparison.ratios import compute_ratio
from analysis.comparison.trials import Trial, compute_statistics, load_trials
from tracegen.errors import InputError

METRIC: Final = "wall_clock_tok_s"


@dataclass(frozen=True)
class Rank:
    """A system against the baseline, by the wall-clock throughput.

    Attributes:
        tok_s: mean of its trials.
        speed_up: over the baseline; None where nothing can be compared.
        low, high: 95% interval of it; None with one trial on a side.
        cut: whether runs were cut in time, so that each is judged over its own window.
        why: why there is no speed-up.
        trials: how many are valid.
        tok_s_low, tok_s_high: 95% interval of tok_s; None of one trial.
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


def ranked(systems: Mapping[str, Sequence[Path]], baseline: str) -> list[Rank]:
    """All systems, the fastest first; those that cannot be compared, last.

    Capacities and other conditions may differ: that is what is compared.
    """
    loaded: dict[str, list[Trial] | str] = {}
    for system, runs in systems.items():
        try:
            loaded[system] = load_trials(runs)[0]
        except InputError as error:
            loaded[system] = str(error)
    found = [_rank(system, trials, loaded[baseline], baseline) for system, trials in loaded.items()]
    return sorted(found, key=lambda one: (one.speed_up is None, -(one.speed_up or 0.0)))


def _rank(system: str, trials: list[Trial] | str, base: list[Trial] | str, baseline: str) -> Rank:
    """One of them; a text stands for trials that cannot be loaded."""
    if isinstance(trials, str):
        return Rank(system, None, why=trials)
    speeds = compute_statistics(trial.summary.metrics[METRIC] for trial in trials)
    known: dict[str, Any] = {"trials": speeds.n, "tok_s_low": speeds.low, "tok_s_high": speeds.high}
    if system == baseline:
        cut = any(trial.summary.provenance.is_cut for trial in trials)
        return Rank(system, speeds.mean, 1.0, cut=cut, **known)
    if isinstance(base, str):
        return Rank(system, None, why=base)
    vary = find_differing(*(conditions_of(trial) for trial in (*trials, *base)))
    try:
        configurations, _ = match_configurations({system: trials, baseline: base}, vary)
    except InputError as error:
        return Rank(system, None, why=str(error))
    one = compute_ratio(configurations, system, baseline, METRIC)
    return Rank(system, speeds.mean, one.ratio, one.low, one.high, configurations[0].cut, **known)
