"""Words and numbers for people: units, the headline, what is claimed."""

from collections.abc import Mapping
from typing import Any, Final

from analysis.comparison.trials import compute_statistics
from analysis.log.columns import GIB
from analysis.report.data import Gathered
from analysis.summary import text as render
from analysis.summary.across_runs import grouped, merged
from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tracegen.errors import format_count

_UNITS: Final = (
    ("requests_per_s", "requests/s"),
    ("_tok_s", "tok/s"),
    ("_per_sec", "tok/s"),
    ("_gib_s", "GiB/s"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_bytes_per_day", "bytes/day"),
    ("_writes_per_day", "per day"),
    ("_bytes", "bytes"),
    ("_years", "years"),
    ("_tokens", "tokens"),
)
_SHARES: Final = ("hit_rate", "_compliance", "_utilisation", "cpu_share", "_wait_share", "_left_share", "_efficiency")
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
    """The unit that a metric's name ends in; none of counts and ratios."""
    if name == "tokens_generated" or name.endswith("tokens_processed"):
        return "tokens"
    return next((word for end, word in _UNITS if name.endswith(end) and not is_share(name)), "")


def is_share(name: str) -> bool:
    """Whether a metric is a share of 1, shown in percent."""
    return any(part in name for part in _SHARES)


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
    return number(value) if value is None or not is_share(name) else f"{value:.1%}"


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
    drives = (render.place(run.summary.provenance.storage) or "no nvme tier on a disk" for run in data.runs)
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
        means[name] = compute_statistics(numbers).mean if len(numbers) == len(values) else agreed
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
        return render.break_even(summary)
    first, *others = ((tier, number(summary.metrics[f"{tier}_break_even_tok_s"])) for tier in tiers)
    also = "".join(f"; from {tier} below {speed}" for tier, speed in others)
    tokens = f"{first[1]} prefill tokens per second per request{also}"
    return f"Reading this cache from {first[0]} beats recomputing below {tokens}."


TABLE: Final[dict[str, str]] = {
    "wall_clock_tok_s": "throughput by the wall clock",
    "storage_tok_s": "throughput per unit of concurrency (storage throughput)",
    "mean_inflight": "moves in flight, mean",
    "requests_per_s": "requests begun",
    "decode_read_gib_s": "decode reads",
    **{f"{tier}_{side}_gib_s": f"{tier} {side}s" for tier in TIERS for side in ("read", "write")},
    **{f"{tier}_{side}_p95_ms": f"{tier} {side}s, P95 per object" for tier in TIERS for side in ("read", "write")},
    **{f"nvme_{side}_p99_ms": f"nvme {side}s, P99 per object" for side in ("read", "write")},
    **{
        f"{part}_{stat}_ms": f"{what}, {stat.upper() if stat != 'mean' else 'mean'} per request"
        for part, what in {"ttfb": "time to first byte", "io": "storage I/O", "e2e": "end to end"}.items()
        for stat in ("mean", "p95", "p99")
    },
    "hit_rate_prompt_tokens": "prompt tokens from the cache, first touches included",
    "hit_rate_sessions_p50": "the same of a session, P50",
    "hit_rate": "re-reads that hit (hits / reads, first touches left out)",
    "hit_rate_reuse": "hits / reads of reuse (own decode reads left out)",
    **{f"{tier}_left_share": f"objects left in {tier}, share of all" for tier in TIERS},
    "read_amplification": "tokens read from nvme per token generated",
    "drive_writes_per_day": "drive writes per day, at the replay's pace",
    "tokens_generated": "tokens generated",
    "elapsed_s": "elapsed, of a cut run until the cut",
    "nvme_break_even_tok_s": "nvme: prefill speed that reading beats",
    "bottleneck": "bottleneck",
}
"""The headline table: name and what it is called."""


def rows(data: Gathered) -> list[tuple[str, str, str, list[str]]]:
    """Name, what it is called, unit, and each run's value; of what any run has."""
    found = []
    for name, label in TABLE.items():
        values = [summary.values.get(name) for summary in data.summaries]
        if any(values):
            cells = [bracketed(name, one.metrics, shown(name, one.values.get(name))) for one in data.summaries]
            found.append((name, label, unit(name), cells))
    return found


def doubts(data: Gathered) -> list[tuple[bool, str, str, str]]:
    """Whether it invalidates, kind, text, advice; runs alike in kind and advice in one; what invalidates first."""
    names = [run.name for run in data.runs]
    found = grouped(names, data.summaries)
    return [(against, kind, merged(texts, names), advice) for against, kind, advice, texts in found]


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
