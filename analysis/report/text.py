"""Words and numbers for people: units, the headline, what is claimed."""

from collections.abc import Mapping
from typing import Any, Final

from analysis.comparison.trials import statistics
from analysis.log.columns import GIB
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import REPORT
from analysis.report.data import Gathered
from analysis.summary import text as render
from analysis.summary.across_runs import group_doubts, merge_texts
from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tracegen.errors import format_count

_HELD_BY: Final = {
    "cpu": "the cores, which the replayer, or something else on the machine, kept busy",
    "source": "the workload, which paused more than half of the time",
    "data": "data dependencies: moves waited longest for earlier moves of the same objects",
    "eviction": "evictions: moves waited longest for those of their own op",
    "room": "room in a tier: moves waited longest for what other ops free, which a server need not",
    "window": "the replayer's window, which did not hold ops yet that were due",
    "plan": "the plan's order, which moves waited for longest",
    "queue": "the queue: moves waited longest for a worker, a buffer or a permit",
    "host": "the host: opening, closing and the interpreter took longest",
    "device": "the device, which moves spent most of their time in",
    "verify": "verification: making and checking bytes took longest",
}
CLAIMS: Final = (
    "Placement was decided by the plan, unless the settings say placement live, not by this system's speed: a live"
    " server on a slower device could hit more or less.",
    "Hits and bytes are properties of the workload and the capacities; times are properties of the system.",
    "Waiting that the plan itself causes is logged apart, as plan wait. What was read was checked against what was"
    " written, unless the settings say verify off; a failed move is a row of the log and fails the run.",
    "Latencies are of whole objects, waiting excluded and evictions included. Quantiles are exact and interpolate"
    " linearly. 1 GiB = 2^30 bytes.",
)


def unit(name: str) -> str:
    """Return the unit of an entry of a summary; empty for shares, ratios, words and entries that are no metric."""
    metric = CATALOGUE.get(name)
    return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit


def number(value: Any) -> str:
    """Four significant figures, thousands apart."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 1e-4 or not value else f"{value:.2e}"


def shown(name: str, value: Any) -> str:
    """A metric's value without its unit."""
    return number(value) if value is None or not describe(name).is_share else f"{value:.1%}"


def state(data: Gathered) -> str:
    """VALID or not, of all runs."""
    valid = sum(summary.is_valid for summary in data.summaries)
    if valid == len(data.runs):
        return "VALID"
    return "NOT VALID" if not valid else f"NOT VALID: {len(data.runs) - valid} of {len(data.runs)} runs"


def tested(data: Gathered) -> str:
    """What the runs were made on: processors, and the drives under the nvme tier."""
    machines = [run.summary.provenance.machine for run in data.runs]
    hosts = (
        f"{one.cpu}, {format_count(one.cores, 'core')}" if one.cpu and one.cores else "an unknown machine"
        for one in machines
    )
    drives = (render.describe_drive(run.summary.provenance.storage) or "no nvme tier on a disk" for run in data.runs)
    return "; ".join(dict.fromkeys([*hosts, *drives]))


def systems(data: Gathered) -> list[tuple[str, str, str]]:
    """Name, verdict and headline of each system; of trials the mean of the valid ones."""
    found = []
    for system in data.systems:
        trials = data.trials(system)
        believed = [run for run in trials if run.summary.is_valid] or trials
        name = f"{system}, {len(trials)} trials" if len(trials) > 1 else trials[0].name
        wrong = [run.name for run in trials if not run.summary.is_valid]
        verdict = f"NOT VALID ({', '.join(wrong)})" if wrong else "VALID"
        found.append((name, verdict, headline(_mean([run.summary.values for run in believed]))))
    return found


Figures = Mapping[str, float | str | None]
"""Metrics, and the bottleneck, by name."""


def _mean(trials: list[Figures]) -> Figures:
    """Return the mean of each metric over trials, and the bottleneck if all agree."""
    if len(trials) == 1:
        return trials[0]
    means: dict[str, float | str | None] = {}
    for name, first in trials[0].items():
        values = [trial[name] for trial in trials]
        numbers = [value for value in values if isinstance(value, int | float)]
        agreed = first if all(value == first for value in values) else None
        means[name] = statistics(numbers).mean if len(numbers) == len(values) else agreed
    return means


