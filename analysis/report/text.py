"""Words and numbers of a report: units, headlines, the headline table, claims."""

from collections.abc import Mapping
from typing import Any, Final

from analysis.comparison.trials import compute_statistics
from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import REPORT
from analysis.report.data import Gathered
from analysis.summary import text as render
from analysis.summary.across_runs import group_doubts, merge_texts
from analysis.summary.columns import format_interval
from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tracegen.errors import format_count

_HELD_BY: Final = {
    "cpu": "the processor: its cores were busy with the replayer or with other programs",
    "source": "the workload, which paused for more than half of the time",
    "data": "data dependencies: moves mostly waited for earlier moves of the same objects",
    "eviction": "evictions: moves mostly waited for evictions that their own op caused",
    "room": "room in a tier: moves mostly waited for space that other ops free, which a server may avoid",
    "window": "the planning window, which did not contain ops yet that were due",
    "plan": "the plan's order, for which moves mostly waited",
    "queue": "the queue: moves mostly waited for a worker, a buffer or a permit",
    "host": "the host: opening, closing and the interpreter took most of the time",
    "device": "the device, in which moves spent most of their time",
    "verify": "verification: making and checking bytes took most of the time",
}
CLAIMS: Final = (
    "Placement was decided by the plan, not by the speed of this system, unless the settings say placement live. A live"
    " server on a slower device could have more or fewer hits.",
    "Hits and bytes depend on the workload and the capacities, times on the system.",
    "Waiting that the plan itself causes is logged separately, as plan wait. All bytes read were checked against the"
    " bytes written, unless the settings say verify off. A failed move is a row of the log and makes the run fail.",
    "Latencies are those of whole objects, with evictions and without waiting. Quantiles are exact and interpolated"
    " linearly. 1 GiB = 2^30 bytes.",
)


_OF_PREDICTIONS: Final = (
    "Runs marked as predicted were not measured: their times were computed from a profile, which"
    " says how long a tier takes at a given load. Their lines are dashed. An interval is the range"
    " of the prediction and of two more, with a slower and with a faster profile."
)


def list_claims(data: Gathered) -> list[str]:
    """Return what a page claims about its numbers."""
    is_predicted = any(summary.prediction is not None for summary in data.summaries)
    return [_OF_PREDICTIONS, *CLAIMS] if is_predicted else [*CLAIMS]


def unit(name: str) -> str:
    """Return the unit of an entry of a summary; empty for shares, ratios, words and entries that are no metric."""
    metric = CATALOGUE.get(name)
    return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit


def format_number(value: Any) -> str:
    """Format a number with four significant digits and separated thousands; – for None."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or not value else f"{value:.2e}"


def shown(name: str, value: Any) -> str:
    """A metric's value without its unit."""
    return format_number(value) if value is None or not describe(name).is_share else f"{value:.1%}"


def format_state(data: Gathered) -> str:
    """Format the verdict on all runs."""
    valid = sum(summary.is_valid for summary in data.summaries)
    predicted = sum(summary.prediction is not None for summary in data.summaries)
    if valid == predicted == len(data.runs):
        return "VALID PREDICTION" if valid == 1 else "VALID PREDICTIONS"
    if valid == len(data.runs):
        return f"VALID, {predicted} of {len(data.runs)} runs predicted" if predicted else "VALID"
    return "NOT VALID" if not valid else f"NOT VALID: {len(data.runs) - valid} of {len(data.runs)} runs"


def describe_machines(data: Gathered) -> str:
    """Describe the machines of the runs: processors, drives under the nvme tier, profiles."""
    measured = [run for run in data.runs if run.summary.prediction is None]
    machines = [run.summary.provenance.machine for run in measured]
    hosts = (
        f"{one.cpu}, {format_count(one.cores, 'core')}" if one.cpu and one.cores else "an unknown machine"
        for one in machines
    )
    drives = (render.describe_drive(run.summary.provenance.storage) or "no nvme tier on a disk" for run in measured)
    profiles = (
        f"{run.name}: PREDICTED, not measured, with {run.summary.prediction.describe()}"
        for run in data.runs
        if run.summary.prediction is not None
    )
    return "; ".join(dict.fromkeys([*hosts, *drives, *profiles]))


def summarise_systems(data: Gathered) -> list[tuple[str, str, str]]:
    """Return name, verdict and headline of each system; the headline has means over its valid trials."""
    rows = []
    for system in data.systems:
        trials = data.trials(system)
        valid = [run for run in trials if run.summary.is_valid] or trials
        name = f"{system}, {len(trials)} trials" if len(trials) > 1 else trials[0].name
        invalid = [run.name for run in trials if not run.summary.is_valid]
        is_predicted = trials[0].summary.prediction is not None
        verdict = "VALID PREDICTION" if is_predicted else "VALID"
        verdict = f"NOT VALID ({', '.join(invalid)})" if invalid else verdict
        rows.append((name, verdict, format_headline(_average([run.summary.values for run in valid]))))
    return rows


