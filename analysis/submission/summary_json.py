"""What a package claims: summary.json, computed from its logs; the validator computes it again."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.submission.package_tree import SCHEMA, About, number, opened_as, ranks_of
from analysis.summary.run_summary import Summary
from analysis.summary.summary import check_run, summarise
from replayer.schema import RunInfo, Window

RATES: Final = (
    "decode_read_gib_s", "steady_decode_read_gib_s", "nvme_read_gib_s", "nvme_write_gib_s", "steady_nvme_read_gib_s",
    "steady_nvme_write_gib_s", "wall_clock_tok_s", "steady_tok_s", "storage_tok_s",
)  # fmt: skip
"""Summed over ranks, then averaged over trials."""
WORST: Final = (
    "nvme_read_device_p95_ms", "nvme_write_device_p95_ms", "nvme_read_p95_ms", "nvme_write_p95_ms", "ttfb_p95_ms",
    "e2e_p95_ms", "elapsed_s", "drain_s",
)  # fmt: skip
"""The largest over ranks and trials."""
WORK: Final = ("tokens_generated", "decode_read_bytes", "prefill_write_bytes", "nvme_read_bytes", "nvme_write_bytes")
_GB: Final = 2**30 / 1e9
CLOSE: Final = 1e-9  # relative: what sums in another order may differ by

MLPERF: Final[dict[str, tuple[str, float, str]]] = {
    "aggregated_read_bandwidth_gbps": ("nvme_read_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_write_bandwidth_gbps": ("nvme_write_gib_s", _GB, "10^9 bytes/s"),
    "aggregated_avg_throughput_tokens_per_sec": ("wall_clock_tok_s", 1, "tokens/s"),
    "aggregated_storage_throughput_tokens_per_sec": ("storage_tok_s", 1, "tokens/s"),
    "aggregated_device_read_p95_ms": ("nvme_read_device_p95_ms", 1, "ms"),
    "aggregated_device_write_p95_ms": ("nvme_write_device_p95_ms", 1, "ms"),
}
"""MLPerf's names (Rules.md 6.3.4): which of ours, times what, in which unit."""


@dataclass(frozen=True)
class Trial:
    """A trial of a package, opened.

    Attributes:
        path: its directory.
        run: all of its ranks.
        summary: of all of them together, every row looked at.
        ranks: the summary of each alone.
    """

    path: Path
    run: Run
    summary: Summary
    ranks: list[Summary] = field(default_factory=list)

    @property
    def infos(self) -> list[RunInfo]:
        """run.json of each rank."""
        return self.run.infos


def open_trial(path: Path) -> Trial:
    """A trial with its metrics.

    Raises:
        InputError: a run is missing or damaged.
    """
    top = opened_as(path)
    run, summary = open_run(top), check_run(top)
    alone = [summary] if top != path else [summarise(rank) for rank in ranks_of(path)]
    return Trial(path, run, summary, alone)


def place_of(trial: Trial) -> str:
    """How a trial is told of."""
    return f"{trial.path.parent.name}/{trial.path.name}"


def claims(about: About, options: Mapping[str, Sequence[Trial]]) -> dict[str, Any]:
    """The content of summary.json over the options of one model."""
    return {
        "schema": SCHEMA,
        "organisation": about.organisation,
        "system": about.system,
        "division": about.division,
        "scale": about.scale,
        "submittable": about.rules.submittable,
        "units": {name: unit for name, (_, _, unit) in MLPERF.items()}
        | {name: _unit(name) for name in (*RATES, *WORST)},
        "options": {name: _option(about, name, trials) for name, trials in options.items()},
    }


def _option(about: About, name: str, trials: Sequence[Trial]) -> dict[str, Any]:
    each = [_trial(trial) for trial in trials]
    ours: dict[str, float | None] = {metric: _mean(one[metric] for one in each) for metric in RATES}
    ours |= {metric: _largest(one[metric] for one in each) for metric in WORST}
    mlperf = {theirs: _times(ours[metric], factor) for theirs, (metric, factor, _) in MLPERF.items()}
    return {
        "title": about.rules.option(name).title,
        "model": trials[0].run.conditions.model,
        "rank_count": max(len(one["ranks"]) for one in each),
        "trial_count": len(each),
        **mlperf,
        **ours,
        "trials": each,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    ranks = [_rank(info, summary) for info, summary in zip(trial.infos, trial.ranks, strict=False)]
    return {
        "trial": number(trial.path),
        "steady_s": trial.summary.metrics["steady_s"],
        **{metric: sum(rank[metric] or 0.0 for rank in ranks) for metric in RATES},
        **{metric: _largest(rank[metric] for rank in ranks) for metric in WORST},
        "executed_ops": sum(rank["executed_ops"] or 0 for rank in ranks),
        **{metric: sum(rank[metric] for rank in ranks) for metric in WORK},
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
        **{metric: summary.metrics[metric] for metric in (*RATES, *WORST, *WORK)},
    }


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if found else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _unit(name: str) -> str:
    return {"gib_s": "2^30 bytes/s", "tok_s": "tokens/s"}.get("_".join(name.split("_")[-2:]), name.rsplit("_", 1)[1])


def unlike(claimed: Any, computed: Any, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two trees of JSON differ: the place, what each has."""
    if isinstance(claimed, dict) and isinstance(computed, dict):
        for key in dict.fromkeys([*computed, *claimed]):
            inner = f"{place}.{key}" if place else str(key)
            if key in claimed and key in computed:
                yield from unlike(claimed[key], computed[key], inner)
            else:
                says, logs = (_short(side[key]) if key in side else "nothing of it" for side in (claimed, computed))
                yield inner, says, logs
    elif isinstance(claimed, list) and isinstance(computed, list) and len(claimed) == len(computed):
        for index, (one, other) in enumerate(zip(claimed, computed, strict=True)):
            yield from unlike(one, other, f"{place}[{index}]")
    elif not _equal(claimed, computed):
        yield place, _short(claimed), _short(computed)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE)
    return type(one) is type(other) and bool(one == other)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
