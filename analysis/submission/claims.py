"""Claims of a package: the content of summary.json, computed from its logs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import CLAIMED, CLAIMED_WORK
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.submission.package_tree import Submission, find_run_directory, flatten_tree, list_ranks, parse_number
from analysis.submission.rules import Option
from analysis.summary.run_summary import Summary
from analysis.summary.summary import check_run, summarise
from replayer.schema import RunInfo, Window

# Summed over ranks, then averaged over trials.
RATES: Final = tuple(name for name in CLAIMED if describe(name).better == "higher")
# The largest over ranks and trials.
WORST: Final = tuple(name for name in CLAIMED if describe(name).better == "lower")
# Units as a package spells them out.
_UNITS: Final = {"GiB/s": "2^30 bytes/s", "tok/s": "tokens/s"}
_GB: Final = 2**30 / 1e9
CLOSE: Final = 1e-9  # relative difference that another order of summation may cause

# MLPerf's names (Rules.md 6.3.4), each with our metric, a factor and the unit of the product.
MLPERF: Final[dict[str, tuple[str, float, str]]] = {
    "aggregated_read_bandwidth_gbps": ("nvme_read_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_write_bandwidth_gbps": ("nvme_write_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_avg_throughput_tokens_per_sec": ("wall_clock_tok_s", 1, "tokens/s"),
    "aggregated_storage_throughput_tokens_per_sec": ("storage_tok_s", 1, "tokens/s"),
    "aggregated_device_read_p95_ms": ("nvme_read_device_p95_ms", 1, "ms"),
    "aggregated_device_write_p95_ms": ("nvme_write_device_p95_ms", 1, "ms"),
}


@dataclass(frozen=True)
class PackagedTrial:
    """An opened trial of a package.

    Attributes:
        path: its directory.
        run: the run with all its ranks.
        summary: the summary of all ranks together, with every row checked.
        ranks: the summary of each rank alone.
    """

    path: Path
    run: Run
    summary: Summary
    ranks: Sequence[Summary]

    @property
    def name(self) -> str:
        """Its name in messages: option and trial."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def infos(self) -> list[RunInfo]:
        """The run.json of each rank."""
        return self.run.infos

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """The start and the end on the hosts' clocks; None if they are not known."""
        starts, ends = (
            [ns for ns in known if ns is not None] for known in (self.summary.zero_ns, self.summary.ended_ns)
        )
        return (min(starts), max(ends)) if starts and ends else None


# The trials of a package by option.
Trials = Mapping[str, Sequence[PackagedTrial]]


def open_trial(path: Path) -> PackagedTrial:
    """Open a trial and compute its metrics.

    Raises:
        InputError: a run is missing or damaged.
    """
    top = find_run_directory(path)
    run = open_run(top)
    summary = check_run(top)
    ranks = [summary] if top != path else [summarise(rank) for rank in list_ranks(path)]
    return PackagedTrial(path, run, summary, ranks)


def select_model(run: Path, options: Trials) -> Trials:
    """Select the options whose trials are in a model's directory."""
    return {name: options[name] for name in sorted(options) if (run / name).exists()}


def compute_claims(submission: Submission, options: Trials) -> dict[str, Any]:
    """Compute the content of summary.json."""
    units = {name: unit for name, (_, _, unit) in MLPERF.items()}
    for name in (*RATES, *WORST):
        unit = describe(name).unit
        units[name] = _UNITS.get(unit, unit)
    return {
        **submission.names,
        "submittable": submission.rules.submittable,
        "units": units,
        "options": {name: sum_option(submission.rules.find_option(name), trials) for name, trials in options.items()},
    }


def sum_option(option: Option, trials: Sequence[PackagedTrial]) -> dict[str, Any]:
    """Compute what a package claims of an option: means of rates over trials, the worst of times."""
    claims = [_sum_trial(trial) for trial in trials]
    means = {metric: _find(fmean, (claim[metric] for claim in claims)) for metric in RATES}
    worst = {metric: _find(max, (claim[metric] for claim in claims)) for metric in WORST}
    ours = means | worst
    mlperf = {}
    for theirs, (metric, factor, _) in MLPERF.items():
        value = ours[metric]
        mlperf[theirs] = None if value is None else value * factor
    return {
        "title": option.title,
        "model": trials[0].run.conditions.model,
        "rank_count": max(len(claim["ranks"]) for claim in claims),
        "trial_count": len(claims),
        **mlperf,
        **ours,
        "trials": claims,
    }


def _sum_trial(trial: PackagedTrial) -> dict[str, Any]:
    # Ranks that are missing are reported as doubts about the run.
    ranks = [_claim_rank(info, summary) for info, summary in zip(trial.infos, trial.ranks, strict=False)]
    return {
        "trial": parse_number(trial.path),
        "steady_s": trial.summary.metrics["steady_s"],
        **{metric: sum(rank[metric] or 0.0 for rank in ranks) for metric in RATES},
        **{metric: _find(max, (rank[metric] for rank in ranks)) for metric in WORST},
        **{metric: sum(rank[metric] or 0 for rank in ranks) for metric in ("executed_ops", *CLAIMED_WORK)},
        "ranks": ranks,
    }


def _claim_rank(info: RunInfo, summary: Summary) -> dict[str, Any]:
    window = info.window or Window()
    return {
        "rank": info.rank or 0,
        "trace_fingerprint": info.trace.fingerprint,
        "plan_fingerprint": info.plan_fingerprint,
        "executed_ops": info.executed_ops,
        "executed_fingerprint": info.executed_fingerprint,
        "window": {name: getattr(window, name) for name in ("duration_s", "cut_s", "issued_s")},
        **{metric: summary.metrics[metric] for metric in (*RATES, *WORST, *CLAIMED_WORK)},
    }


def _find(statistic: Any, values: Iterable[float | None]) -> float | None:
    """Compute a statistic of the values that were measured; None without any."""
    known = [value for value in values if value is not None]
    found: float | None = statistic(known) if known else None
    return found


def find_differences(claimed: Any, computed: Any) -> Iterator[str]:
    """Phrase the differences between the tree of JSON that a package has and the one that its logs give."""
    trees = flatten_tree(claimed), flatten_tree(computed)
    for place in trees[1] | trees[0]:
        own, ours = (tree.get(place, ...) for tree in trees)
        is_rounded = isinstance(own, float) and isinstance(ours, float) and math.isclose(own, ours, rel_tol=CLOSE)
        if not is_rounded and (type(own) is not type(ours) or own != ours):
            has, gives = ("missing" if value is ... else f"{value!r:.80}" for value in (own, ours))
            yield f"{place} is {has}, but its logs give {gives}"
