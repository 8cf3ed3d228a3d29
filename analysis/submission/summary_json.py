"""Claims of a package: the content of summary.json, computed from its logs."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import CLAIMED, CLAIMED_WORK
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.submission.package_tree import (
    SCHEMA,
    Submission,
    find_run_directory,
    list_ranks,
    parse_number,
)
from analysis.summary.run_summary import Summary
from analysis.summary.summary import check_run, summarise
from replayer.schema import RunInfo, Window

RATES: Final = tuple(name for name in CLAIMED if describe(name).better == "higher")
"""Summed over ranks, then averaged over trials."""
WORST: Final = tuple(name for name in CLAIMED if describe(name).better == "lower")
"""The largest over ranks and trials."""
_UNITS: Final = {"GiB/s": "2^30 bytes/s", "tok/s": "tokens/s"}
"""Units as a package spells them out."""
_GB: Final = 2**30 / 1e9
CLOSE: Final = 1e-9  # relative difference that another order of summation may cause

MLPERF: Final[dict[str, tuple[str, float, str]]] = {
    "aggregated_read_bandwidth_gbps": ("nvme_read_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_write_bandwidth_gbps": ("nvme_write_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_avg_throughput_tokens_per_sec": ("wall_clock_tok_s", 1, "tokens/s"),
    "aggregated_storage_throughput_tokens_per_sec": ("storage_tok_s", 1, "tokens/s"),
    "aggregated_device_read_p95_ms": ("nvme_read_device_p95_ms", 1, "ms"),
    "aggregated_device_write_p95_ms": ("nvme_write_device_p95_ms", 1, "ms"),
}
"""MLPerf's names (Rules.md 6.3.4), each with our metric, a factor and the unit of the product."""


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
    ranks: list[Summary] = field(default_factory=list)

    @property
    def infos(self) -> list[RunInfo]:
        """The run.json of each rank."""
        return self.run.infos


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


def name_trial(trial: PackagedTrial) -> str:
    """Return the name of a trial for messages: option and trial."""
    return f"{trial.path.parent.name}/{trial.path.name}"


def compute_claims(
    submission: Submission,
    options: Mapping[str, Sequence[PackagedTrial]],
) -> dict[str, Any]:
    """Compute the content of summary.json.

    Args:
        submission: names and kind of the package.
        options: the trials of each option of one model.
    """
    units = {name: unit for name, (_, _, unit) in MLPERF.items()}
    units |= {name: _unit(name) for name in (*RATES, *WORST)}
    return {
        "schema": SCHEMA,
        "organisation": submission.organisation,
        "system": submission.system,
        "division": submission.division,
        "scale": submission.scale,
        "submittable": submission.rules.submittable,
        "units": units,
        "options": {name: _option(submission, name, trials) for name, trials in options.items()},
    }


def _option(submission: Submission, name: str, trials: Sequence[PackagedTrial]) -> dict[str, Any]:
    claims = [_trial(trial) for trial in trials]
    ours: dict[str, float | None] = {}
    for metric in RATES:
        ours[metric] = _mean(claim[metric] for claim in claims)
    for metric in WORST:
        ours[metric] = _largest(claim[metric] for claim in claims)
    mlperf = {name: _scale(ours[metric], factor) for name, (metric, factor, _) in MLPERF.items()}
    return {
        "title": submission.rules.find_option(name).title,
        "model": trials[0].run.conditions.model,
        "rank_count": max(len(claim["ranks"]) for claim in claims),
        "trial_count": len(claims),
        **mlperf,
        **ours,
        "trials": claims,
    }


def _trial(trial: PackagedTrial) -> dict[str, Any]:
    ranks = [_rank(info, summary) for info, summary in zip(trial.infos, trial.ranks, strict=False)]
    return {
        "trial": parse_number(trial.path),
        "steady_s": trial.summary.metrics["steady_s"],
        **{metric: sum(rank[metric] or 0.0 for rank in ranks) for metric in RATES},
        **{metric: _largest(rank[metric] for rank in ranks) for metric in WORST},
        "executed_ops": sum(rank["executed_ops"] or 0 for rank in ranks),
        **{metric: sum(rank[metric] for rank in ranks) for metric in CLAIMED_WORK},
        "ranks": ranks,
    }


def _rank(info: RunInfo, summary: Summary) -> dict[str, Any]:
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


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _scale(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _unit(name: str) -> str:
    """Return the unit of a metric as a package spells it out."""
    unit = describe(name).unit
    return _UNITS.get(unit, unit)


def find_differences(
    claimed: Any,
    computed: Any,
    place: str = "",
) -> Iterator[tuple[str, str, str]]:
    """Find the values in which two trees of JSON differ; yield the place and both values.

    Args:
        claimed: one tree.
        computed: the other tree.
        place: dotted name of both in the whole tree.
    """
    if isinstance(claimed, dict) and isinstance(computed, dict):
        yield from _compare_objects(claimed, computed, place)
    elif isinstance(claimed, list) and isinstance(computed, list) and len(claimed) == len(computed):
        for index, (value, other) in enumerate(zip(claimed, computed, strict=True)):
            yield from find_differences(value, other, f"{place}[{index}]")
    elif not _is_equal(claimed, computed):
        yield place, _shorten(claimed), _shorten(computed)


def _compare_objects(
    claimed: dict[str, Any],
    computed: dict[str, Any],
    place: str,
) -> Iterator[tuple[str, str, str]]:
    for key in dict.fromkeys([*computed, *claimed]):
        inner = f"{place}.{key}" if place else str(key)
        if key not in claimed:
            yield inner, "missing", _shorten(computed[key])
        elif key not in computed:
            yield inner, _shorten(claimed[key]), "nothing"
        else:
            yield from find_differences(claimed[key], computed[key], inner)


def _is_equal(value: Any, other: Any) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=CLOSE)
    return type(value) is type(other) and bool(value == other)


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
