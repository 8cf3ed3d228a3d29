"""Summaries as a table for people: verdicts and doubts first."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from analysis.doubts.checks import STILL_RUNNING
from analysis.log import plan_order as orders
from analysis.log.columns import GIB
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import SUMMARY, heading
from analysis.metrics.metric import Metric
from analysis.summary.across_runs import LISTED, configurations, grouped, merged
from analysis.summary.percentiles import bracketed, note
from analysis.summary.run_summary import Summary
from analysis.summary.summary import differences
from replayer.schema import TIERS, Conditions, Storage, drive
from tracegen.errors import format_count
from tracegen.schema import ENUMS

Format = Callable[[Any], str]
Line = tuple[str, str, Format]
"""A line of a summary: its label, its metric, and how the value is shown."""


def _count(value: int) -> str:
    return f"{value:,}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"


def _gib(value: int) -> str:
    return f"{value / GIB:,.3f}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _tb(value: float) -> str:
    return _number(value / 1e12)


def _format_of(metric: Metric) -> Format:
    """Return how a metric is shown: bytes in GiB, bytes per day in TB, shares in percent."""
    by_unit: dict[str, Format] = {"bytes": _gib, "bytes/day": _tb, "share": _percent, "": str}
    return by_unit.get(metric.unit, _count if metric.is_count else _number)


def _line(entry: str) -> Line:
    """Make a line of an entry of SUMMARY, e.g. `  + io_mean_ms`."""
    name = entry.strip(" +=")
    return entry.replace(name, heading(name)), name, _format_of(describe(name))


SECTIONS: Final[dict[str, list[Line]]] = {
    title: [_line(entry) for entry in entries] for title, entries in SUMMARY.items()
}


def render(summaries: list[Summary]) -> str:
    """Doubts, conditions, a column of numbers per run, what the cache is worth, and the verdicts."""
    names = _names(summaries)
    width = max(12, *(len(name) + 2 for name in names))
    lines = [*doubts(summaries), *(line for summary in summaries for line in (_conditions(summary), _machine(summary)))]
    for title, section in SECTIONS.items():
        shown = [line for line in section if any(_matters(line[1], summary) for summary in summaries)]
        if shown:
            lines += ["", f"{title:58}" + "".join(f"{name:>{width}}" for name in names)]
        for label, name, form in shown:
            cells = (_cell(name, form, summary) for summary in summaries)
            lines.append(f"  {label:56}" + "".join(f"{cell:>{width}}" for cell in cells))
    worth = (f"{name}: {break_even(s)}" for name, s in zip(names, summaries, strict=True))
    return "\n".join([*lines, *_notes(summaries), "", *worth, "", *verdict(summaries)])


def _cell(name: str, form: Format, summary: Summary) -> str:
    value = summary.values[name]
    return "-" if value is None else bracketed(name, summary.metrics, form(value))


def _notes(summaries: list[Summary]) -> list[str]:
    """What the lines leave unsaid."""
    found = note((line[1] for section in SECTIONS.values() for line in section), [s.metrics for s in summaries])
    if any(summary.provenance.conditions.pace == "asap" for summary in summaries):
        found.append(
            "No times per request under pace asap: all of the window is due at once, so that they would be times of our"
            " own queue. Replay with --pace closed or open for them."
        )
    writing = [summary for summary in summaries if summary.metrics["nvme_write_bytes_per_day"]]
    paces = dict.fromkeys(map(_written_pace, writing))
    if paces:
        found.append(f"What is written to nvme per day, and a drive's life, are at {' and '.join(paces)}.")
    if any(_never_queues(summary) for summary in summaries):
        found.append(
            "QoS classes cannot differ where there are as many workers as users under pace closed: nothing queues."
            " Fewer --workers, or --pace open, shows them apart."
        )
    return ["", *found] if found else []


def _written_pace(summary: Summary) -> str:
    """At whose pace the run wrote: only requests that come by the clock come as they did in the workload."""
    conditions = summary.provenance.conditions
    speedup = conditions.speedup or 1.0
    if conditions.pace != "open":
        return "the replay's pace, which is not the workload's (`replayer plan` tells that of the trace's own times)"
    return "the workload's own pace" if speedup == 1 else f"{speedup:g} times the workload's own pace"


def _never_queues(summary: Summary) -> bool:
    conditions = summary.provenance.conditions
    classes = sum(summary.metrics[f"{name}_compliance"] is not None for name in ENUMS["qos"])
    workers = conditions.workers * ((conditions.ranks or 1) if conditions.part else 1)
    return conditions.pace == "closed" and classes > 1 and workers >= (summary.provenance.users or math.inf)


def doubts(summaries: list[Summary]) -> list[str]:
    """A line per kind of doubt, what invalidates first, with what was found in each run and the advice once."""
    names = _names(summaries)
    lines = []
    for against, kind, advice, texts in grouped(names, summaries):
        if kind == "still running":
            lines.append(f"{', '.join(whose for runs in texts.values() for whose in runs)}: {STILL_RUNNING}.")
            continue
        state = "INVALID" if against else "Doubt"
        lines.append(f"{state}: {kind}: {merged(texts, names)}. Advice: {advice}.")
    return [*lines, ""] if lines else []


def verdict(summaries: list[Summary]) -> list[str]:
    """A line per run, and per finding that invalidates it, then whether the runs did the same work.

    Of more than LISTED runs, those that are valid share a line.
    """
    valid = [summary.run for summary in summaries if summary.is_valid]
    if len(valid) > LISTED:
        valid = [f"{len(valid)} of {len(summaries)} runs"]
    lines = [f"VALID: {which}: complete, no move failed, log and plan agree." for which in valid]
    lines += [f"NOT VALID: {summary.run}: {fact}." for summary in summaries for fact in summary.findings]
    if len(summaries) > 1:
        lines.append(f"{len(summaries)} runs, {_sameness(summaries)}.")
    return lines


def break_even(summary: Summary) -> str:
    """One sentence on what the cache is worth per tier."""
    speeds = {tier: speed for tier in TIERS if (speed := summary.metrics[f"{tier}_break_even_tok_s"]) is not None}
    if not speeds:
        return "no tier served a read, so that nothing was saved."
    told = ", ".join(f"{speed:,.0f} tok/s ({tier})" for tier, speed in speeds.items())
    return f"reading KV back beats recomputing it unless prefill computes more than {told} for one request."


def _names(summaries: list[Summary]) -> list[str]:
    return short([Path(summary.run) for summary in summaries])


def short(paths: Sequence[Path]) -> list[str]:
    """The last part of each path; where those are not unique, what follows the folder that holds them all."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names) and all(names):
        return names
    if len(set(paths)) < len(paths):
        return list(map(str, paths))
    absolute = [path.absolute() for path in paths]
    top = os.path.commonpath([path.parent for path in absolute])
    return [str(path.relative_to(top)) for path in absolute]


