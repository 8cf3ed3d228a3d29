"""A summary as a table for people."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from analysis.log import GIB
from analysis.summary import differences
from replayer.schema import TIERS

Format = Callable[[Any], str]


def _count(value: int) -> str:
    return f"{value:,}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"


def _gib(value: int) -> str:
    return f"{value / GIB:,.3f}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


Line = tuple[str, str, Format]
WORK: Final[list[Line]] = [
    ("tokens generated", "tokens_generated", _count),
    ("decode read GiB", "decode_read_bytes", _gib),
    *((f"  from {tier}", f"{tier}_decode_read_bytes", _gib) for tier in TIERS),
    ("prefill written GiB", "prefill_write_bytes", _gib),
    *((f"  to {tier}", f"{tier}_prefill_write_bytes", _gib) for tier in TIERS),
    ("nvme tokens processed", "nvme_tokens_processed", _count),
    ("read / write ratio", "read_write_ratio", _number),
    ("evictions", "evictions", _count),
    ("tokens recomputed", "recomputed_tokens", _count),
    ("failed moves", "failed_moves", _count),
]
HITS: Final[list[Line]] = [
    ("hits / reads", "hit_rate", _percent),
    ("  by tokens", "hit_rate_tokens", _percent),
    *((f"  from {tier}", f"{tier}_hit_rate", _percent) for tier in TIERS),
    ("without own decode reads (reuse)", "hit_rate_reuse", _percent),
    *(
        (f"  {source.replace('_', ' ')}", f"{source}_hit_rate", _percent)
        for source in ("multi_turn", "system", "common", "rag")
    ),
    ("hits / (reads + writes) (refs)", "hit_rate_refs", _percent),
]
SPEED: Final[list[Line]] = [
    ("elapsed s", "elapsed_s", _number),
    ("  of it drain, after the window", "drain_s", _number),
    ("wall-clock throughput tok/s", "wall_clock_tok_s", _number),
    ("storage throughput tok/s", "storage_tok_s", _number),
    ("  at mean moves in flight", "mean_inflight", _number),
    ("decode read GiB/s", "decode_read_gib_s", _number),
    *((f"{tier} {side} GiB/s", f"{tier}_{side}_gib_s", _number) for tier in TIERS for side in ("read", "write")),
    ("queue P95 ms per request", "queue_p95_ms", _number),
    ("plan wait P95 ms per request", "plan_wait_p95_ms", _number),
    ("lateness P99 ms per request", "lateness_p99_ms", _number),
    ("end to end P95 ms per request", "e2e_p95_ms", _number),
]
LATENCY: Final[list[Line]] = [
    (f"{tier} {side} {name.upper() if name != 'max' else 'max'} ms", f"{tier}_{side}_{name}_ms", _number)
    for tier in TIERS
    for side in ("read", "write")
    for name in ("p50", "p95", "p99", "max")
]
SECTIONS: Final = {
    "Work (equal wherever the trace and the tiers are equal)": WORK,
    "Hit rates (of the workload and the capacities)": HITS,
    "Speed (of this system)": SPEED,
    "Latency of whole objects, waiting excluded": LATENCY,
}


def render(summaries: list[dict[str, Any]]) -> str:
    """Conditions, a column of numbers per run, and the verdict."""
    names = [Path(summary["run"]).name for summary in summaries]
    width = max(12, *(len(name) + 2 for name in names))
    lines = [_conditions(summary) for summary in summaries]
    for title, section in SECTIONS.items():
        shown = [line for line in section if any(_matters(line[1], summary) for summary in summaries)]
        lines += ["", f"{title:58}" + "".join(f"{name:>{width}}" for name in names)]
        for label, name, form in shown:
            values = (form(s[name]) if s[name] is not None else "-" for s in summaries)
            lines.append(f"  {label:56}" + "".join(f"{value:>{width}}" for value in values))
    return "\n".join([*lines, "", *_verdict(summaries)])


def _matters(name: str, summary: dict[str, Any]) -> bool:
    """Whether a line says something: tiers and sources that saw nothing are left out."""
    conditions = summary["conditions"]
    if name.startswith("lateness") and conditions["pace"] != "open":  # no schedule to be late for
        return False
    if name == "drain_s" and not conditions.get("duration_s"):
        return False
    of_tier = name.startswith(TIERS)
    return summary[name] is not None and not (of_tier and summary[name] == 0)


def _conditions(summary: dict[str, Any]) -> str:
    conditions = summary["conditions"]
    tiers = ", ".join(
        f"{tier} {'unlimited' if size is None else f'{size / GIB:.3g} GiB usable'}"
        for tier, size in conditions["usable_bytes"].items()
        if size != 0
    )
    direct = {True: ", O_DIRECT", False: ", page cache", None: ""}[conditions["direct"]]
    return (
        f"{summary['run']}: {conditions['model']} at {conditions['bytes_per_token']:,} bytes per token; {tiers};"
        f" {_ranks(conditions)}{conditions['workers']} workers, pace {conditions['pace']}{direct},"
        f" verify {conditions['verify']}"
    )


def _ranks(conditions: dict[str, Any]) -> str:
    ranks = conditions.get("ranks", 1)
    return f"{ranks} ranks of " if ranks > 1 else ""


def _verdict(summaries: list[dict[str, Any]]) -> list[str]:
    lines = []
    for summary in summaries:
        state = "VALID" if summary["valid"] else "NOT VALID"
        facts = summary["findings"] or ["complete, no move failed, log and plan agree"]
        lines += [f"{state}: {summary['run']}: {fact}." for fact in facts]
        lines += [f"Warning: {summary['run']}: {warning}" for warning in summary["warnings"]]
    if len(summaries) > 1:
        lines.append(f"{len(summaries)} runs, {_sameness(summaries)}.")
    return lines


def _sameness(summaries: list[dict[str, Any]]) -> str:
    if unlike := differences(summaries):
        return "unlike work, these differ: " + ", ".join(unlike)
    trace, plan = (str(summaries[0][f"{what}_fingerprint"])[:12] for what in ("trace", "plan"))
    return f"same work: trace {trace}…, plan {plan}… and every count are equal, only times differ"
