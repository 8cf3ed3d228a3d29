"""Trials: runs of one configuration, and the statistics of their metrics."""

import itertools
import math
import statistics as exact
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import CHECKPOINT_OPS, Machine
from tracegen.errors import InputError

ENUMERATED: Final = 5
"""Up to so many values all n^n resamples are taken, as multisets with their numbers; of more, DRAWN are drawn."""
DRAWN: Final = 10_000
TAILS: Final = (0.025, 0.975)

Floats = NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Statistics:
    """Statistics of one metric over trials, in the metric's unit.

    Attributes:
        n: how many trials have the metric; the others do not count.
        mean: Σ x / n; None without values.
        sd: sqrt(Σ (x − mean)² / (n − 1)), None below two values, as are the next and the last two.
        cv: sd / mean, also None where the mean is 0.
        median: the middle value, or the mean of the two in the middle.
        low: 2.5% quantile of the means of bootstrap resamples.
        high: 97.5% quantile of them.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    cv: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None


def statistics(values: Iterable[float | None]) -> Statistics:
    """Statistics of the values that are there; those that are None or not finite are not."""
    found = sorted(float(value) for value in values if value is not None and math.isfinite(value))
    if not found:
        return Statistics(0)
    mean, median = exact.fmean(found), exact.median(found)
    if len(found) == 1:
        return Statistics(1, mean, median=median)
    sd = exact.stdev(found)
    low, high = interval(found)
    return Statistics(len(found), mean, sd, sd / mean if mean else None, median, low, high)


def interval(values: Sequence[float]) -> Interval:
    """The 95% percentile bootstrap interval of the mean: 2.5% and 97.5% quantiles of the means of resamples."""
    means, counts = _enumerated(values) if len(values) <= ENUMERATED else _drawn(values)
    low, high = (_quantile(means, counts, share) for share in TAILS)
    return low, high


def ratio_interval(one: Sequence[float], other: Sequence[float]) -> Interval:
    """The same for mean(one) / mean(other), both sides resampled on their own; all values must be positive.

    Quantiles are taken of the ratio's logarithm, so that swapping the sides inverts the interval.
    """
    if max(len(one), len(other)) <= ENUMERATED:
        (means, counts), (others, other_counts) = _enumerated(one), _enumerated(other)
        logs = np.log(means)[:, None] - np.log(others)[None, :]
        weights = counts[:, None] * other_counts[None, :]
    else:
        (means, weights), (others, _) = _drawn(one), _drawn(other)
        logs = np.log(means) - np.log(others)[::-1]  # reversed: sides of equal size draw the same, which would tie them
    low, high = (math.exp(_quantile(logs.ravel(), weights.ravel(), share)) for share in TAILS)
    return low, high


def _enumerated(values: Sequence[float]) -> tuple[Floats, NDArray[np.int64]]:
    """The mean of every multiset of n of the values, and how many of the n^n resamples are it."""
    ordered, n = np.sort(np.asarray(values, np.float64)), len(values)
    picks = np.array(list(itertools.combinations_with_replacement(range(n), n)))
    times = (picks[:, :, None] == np.arange(n)).sum(axis=1)
    counts = [math.factorial(n) // math.prod(map(math.factorial, row)) for row in times.tolist()]
    return _means(ordered, picks), np.array(counts, np.int64)


def _drawn(values: Sequence[float]) -> tuple[Floats, NDArray[np.int64]]:
    """Means of DRAWN resamples: from Philox's raw words by multiply-shift, the same for ever."""
    ordered, n = np.sort(np.asarray(values, np.float64)), len(values)
    words = np.random.Philox(key=0).random_raw(DRAWN * n) >> np.uint64(32)
    picks = (words * np.uint64(n) >> np.uint64(32)).astype(np.intp).reshape(DRAWN, n)
    return _means(ordered, picks), np.ones(DRAWN, np.int64)


