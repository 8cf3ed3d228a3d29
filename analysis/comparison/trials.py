"""Trials: runs of one configuration, and the statistics of their metrics."""

import itertools
import math
import statistics as exact
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from analysis.doubts.predictions import identify_profile
from analysis.progress import Advance
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import CHECKPOINT_OPS, Machine, RunInfo
from tracegen.errors import InputError

ENUMERATED: Final = 5
"""The largest sample whose n^n resamples are all enumerated; of larger samples, DRAWN are drawn."""
DRAWN: Final = 10_000
TAILS: Final = (0.025, 0.975)

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Statistics:
    """Statistics of one metric over trials, in the metric's unit.

    Attributes:
        n: number of trials that have the metric; the others do not count.
        mean: Σ x / n; None without values.
        sd: sqrt(Σ (x − mean)² / (n − 1)); None below two values.
        cv: sd / mean; None below two values, or if the mean is 0.
        median: the middle value, or the mean of the two in the middle.
        low: 2.5% quantile of the means of bootstrap resamples; None below two values.
        high: 97.5% quantile of the same means; None below two values.
    """

    n: int
    mean: float | None = None
    sd: float | None = None
    cv: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None


def compute_statistics(values: Iterable[float | None]) -> Statistics:
    """Compute the statistics of the values that are finite numbers; the others are ignored."""
    known = sorted(float(value) for value in values if value is not None and math.isfinite(value))
    if not known:
        return Statistics(0)
    mean = exact.fmean(known)
    median = exact.median(known)
    if len(known) == 1:
        return Statistics(1, mean, median=median)
    sd = exact.stdev(known)
    low, high = bootstrap_mean(known)
    return Statistics(len(known), mean, sd, sd / mean if mean else None, median, low, high)


def bootstrap_mean(values: Sequence[float]) -> Interval:
    """Return the 95% percentile bootstrap interval of the mean.

    Its ends are the 2.5% and 97.5% quantiles of the means of resamples.
    """
    means, counts = _enumerate_means(values) if len(values) <= ENUMERATED else _draw_means(values)
    low, high = (_weighted_quantile(means, counts, share) for share in TAILS)
    return low, high


def bootstrap_ratio(values: Sequence[float], others: Sequence[float]) -> Interval:
    """Return the 95% bootstrap interval of mean(values) / mean(others), each resampled separately.

    The quantiles are those of the ratio's logarithm, so that swapping the samples inverts the
    interval.

    Args:
        values: positive numbers.
        others: positive numbers; may be more or fewer.
    """
    if max(len(values), len(others)) <= ENUMERATED:
        means, counts = _enumerate_means(values)
        other_means, other_counts = _enumerate_means(others)
        logs = np.log(means)[:, None] - np.log(other_means)[None, :]
        weights = counts[:, None] * other_counts[None, :]
    else:
        means, weights = _draw_means(values)
        other_means, _ = _draw_means(others)
        # Reversed: samples of equal size draw the same positions, which would tie the two.
        logs = np.log(means) - np.log(other_means)[::-1]
    low, high = (math.exp(_weighted_quantile(logs.ravel(), weights.ravel(), share)) for share in TAILS)
    return low, high