def findings(summary: Summary) -> str:
    """Why a run's figures must not be published; nothing of a valid one."""
    return "".join(f"{text}. " for text in summary.findings) + ("" if summary.is_valid else "What it measured: ")


def headline(metrics: Figures) -> str:
    """A run's headline figures, in one sentence."""
    said = [
        _said(metrics, "{wall_clock_tok_s} tokens per second by the wall clock"),
        _said(metrics, "decode read {decode_read_gib_s} GiB/s"),
        *(
            _said(metrics, f"nvme {verb} {{nvme_{side}_gib_s}} GiB/s, P95 {{nvme_{side}_p95_ms}} ms per object")
            for side, verb in (("read", "read"), ("write", "wrote"))
        ),
        _said(metrics, "{hit_rate_prompt_tokens} of prompt tokens came from the cache, first touches included"),
        _said(metrics, "{hit_rate} of re-reads hit (hits / reads, by ops), of reuse {hit_rate_reuse}"),
    ]
    told = "; ".join(one for one in said if one) or "nothing was measured"
    held = _HELD_BY.get(str(metrics["bottleneck"]))
    return f"{told}{f'; held back by {held}' if held else ''}."


def _said(metrics: Figures, pattern: str) -> str:
    names = [part.split("}")[0] for part in pattern.split("{")[1:]]
    if any(not metrics.get(name) for name in names):
        return ""
    return pattern.format(**{name: bracketed(name, dict(metrics), shown(name, metrics[name])) for name in names})


def worth(summary: Summary) -> str:
    """What the cache is worth, in one sentence."""
    tiers = [tier for tier in reversed(TIERS) if summary.metrics[f"{tier}_break_even_tok_s"]]
    if not tiers:
        return render.format_break_even(summary)
    first, *others = ((tier, number(summary.metrics[f"{tier}_break_even_tok_s"])) for tier in tiers)
    also = "".join(f"; from {tier} below {speed}" for tier, speed in others)
    tokens = f"{first[1]} prefill tokens per second per request{also}"
    return f"Reading this cache from {first[0]} beats recomputing below {tokens}."


def rows(data: Gathered) -> list[tuple[str, str, str, list[str]]]:
    """Name, what it is called, unit, and each run's value; of what any run has."""
    found = []
    for name in REPORT:
        values = [summary.values.get(name) for summary in data.summaries]
        if any(values):
            cells = [bracketed(name, one.metrics, shown(name, one.values.get(name))) for one in data.summaries]
            found.append((name, describe(name).label, unit(name), cells))
    return found


def doubts(data: Gathered) -> list[tuple[bool, str, str, str]]:
    """Whether it invalidates, kind, text, advice; runs alike in kind and advice in one; what invalidates first."""
    names = [run.name for run in data.runs]
    found = group_doubts(names, data.summaries)
    return [(against, kind, merge_texts(texts, names), advice) for against, kind, advice, texts in found]


def setting(name: str, value: Any) -> str:
    """A setting's value for people; sizes in GiB as well."""
    if value is None:
        return "unlimited" if name.startswith("usable_bytes") else "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") or name.startswith("usable_bytes") or name == "window_bytes":
        return f"{value:,} ({value / GIB:.3g} GiB)" if value else "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return number(value) if isinstance(value, int | float) else str(value)


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, names joined by dots; empty ones left out."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


RANKING: Final = ["", "system", "trials", "tok/s", "speed-up", "judged over"]


def ranking(data: Gathered) -> list[list[str]]:
    """Rows of the ranking: place, system, its trials, tok/s and speed-up with their 95% intervals, over what."""
    rows = []
    for place, one in enumerate(data.ranking, 1):
        rate = "" if one.tok_s is None else number(one.tok_s)
        if one.tok_s_low is not None and one.tok_s_high is not None:
            rate += f" ({number(one.tok_s_low)} to {number(one.tok_s_high)})"
        span = f" ({one.low:.2f} to {one.high:.2f})" if one.low is not None and one.high is not None else ""
        times = f"{one.speed_up:.2f} ×{span}" if one.speed_up is not None else f"not compared: {one.why}"
        ops = "" if one.speed_up is None else "each run's own window" if one.cut else "the whole run"
        rows.append([str(place), one.system, format_count(one.trials, "trial"), rate, times, ops])
    return rows