def _means(ordered: Floats, picks: NDArray[Any]) -> Floats:
    """Means of rows of picks, exact where all values are equal."""
    middle = ordered[len(ordered) // 2]
    means: Floats = middle + (ordered - middle)[picks].mean(axis=1)
    return means


def _quantile(values: Floats, counts: NDArray[np.int64], share: float) -> float:
    """The quantile of values, each repeated so many times, at share × (Σ counts − 1), interpolated linearly."""
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(counts[order])
    at = share * (int(upto[-1]) - 1)
    low, high = (values[order[np.searchsorted(upto, k, side="right")]] for k in (math.floor(at), math.ceil(at)))
    return float(low + (high - low) * (at - math.floor(at)))


@dataclass(frozen=True)
class Trial:
    """A run that may be believed.

    Attributes:
        run: its directory.
        summary: its metrics, of all it executed.
    """

    run: Run
    summary: Summary

    @property
    def origin(self) -> Any:
        """What tells it from other trials: where and when it was made; its path, where it does not say."""
        return self.summary.provenance.origin or self.run.path.resolve()

    @property
    def machine(self) -> tuple[str, ...]:
        """Host, processor, cores and the device of the nvme tier."""
        info = self.run.infos[0]
        machine = info.machine or Machine()
        parts = (machine.host, machine.cpu, machine.cores, info.device)
        return tuple(str(part) for part in parts if part is not None)


def load(runs: Sequence[Path]) -> tuple[list[Trial], dict[Path, str]]:
    """Runs as trials; those that are incomplete, failed or otherwise not valid are left out, with the reason.

    Raises:
        InputError: a path holds no run or is named twice, or no run is left.
    """
    trials, left_out, seen, origins = list[Trial](), dict[Path, str](), set[Path](), dict[Any, Path]()
    for path in tqdm(runs, "reading logs", unit="run", delay=1, disable=None, leave=False):
        if path.resolve() in seen:
            raise InputError(f"{path} is named twice in one set, but is one trial; name it once.")
        seen.add(path.resolve())
        run = open_run(path)
        try:
            summary = summarise(path)
        except InputError as error:  # no log, or none that can be read
            left_out[path] = str(error).removeprefix(f"{path}").lstrip(":/ ").removesuffix(".")
            continue
        if not summary.is_valid:
            left_out[path] = "; ".join(summary.findings)
        elif any(info.executed_ops is None for info in run.infos):
            left_out[path] = "run.json does not say how many ops were executed"
        else:
            trials.append(Trial(run, summary))
            if (first := origins.setdefault(trials[-1].origin, path)) != path:
                raise InputError(f"{path} is a copy of {first}, which is one trial; name it once, or replay anew.")
    if not trials:
        path, why = next(iter(left_out.items()))
        raise InputError(f"{path}: {why}; no valid run is left in its set of {len(runs)}: replay it anew.")
    return trials, left_out


def check_prefix(trials: Sequence[Trial]) -> None:
    """That trials of one plan executed the same moves as far as the shortest of them went.

    Raises:
        InputError: their plans part before.
    """
    for infos in itertools.zip_longest(*(trial.run.infos for trial in trials)):
        known = [info for info in infos if info is not None]
        least = min(info.executed_ops or 0 for info in known)
        plans = {info.plan_fingerprint for info in known}
        executed = {(info.executed_ops, info.executed_fingerprint) for info in known}
        if len(executed) == 1 or (len(plans) == 1 and None not in plans):
            continue
        checkpoints = [() if info.plan is None else info.plan.plan_checkpoints or () for info in known]
        chains = [chain[: least // CHECKPOINT_OPS] for chain in checkpoints]
        if not chains[0] or any(chain != chains[0] for chain in chains):
            raise InputError(
                f"{trials[0].run.path} and {trials[-1].run.path} were planned unlike each other within the first"
                f" {max(least, 1):,} ops, though trace and conditions are equal; replay both with one release."
            )
