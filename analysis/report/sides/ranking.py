"""The ranking of systems by their rate, which `report` writes as JSON if a baseline is named."""

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.comparison.trials import Trial, compute_statistics
from analysis.report.sides.sides import PRIMARY, Side, Sides


@dataclass(frozen=True)
class Rank:
    """A system against the baseline, by PRIMARY.

    Attributes:
        system: its name.
        tok_s: mean of its trials; None without a valid trial.
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


def rank_systems(sides: Sides) -> list[Rank]:
    """Rank the systems that replayed the baseline's trace, the fastest first.

    Those without a speed-up come last.
    """
    base = sides.trials[sides.baseline]
    traces = {trial.run.trace_fingerprint for trial in base}
    ranked = [side for side in sides.sides if _has_trace(side, sides, traces)]
    ranks = [_rank(side, sides.trials[side.name]) for side in ranked]
    if base:
        ranks.append(_rank(Side(sides.baseline), base))
    return sorted(ranks, key=lambda rank: (rank.speed_up is None, -(rank.speed_up or 0.0)))


def _has_trace(side: Side, sides: Sides, traces: Iterable[str | None]) -> bool:
    own = {trial.run.trace_fingerprint for trial in sides.trials[side.name]}
    return not own or not own.isdisjoint(traces)


def _rank(side: Side, trials: list[Trial]) -> Rank:
    """Rank a system; the baseline itself has no ratios."""
    stats = compute_statistics(trial.summary.metrics[PRIMARY] for trial in trials)
    ratio = side.ratios.get(PRIMARY)
    speed_up = ratio.ratio if ratio else None if side.why else 1.0
    return Rank(
        side.name,
        stats.mean,
        speed_up=speed_up,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        cut=any(trial.summary.provenance.is_cut for trial in trials),
        why=side.why or None,
        trials=stats.n,
        tok_s_low=stats.low,
        tok_s_high=stats.high,
    )