def _enumerate_means(values: Sequence[float]) -> tuple[Floats, Counts]:
    """Return the mean of each multiset of n of the values, and how many of the n^n resamples it is."""
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(values)
    picks = np.array(list(itertools.combinations_with_replacement(range(n), n)))
    times = (picks[:, :, None] == np.arange(n)).sum(axis=1)
    counts = [math.factorial(n) // math.prod(map(math.factorial, row)) for row in times.tolist()]
    return _mean_rows(ordered, picks), np.array(counts, np.int64)


def _draw_means(values: Sequence[float]) -> tuple[Floats, Counts]:
    """Return the means of DRAWN resamples, each counted once.

    They are drawn from Philox's raw words by multiply-shift, which no release of NumPy changes.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(values)
    words = np.random.Philox(key=0).random_raw(DRAWN * n) >> np.uint64(32)
    picks = (words * np.uint64(n) >> np.uint64(32)).astype(np.intp).reshape(DRAWN, n)
    return _mean_rows(ordered, picks), np.ones(DRAWN, np.int64)


def _mean_rows(ordered: Floats, picks: NDArray[Any]) -> Floats:
    """Return the mean of each row of picks; it is exact if all values are equal."""
    middle = ordered[len(ordered) // 2]
    means: Floats = middle + (ordered - middle)[picks].mean(axis=1)
    return means


def _weighted_quantile(values: Floats, counts: Counts, share: float) -> float:
    """Return a quantile of values that are repeated `counts` times, interpolated linearly.

    Its position is share × (Σ counts − 1).
    """
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(counts[order])
    position = share * (int(cumulative[-1]) - 1)
    low, high = (
        values[order[np.searchsorted(cumulative, k, side="right")]] for k in (math.floor(position), math.ceil(position))
    )
    return float(low + (high - low) * (position - math.floor(position)))


@dataclass(frozen=True)
class Trial:
    """A valid run and its summary.

    Attributes:
        run: the opened run directory.
        summary: the metrics of all that the run executed.
    """

    run: Run
    summary: Summary

    @property
    def origin(self) -> Any:
        """The place and time at which the run was made: equal for copies; its path if run.json lacks them."""
        return self.summary.provenance.origin or self.run.path.resolve()

    @property
    def machine(self) -> tuple[str, ...]:
        """Host, processor, cores and the device of the nvme tier, as far as they are known.

        The machine of a prediction is its profile.
        """
        info = self.run.infos[0]
        if info.prediction is not None:
            return (identify_profile(info.prediction),)
        machine = info.machine or Machine()
        parts = (machine.host, machine.cpu, machine.cores, info.device)
        return tuple(str(part) for part in parts if part is not None)


def load_trials(
    runs: Sequence[Path],
    advance: Advance = lambda _runs: None,
    accepted: Collection[str] = (),
) -> tuple[list[Trial], dict[Path, str]]:
    """Load runs as trials, and leave out those that are not valid.

    Args:
        runs: run directories of one set.
        advance: takes the number of runs read since its last call.
        accepted: kinds of doubt for which a run is not left out, though it is not valid.

    Returns:
        The trials, and by path why a run was left out.

    Raises:
        InputError: a path is not a run directory or is named twice, a run is a copy of another, or
            no valid run is left.
    """
    trials: list[Trial] = []
    left_out: dict[Path, str] = {}
    resolved: set[Path] = set()
    origins: dict[Any, Path] = {}
    for path in runs:
        if path.resolve() in resolved:
            raise InputError("named twice in one set, but is one trial", "name it once", subject=path)
        resolved.add(path.resolve())
        trial, reason = _load_trial(path, accepted)
        advance(1)
        if trial is None:
            left_out[path] = reason
            continue
        trials.append(trial)
        first = origins.setdefault(trial.origin, path)
        if first != path:
            raise InputError(
                f"a copy of {first}, so the two are one trial",
                "name it once, or replay again",
                subject=path,
            )
    if not trials:
        path, reason = next(iter(left_out.items()))
        raise InputError(
            f"{reason}; no valid run is left in its set of {len(runs)}",
            "replay it again",
            subject=path,
        )
    return trials, left_out


def _load_trial(path: Path, accepted: Collection[str]) -> tuple[Trial | None, str]:
    """Load a run; return None and the reason if it is not valid."""
    run = open_run(path)
    try:
        summary = summarise(path)
    except InputError as error:  # the log is missing or damaged
        return None, _strip_path(error, path)
    fault = find_fault(run, summary, accepted)
    return (None, fault) if fault else (Trial(run, summary), "")


def find_fault(run: Run, summary: Summary, accepted: Collection[str] = ()) -> str:
    """Return why a run is no trial; empty if it is one.

    Args:
        run: the opened run directory.
        summary: its summary.
        accepted: kinds of doubt for which a run is a trial, though it is not valid.
    """
    if any(doubt.invalidates and doubt.kind not in accepted for doubt in summary.doubts):
        return "; ".join(summary.findings)
    if any(info.executed_ops is None for info in run.infos):
        return "run.json does not say how many ops were executed"
    return ""


def _strip_path(error: InputError, path: Path) -> str:
    """Return what is wrong with a run, without the run's own path."""
    if error.subject is not None and str(error.subject) != str(path):
        return f"{error.subject}: {error.problem}"
    return error.problem.removeprefix(str(path)).lstrip(":/ ")


def check_common_plan(trials: Sequence[Trial]) -> None:
    """Check that the trials of one plan executed the same moves up to the end of the shortest.

    Raises:
        InputError: their plans differ before that.
    """
    for infos in itertools.zip_longest(*(trial.run.infos for trial in trials)):
        known = [info for info in infos if info is not None]
        least = min(info.executed_ops or 0 for info in known)
        if not _agree(known, least):
            raise InputError(
                f"{trials[0].run.path} and {trials[-1].run.path} have different plans within the"
                f" first {max(least, 1):,} ops, though trace and conditions are equal",
                "replay both with one release",
            )


def _agree(infos: Sequence[RunInfo], ops: int) -> bool:
    """Return whether runs executed the same first ops, by their fingerprints and checkpoints."""
    plans = {info.plan_fingerprint for info in infos}
    executed = {(info.executed_ops, info.executed_fingerprint) for info in infos}
    if len(executed) == 1 or (len(plans) == 1 and None not in plans):
        return True
    chains = [
        (() if info.plan is None else info.plan.plan_checkpoints or ())[: ops // CHECKPOINT_OPS] for info in infos
    ]
    return bool(chains[0]) and all(chain == chains[0] for chain in chains)
