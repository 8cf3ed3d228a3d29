"""Summaries as a table on the terminal, with doubts first and verdicts last."""

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from analysis.doubts.checks import STILL_RUNNING
from analysis.log.columns import GIB
from analysis.log.plan_order import describe_order, describe_rules
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import SUMMARY, heading
from analysis.metrics.metric import Metric
from analysis.summary.across_runs import LISTED, group_doubts, group_trials, merge_texts
from analysis.summary.percentiles import bracketed, note
from analysis.summary.run_summary import Summary
from analysis.summary.summary import find_differences
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
    """Format summaries: doubts, conditions, a column of numbers per run, break-even, and verdicts."""
    names = _names(summaries)
    width = max(12, *(len(name) + 2 for name in names))
    lines = [
        *_format_predictions(names, summaries),
        *format_doubts(summaries),
        *(line for summary in summaries for line in (_conditions(summary), *_machine(summary))),
    ]
    for title, section in SECTIONS.items():
        shown = [line for line in section if any(_matters(line[1], summary) for summary in summaries)]
        if shown:
            lines += ["", f"{title:58}{''.join(f'{name:>{width}}' for name in names)}"]
        for label, name, form in shown:
            cells = (f"{_format_cell(summary, name, form):>{width}}" for summary in summaries)
            lines.append(f"  {label:56}{''.join(cells)}".rstrip())
    worth = (f"{name}: {format_break_even(s)}" for name, s in zip(names, summaries, strict=True))
    return "\n".join([*lines, *_notes(summaries), "", *worth, "", *format_verdicts(summaries)])


def _format_predictions(names: Sequence[str], summaries: Sequence[Summary]) -> list[str]:
    """Return a line for each predicted run, and how far such predictions were off."""
    marks, errors = list[str](), list[str]()
    for name, one in zip(names, summaries, strict=True):
        if one.prediction is not None:
            marks.append(f"PREDICTED, not measured: {name}: with {one.describe_profile()}")
            errors.append(one.describe_errors())
    return [*marks, *dict.fromkeys(errors)]


def _format_cell(summary: Summary, name: str, form: Format) -> str:
    """Return the value of a metric, or what it exceeds."""
    value = summary.values[name]
    if value is None:
        least = summary.more_than.get(name)
        return "-" if least is None else f"> {form(least)}"
    return bracketed(name, summary.metrics, form(value))


def _notes(summaries: list[Summary]) -> list[str]:
    """Return notes on metrics that are in brackets, missing, or easily misread."""
    notes = note((line[1] for section in SECTIONS.values() for line in section), [s.metrics for s in summaries])
    if any(summary.more_than for summary in summaries):
        notes.append("> …: more than that: requests due in the first half of the window were not done.")
    if any(summary.provenance.conditions.pace == "asap" for summary in summaries):
        notes.append(
            "No times per request under pace asap: the whole window is due at once, so they would be times of the"
            " replayer's own queue. Replay with --pace closed or open to measure them."
        )
    writing = [summary for summary in summaries if summary.metrics["nvme_write_bytes_per_day"]]
    paces = dict.fromkeys(map(_written_pace, writing))
    if paces:
        notes.append(f"Bytes written to nvme per day, and a drive's endurance, are at {' and '.join(paces)}.")
    if any(_never_queues(summary) for summary in summaries):
        notes.append(
            "QoS classes cannot differ under pace closed with as many workers as users: nothing queues."
            " Pass fewer --workers, or --pace open, to tell them apart."
        )
    return ["", *notes] if notes else []


def _written_pace(summary: Summary) -> str:
    """Describe the pace at which the run wrote; only pace open keeps the workload's times."""
    conditions = summary.provenance.conditions
    speedup = conditions.speedup or 1.0
    if conditions.pace != "open":
        return "the replay's pace, which is not the workload's (`replayer plan` prints that of the trace's own times)"
    return "the workload's own pace" if speedup == 1 else f"{speedup:g} times the workload's own pace"


def _never_queues(summary: Summary) -> bool:
    conditions = summary.provenance.conditions
    classes = sum(summary.metrics[f"{name}_compliance"] is not None for name in ENUMS["qos"])
    workers = conditions.workers * ((conditions.ranks or 1) if conditions.part else 1)
    return conditions.pace == "closed" and classes > 1 and workers >= (summary.provenance.users or math.inf)


def format_doubts(summaries: list[Summary]) -> list[str]:
    """Format one line per kind of doubt and advice, those that invalidate first."""
    names = _names(summaries)
    lines = []
    for against, kind, advice, texts in group_doubts(names, summaries):
        if kind == "still running":
            lines.append(f"{', '.join(whose for runs in texts.values() for whose in runs)}: {STILL_RUNNING}.")
            continue
        state = "INVALID" if against else "Doubt"
        lines.append(f"{state}: {kind}: {merge_texts(texts, names)}. Advice: {advice}.")
    return [*lines, ""] if lines else []


def format_verdicts(summaries: list[Summary]) -> list[str]:
    """Format one line per valid run and per invalidating finding, then whether the runs did equal work.

    If more than LISTED runs are valid, they share a line.
    """
    verdicts = {
        "VALID": "complete, no move failed, log and plan agree",
        "VALID PREDICTION": "complete, log and plan agree; nothing was measured",
        "PREDICTED OUTSIDE THE PROFILE": "complete; nothing like it was measured",
    }
    lines = []
    for verdict, why in verdicts.items():
        own = [one for one in summaries if one.verdict == verdict]
        valid = [summary.run for summary in own if summary.is_valid]
        if len(valid) > LISTED:
            valid = [f"{len(valid)} of {len(own)} runs"]
        lines += [f"{verdict}: {which}: {why}." for which in valid]
    for summary in summaries:
        mark = "" if summary.prediction is None else " (predicted)"
        lines += [f"NOT VALID: {summary.run}{mark}: {fact}." for fact in summary.findings]
    if len(summaries) > 1:
        lines.append(f"{len(summaries)} runs, {_sameness(summaries)}.")
    return lines