def _matters(name: str, summary: Summary) -> bool:
    """Whether a line says something: tiers and sources that saw nothing are left out."""
    value = summary.values[name]
    metric = describe(name)
    if metric.family == "lateness_{stat}_ms" and summary.provenance.conditions.pace != "open":  # no schedule
        return False
    if name in ("drain_s", "drained_bytes") and not summary.provenance.is_cut:
        return False
    if name == "generation_mean_ms" and summary.metrics["e2e_mean_ms"] is None:  # a part of nothing
        return False
    if metric.family == "{wait}_wait_mean_ms" and value == 0:
        return False
    return value is not None and not (metric.tier and value == 0)


def _conditions(summary: Summary) -> str:
    conditions = summary.provenance.conditions
    tiers = ", ".join(
        f"{tier} {'unlimited' if size is None else f'{size / GIB:.3g} GiB usable'}"
        for tier, size in asdict(conditions.usable_bytes).items()
        if size != 0
    )
    direct = {True: ", O_DIRECT", False: ", page cache", None: ""}[conditions.direct]
    drive_of_tier = place(summary.provenance.storage)
    storage = f"; {drive_of_tier}" if drive_of_tier else ""
    return (
        f"{summary.run}: {conditions.model} at {conditions.bytes_per_token:,} bytes per token; {tiers};"
        f" {_ranks(conditions)}{format_count(conditions.workers, 'worker')}, pace {conditions.pace},"
        f" {orders.described(conditions)}{direct}, verify {conditions.verify}{storage}"
    )


def place(storage: Storage | None) -> str:
    """Describe the drive of the nvme tier; empty without one."""
    return f"nvme tier on {drive(storage)}" if storage else ""


def _machine(summary: Summary) -> str:
    """What else the machine did, and what workers waited for."""
    metrics, host_cores = summary.metrics, summary.provenance.host_cores
    cores = f" of {host_cores} cores" if host_cores else " cores"
    told = {
        "foreign CPU": _measured(metrics["foreign_cpu"], f"{{:.2f}}{cores}"),
        "run-queue delay": _measured(metrics["run_delay_share"], "{:.1%} of I/O time"),
        "foreign I/O": _measured(metrics["foreign_io_share"], "{:.1%} of the device's bytes"),
        "longest sample gap": _measured(metrics["longest_gap_s"], "{:.1f} s"),
    }
    for name, value in (("steal", metrics["steal_cpu"]), ("throttled for s", metrics["throttled_s"])):
        if value and value >= 0.005:
            told[name] = f"{value:.2f}"
    return "  machine: " + ", ".join(f"{name} {value}" for name, value in told.items())


def _measured(value: float | None, form: str) -> str:
    return "not measured" if value is None else form.format(value)


def _ranks(conditions: Conditions) -> str:
    ranks = conditions.ranks or 1
    return f"{ranks} ranks of " if ranks > 1 else ""


def _sameness(summaries: list[Summary]) -> str:
    if unlike := differences(summaries):
        if (told := _within(summaries)) is not None:
            return told
        if "trace_fingerprint" in unlike:
            traces = len({summary.provenance.trace_fingerprint for summary in summaries})
            return f"unlike work: they replayed {traces} traces"
        if len(groups := configurations(summaries)) == len(summaries):
            return f"{len(groups)} configurations, which do unlike work: compare with --vary says what follows from it"
        return "unlike work, these differ: " + ", ".join(unlike)
    provenance = summaries[0].provenance
    trace, plan = str(provenance.trace_fingerprint)[:12], str(provenance.plan_fingerprint)[:12]
    return f"same work: trace {trace}…, plan {plan}… and every count are equal, only times differ"


def _within(summaries: list[Summary]) -> str | None:
    """Of trials of several configurations, whether the work is equal within each; None where no run has a trial."""
    groups = configurations(summaries)
    if len(groups) == 1 or len(groups) == len(summaries):
        return None
    sizes = sorted({len(trials) for trials in groups})
    trials = f"{sizes[0]} trials each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} trials each"
    found = [names for names in map(differences, groups) if names]
    if not found:
        return f"{len(groups)} configurations, {trials}; work is equal within each"
    if any(summary.provenance.is_cut for summary in summaries):
        return (
            f"{len(groups)} configurations, {trials}; runs were cut in time and got unequally far: compare their rates"
        )
    unlike = ", ".join(sorted({name for names in found for name in names}))
    return f"{len(groups)} configurations, {trials}; within {len(found)} of them work differs: {unlike}"