Figures = Mapping[str, float | str | None]
"""Metrics, and the bottleneck, by name."""


def _average(trials: list[Figures]) -> Figures:
    """Return the mean of each metric over trials, and the bottleneck if all agree."""
    if len(trials) == 1:
        return trials[0]
    means: dict[str, float | str | None] = {}
    for name, first in trials[0].items():
        values = [trial[name] for trial in trials]
        numbers = [value for value in values if isinstance(value, int | float)]
        agreed = first if all(value == first for value in values) else None
        means[name] = compute_statistics(numbers).mean if len(numbers) == len(values) else agreed
    return means


def format_findings(summary: Summary) -> str:
    """Format why a run's figures must not be published; empty for a valid run."""
    return "".join(f"{text}. " for text in summary.findings) + ("" if summary.is_valid else "It measured: ")


def format_headline(metrics: Figures) -> str:
    """Format a run's headline figures as a sentence."""
    clauses = [
        _fill(metrics, "{wall_clock_tok_s} tokens per second by the wall clock"),
        _fill(metrics, "decode read {decode_read_gib_s} GiB/s"),
        *(
            _fill(
                metrics,
                f"nvme {verb} {{nvme_{side}_gib_s}} GiB/s, P95 {{nvme_{side}_p95_ms}} ms per object",
            )
            for side, verb in (("read", "read"), ("write", "wrote"))
        ),
        _fill(
            metrics,
            "{hit_rate_prompt_tokens} of prompt tokens came from the cache, first touches included",
        ),
        _fill(metrics, "{hit_rate} of re-reads hit (hits / reads, by ops), of reuse {hit_rate_reuse}"),
    ]
    text = "; ".join(clause for clause in clauses if clause) or "nothing was measured"
    if cause := _HELD_BY.get(str(metrics["bottleneck"])):
        text += f"; held back by {cause}"
    return f"{text}."


def _fill(metrics: Figures, pattern: str) -> str:
    names = [part.split("}")[0] for part in pattern.split("{")[1:]]
    if any(not metrics.get(name) for name in names):
        return ""
    return pattern.format(**{name: bracketed(name, dict(metrics), shown(name, metrics[name])) for name in names})


def format_break_even(summary: Summary) -> str:
    """Format the prefill speeds that reading the cache beats as a sentence."""
    tiers = [tier for tier in reversed(TIERS) if summary.metrics[f"{tier}_break_even_tok_s"]]
    if not tiers:
        return render.format_break_even(summary)
    first, *others = ((tier, format_number(summary.metrics[f"{tier}_break_even_tok_s"])) for tier in tiers)
    rest = "".join(f"; from {tier} below {speed}" for tier, speed in others)
    tokens = f"{first[1]} prefill tokens per second per request{rest}"
    return f"Reading this cache from {first[0]} beats recomputing below {tokens}."


def rows(data: Gathered) -> list[tuple[str, str, str, list[str]]]:
    """Return name, label, unit and each run's value of the metrics that any run has."""
    found = []
    for name in REPORT:
        values = [summary.values.get(name) for summary in data.summaries]
        if any(values):
            cells = [_format_cell(name, one) for one in data.summaries]
            found.append((name, describe(name).label, unit(name), cells))
    return found


def _format_cell(name: str, summary: Summary) -> str:
    """Format a run's value of a metric, with its interval if the run was predicted with bounds."""
    cell = bracketed(name, summary.metrics, shown(name, summary.values.get(name)))
    ends = format_interval(summary, name, lambda value: shown(name, value), between=" to ")
    return cell if ends is None else f"{cell} [{ends}]"


def list_doubts(data: Gathered) -> list[tuple[bool, str, str, str]]:
    """Return for each doubt whether it invalidates, its kind, text and advice; doubts that invalidate first.

    Doubts of several runs with the same kind and advice are one.
    """
    names = [run.name for run in data.runs]
    groups = group_doubts(names, data.summaries)
    return [(invalidates, kind, merge_texts(texts, names), advice) for invalidates, kind, advice, texts in groups]


def format_setting(name: str, value: Any) -> str:
    """Format a setting's value; sizes in bytes and in GiB."""
    if value is None:
        return "unlimited" if name.startswith("usable_bytes") else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") or name.startswith("usable_bytes") or name == "window_bytes":
        return f"{value:,} ({value / GIB:.3g} GiB)" if value else "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return format_number(value) if isinstance(value, int | float) else str(value)


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables; names are joined by dots, and empty tables left out."""
    flattened: dict[str, Any] = {}
    for name, value in values.items():
        flattened |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flattened