def format_break_even(summary: Summary) -> str:
    """Format one sentence on the break-even speed of each tier."""
    speeds = {tier: speed for tier in TIERS if (speed := summary.metrics[f"{tier}_break_even_tok_s"]) is not None}
    if not speeds:
        return "no tier served a read, so nothing was saved."
    limits = ", ".join(f"{speed:,.0f} tok/s ({tier})" for tier, speed in speeds.items())
    return f"reading KV back beats recomputing it unless prefill computes more than {limits} for one request."


def _names(summaries: list[Summary]) -> list[str]:
    return shorten_paths([Path(summary.run) for summary in summaries])


def shorten_paths(paths: Sequence[Path]) -> list[str]:
    """Return the last part of each path; if these are not unique, the path below the common folder."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names) and all(names):
        return names
    if len(set(paths)) < len(paths):
        return list(map(str, paths))
    absolute = [path.absolute() for path in paths]
    top = os.path.commonpath([path.parent for path in absolute])
    return [str(path.relative_to(top)) for path in absolute]


def _matters(name: str, summary: Summary) -> bool:
    """Return whether a line is informative; tiers and sources without moves are left out."""
    value = summary.values[name]
    if value is None:
        value = summary.more_than.get(name)
    metric = describe(name)
    if metric.family == "lateness_{stat}_ms" and summary.provenance.conditions.pace != "open":  # no schedule
        return False
    if name == "unfinished_requests" and not value:
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
    drive_of_tier = describe_drive(summary.provenance.storage)
    storage = f"; {drive_of_tier}" if drive_of_tier else ""
    cut = f"; {summary.provenance.cut}" if summary.provenance.cut else ""
    return (
        f"{summary.run}: {conditions.model} at {conditions.bytes_per_token:,} bytes per token; {tiers};"
        f" {_ranks(conditions)}{format_count(conditions.workers, 'worker')}, pace {conditions.pace},"
        f" {describe_order(conditions)}, arrangement {describe_rules(conditions)}{direct},"
        f" verify {conditions.verify}{storage}{cut}"
    )


def describe_drive(storage: Storage | None) -> str:
    """Describe the drive of the nvme tier; empty without one."""
    return f"nvme tier on {drive(storage)}" if storage else ""


def _machine(summary: Summary) -> list[str]:
    """Describe the machine's other load and the waits of workers; nothing of a predicted run."""
    if summary.prediction is not None:
        return []
    metrics = summary.metrics
    host_cores = summary.provenance.host_cores
    cores = f" of {host_cores} cores" if host_cores else " cores"
    facts = {
        "foreign CPU": _measured(metrics["foreign_cpu"], f"{{:.2f}}{cores}"),
        "run-queue delay": _measured(metrics["run_delay_share"], "{:.1%} of I/O time"),
        "foreign I/O": _measured(metrics["foreign_io_share"], "{:.1%} of the device's bytes"),
        "longest sample gap": _measured(metrics["longest_gap_s"], "{:.1f} s"),
    }
    for name, value in (("steal", metrics["steal_cpu"]), ("throttled for s", metrics["throttled_s"])):
        if value and value >= 0.005:
            facts[name] = f"{value:.2f}"
    return ["  machine: " + ", ".join(f"{name} {value}" for name, value in facts.items())]


def _measured(value: float | None, form: str) -> str:
    return "not measured" if value is None else form.format(value)


def _ranks(conditions: Conditions) -> str:
    ranks = conditions.ranks or 1
    return f"{ranks} ranks of " if ranks > 1 else ""


def _sameness(summaries: list[Summary]) -> str:
    if unlike := find_differences(summaries):
        if (comparison := _compare_trials(summaries)) is not None:
            return comparison
        if "trace_fingerprint" in unlike:
            traces = len({summary.provenance.trace_fingerprint for summary in summaries})
            return f"unlike work: they replayed {traces} traces"
        if len(groups := group_trials(summaries)) == len(summaries):
            return f"{len(groups)} configurations, which do unlike work: compare with --vary says what follows from it"
        return "unlike work, these differ: " + ", ".join(unlike)
    provenance = summaries[0].provenance
    trace, plan = str(provenance.trace_fingerprint)[:12], str(provenance.plan_fingerprint)[:12]
    return f"same work: trace {trace}…, plan {plan}… and every count are equal, only times differ"


def _compare_trials(summaries: list[Summary]) -> str | None:
    """Describe whether trials of each configuration did equal work; None if no run has another trial."""
    groups = group_trials(summaries)
    if len(groups) == 1 or len(groups) == len(summaries):
        return None
    sizes = sorted({len(trials) for trials in groups})
    trials = f"{sizes[0]} trials each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} trials each"
    unequal = [names for names in map(find_differences, groups) if names]
    if not unequal:
        return f"{len(groups)} configurations, {trials}; work is equal within each"
    if any(summary.provenance.is_cut for summary in summaries):
        cut = "runs were cut in time and got unequally far"
        return f"{len(groups)} configurations, {trials}; {cut}"
    unlike = ", ".join(sorted({name for names in unequal for name in names}))
    return f"{len(groups)} configurations, {trials}; within {len(unequal)} of them work differs: {unlike}"
