"""Intervals of means and of ratios over trials, by Student's t."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.summary.run_summary import Summary

CONFIDENCE: Final = 0.95
_ANGLES: Final = np.linspace(0.0, math.pi / 2, 4_001)

Stratum = tuple[Sequence[float], Sequence[float]]
"""Positive values of a metric in one configuration: of one system, and of the other."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of one metric over trials, in the metric's unit.

    Attributes:
        n: number of trials that have the metric; the others do not count.
        mean: Σ x / n; None without values.
        sd: sqrt(Σ (x − mean)² / (n − 1)); None below two values.
        cv: sd / mean; None below two values, or if the mean is 0.
        median: the middle value, or the mean of the two in the middle.
        low: start of the 95% interval of the mean; None below two values. It is computed on
            logarithms if all values are positive, so that it cannot pass 0.
        high: end of the same interval.
        more_than: what the mean exceeds, if requests that a cut left unfinished leave it unknown.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    cv: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None
    more_than: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The ratio of two systems on the log scale.

    Attributes:
        log: mean over strata of the difference of the mean logarithms.
        error: its standard error: Welch's, summed over strata; None if a stratum has one trial of a
            system.
        freedom: Satterthwaite's degrees of freedom of the error.
        systematic: half-width on the log scale that trials share and so cannot show.
    """

    log: float
    error: float | None
    freedom: float
    systematic: float = 0.0

    def find_ends(self) -> tuple[float, float] | None:
        """Return the interval of the ratio; None without a standard error."""
        if self.error is None:
            return None
        random = find_t(self.freedom) * self.error
        half = math.hypot(random, self.systematic)
        return math.exp(self.log - half), math.exp(self.log + half)

    @property
    def chance(self) -> float:
        """The share of equal systems that would differ by as much."""
        beyond = self.log**2 - self.systematic**2
        if self.error is None or beyond <= 0:
            return 1.0
        if self.error == 0:
            return 0.0
        return 2 * _find_tail(math.sqrt(beyond) / self.error, self.freedom)


def compute_statistics(values: Iterable[float | None]) -> Statistics:
    """Compute the statistics of the values that are finite numbers; the others are ignored."""
    known = sorted(float(value) for value in values if value is not None and math.isfinite(value))
    if not known:
        return Statistics(0)
    mean = statistics.fmean(known)
    median = statistics.median(known)
    if len(known) == 1:
        return Statistics(1, mean, median=median)
    sd = statistics.stdev(known)
    half = find_t(len(known) - 1) / math.sqrt(len(known))
    low, high = mean - half * sd, mean + half * sd
    if known[0] > 0 and sd:  # equal values are their own interval, without the rounding of logarithms
        logs = [math.log(value) for value in known]
        middle, spread = statistics.fmean(logs), half * statistics.stdev(logs)
        low, high = math.exp(middle - spread), math.exp(middle + spread)
    return Statistics(len(known), mean, sd, sd / mean if mean else None, median, low, high)


def summarise_metric(metric: str, summaries: Sequence[Summary]) -> Statistics:
    """Compute the statistics of a metric over trials.

    A trial whose value is unknown, but more than a bound, makes the mean unknown: without it, the
    mean would be that of the fast trials.
    """
    least = [summary.more_than[metric] for summary in summaries if metric in summary.more_than]
    stats = compute_statistics(summary.numbers.get(metric) for summary in summaries)
    if not least:
        return stats
    more_than = (math.fsum(least) + stats.n * (stats.mean or 0.0)) / (stats.n + len(least))
    return Statistics(stats.n + len(least), more_than=more_than)


def estimate_ratio(strata: Sequence[Stratum], systematic: float = 0.0) -> Estimate:
    """Estimate the ratio of two systems from trials in one or several configurations.

    Welch (1947) for unequal variances, Satterthwaite (1946) for the degrees of freedom.
    Configurations are strata: their differences do not count as noise.

    Args:
        strata: the values of both systems by configuration; at least one.
        systematic: half-width on the log scale that trials share.
    """
    total = 0.0
    variances: list[tuple[float, int]] = []
    # Configurations differ by more than trials do, so each is a stratum with a ratio of its own.
    for values, others in strata:
        logs = [[math.log(value) for value in own] for own in (values, others)]
        total += statistics.fmean(logs[0]) - statistics.fmean(logs[1])
        known = [own for own in logs if len(own) > 1]
        variances += [(statistics.variance(own) / len(own), len(own) - 1) for own in known]
    log = total / len(strata)
    if len(variances) < 2 * len(strata):
        return Estimate(log, None, 0.0, systematic)
    variance = math.fsum(own for own, _ in variances)
    below = math.fsum(own**2 / freedom for own, freedom in variances)
    freedom = variance**2 / below if below else 1.0  # of no use without an error
    return Estimate(log, math.sqrt(variance) / len(strata), freedom, systematic)


def adjust_by_holm(chances: Sequence[float]) -> list[float]:
    """Return chances that were corrected for being several, by Holm (1979), in their order.

    The chance that any of several equal metrics is called different stays below the level that each
    corrected chance is compared with.
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    each = ((len(chances) - rank) * chances[place] for rank, place in enumerate(order))
    # A chance is never below that of a metric that differs more clearly.
    adjusted = dict(zip(order, accumulate(each, max), strict=True))
    return [min(1.0, adjusted[place]) for place in range(len(chances))]


def find_t(freedom: float) -> float:
    """Return what CONFIDENCE of Student's t stay within on both sides of 0.

    With t = √freedom × tan θ the density is proportional to cos^(freedom − 1) θ, which is
    integrated numerically.
    """
    angle = float(np.interp(CONFIDENCE, _integrate(freedom), _ANGLES))
    return math.sqrt(freedom) * math.tan(angle)


def _find_tail(t: float, freedom: float) -> float:
    """Return the share of Student's t above a value of at least 0."""
    angle = math.atan(t / math.sqrt(freedom))
    return (1 - float(np.interp(angle, _ANGLES, _integrate(freedom)))) / 2


def _integrate(freedom: float) -> NDArray[np.float64]:
    """Return the share of |t| below √freedom × tan θ, at _ANGLES."""
    density = np.cos(_ANGLES) ** (freedom - 1)
    area = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    shares: NDArray[np.float64] = area / area[-1]
    return shares
