"""The answer of `analysis summary` and `analysis check`: metrics, doubts and verdicts of runs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import asdict

from analysis.log.columns import GIB
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import SUMMARY, heading, scale
from analysis.runs.plan_order import describe_order, describe_rules
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.run_summary import Summary, is_thin, note
from analysis.summary.summary import find_differences
from replayer.schema import drive
from tracegen.errors import format_count
from views.answer import Answer, Cell, Column, Table
from views.numbers import format_number

_NAMED: Final = 3  # differences that the sentence names
_WHY: Final = {
    "VALID": "complete, no move failed, log and plan agree",
    "VALID PREDICTION": "complete, log and plan agree; nothing was measured",
    "PREDICTED OUTSIDE THE PROFILE": "complete; nothing like it was measured",
}


def answer_runs(summaries: Sequence[Summary], *, has_metrics: bool = True) -> Answer:
    """Make the answer of runs.

    Args:
        summaries: at least one.
        has_metrics: whether it has conditions and metrics, too, and not doubts and verdicts alone.
    """
    names = shorten_paths([Path(summary.run) for summary in summaries])
    verdicts = list_verdicts(summaries)
    said = "; ".join(f"{run}: {why}" for run, _, why in verdicts)
    first = summaries[0]
    is_single = len(summaries) == 1
    is_valid = all(summary.is_valid for summary in summaries)
    title = first.run if is_single else f"{len(summaries)} runs"
    tables = list(_list_tables(names, summaries)) if has_metrics else []
    subject = [line for summary in summaries for line in _list_subject(summary, has_name=not is_single)]
    if not is_single:
        columns = [Column("runs"), Column("verdict"), Column("why")]
        tables.append(Table(name="verdicts", title="Verdicts", columns=columns, rows=verdicts))
    return Answer(
        title=title if is_valid else f"NOT VALID: {title}",
        subject=subject if has_metrics else (),
        state=first.verdict if is_valid else "NOT VALID",
        tone="good" if is_valid else "bad",
        sentence=f"{said}." if is_single else compare_work(summaries),
        tables=tables,
        doubts=list_doubt_lines(names, summaries),
        records=pl.DataFrame([{"run": summary.run, **summary.values} for summary in summaries]),
        data={"runs": [summary.to_json() for summary in summaries]},
    )


def list_verdicts(summaries: Sequence[Summary]) -> list[tuple[str, str, str]]:
    """Return path, verdict and reason of each run."""
    rows = []
    for summary in summaries:
        verdict, why = summary.verdict, _WHY[summary.verdict]
        if not summary.is_valid:
            verdict, why = "NOT VALID", "; ".join(summary.findings)
        mark = " (predicted)" if summary.prediction and not summary.is_valid else ""
        rows.append((f"{summary.run}{mark}", verdict, why))
    return rows


def _list_subject(summary: Summary, *, has_name: bool) -> Iterator[str]:
    """Yield what was run, on what, and what it was predicted with."""
    conditions = summary.conditions
    sizes = asdict(conditions.usable_bytes)
    tiers = [
        f"{tier} unlimited" if size is None else f"{tier} {size / GIB:.3g} GiB usable"
        for tier, size in sizes.items()
        if size != 0
    ]
    ranks = f"{conditions.ranks} ranks of " if (conditions.ranks or 1) > 1 else ""
    direct = {True: "O_DIRECT, ", False: "page cache, ", None: ""}[conditions.direct]
    parts = [
        f"{conditions.model} at {conditions.bytes_per_token:,} bytes per token",
        ", ".join(tiers),
        f"{ranks}{format_count(conditions.workers, 'worker')}, pace {conditions.pace}",
        f"{describe_order(conditions)}, arrangement {describe_rules(conditions)}",
        f"{direct}verify {conditions.verify}",
        f"nvme tier on {drive(summary.storage)}" if summary.storage else "",
        summary.cut,
    ]
    yield (f"{summary.run}: " if has_name else "") + "; ".join(filter(None, parts))
    if summary.prediction is not None:
        yield f"PREDICTED, not measured: with {summary.describe_profile()}"
        yield summary.describe_errors()


def shorten_paths(paths: Sequence[Path]) -> list[str]:
    """Return the last part of each path; if these are not unique, the path below the common folder."""
    names = [path.name for path in paths]
    if len(set(names)) == len(names) and all(names):
        return names
    if len(set(paths)) < len(paths):  # then no path tells them apart
        return list(map(str, paths))
    absolute = [path.absolute() for path in paths]
    top = os.path.commonpath([path.parent for path in absolute])
    return [str(path.relative_to(top)) for path in absolute]


def _list_tables(names: Sequence[str], summaries: Sequence[Summary]) -> Iterator[Table]:
    """Yield the sections of SUMMARY, with the lines that are informative."""
    shown = {}
    for title, entries in SUMMARY.items():
        metrics = {entry.strip(" +="): entry for entry in entries}
        known = [name for name in metrics if any(_matters(name, summary) for summary in summaries)]
        if known:
            shown[title] = {name: metrics[name].replace(name, heading(name)) for name in known}
    notes = _list_notes(summaries)
    for number, (title, labels) in enumerate(shown.items(), 1):
        yield Table(
            name=title.partition(" ")[0].lower(),
            title=title,
            columns=[
                Column("run"),
                *(Column(label, "share" if describe(name).is_share else "") for name, label in labels.items()),
            ],
            rows=[
                [name, *(_read_cell(summary, metric) for metric in labels)]
                for name, summary in zip(names, summaries, strict=True)
            ],
            notes=notes if number == len(shown) else (),
            is_turned=True,
        )


def _read_cell(summary: Summary, name: str) -> Cell:
    """Return a metric's value as people read it: what it exceeds, or in brackets with few samples."""
    value = summary.values[name]
    if value is None and name in summary.more_than:
        return f"> {format_number(scale(name, summary.more_than[name]))}"
    if value is None or isinstance(value, str):
        return value
    scaled = scale(name, value)
    return f"({format_number(scaled)})" if is_thin(name, summary.metrics) else scaled


def _matters(name: str, summary: Summary) -> bool:
    """Return whether a line is informative; tiers and sources without moves are left out."""
    value, metric = summary.values[name], describe(name)
    if value is None:
        value = summary.more_than.get(name)
    is_scheduled = summary.conditions.pace == "open"
    if metric.family == "lateness_{stat}_ms" and not is_scheduled:
        return False
    if name in ("drain_s", "drained_bytes") and not summary.cut is not None:
        return False
    if name == "generation_mean_ms" and summary.metrics["e2e_mean_ms"] is None:  # a part of nothing
        return False
    is_part = (
        metric.tier
        or metric.kind == "machine"
        or metric.family == "{wait}_wait_mean_ms"
        or name == "unfinished_requests"
    )
    return value is not None and not (is_part and value == 0)


def _list_notes(summaries: Sequence[Summary]) -> list[str]:
    """Return notes on metrics that are in brackets, missing, or easily misread."""
    names = [entry.strip(" +=") for entries in SUMMARY.values() for entry in entries]
    notes = note(names, [summary.metrics for summary in summaries])
    if any(summary.more_than for summary in summaries):
        notes.append("> …: more than that: requests of the first half of the window were not done.")
    if any(summary.conditions.pace == "asap" for summary in summaries):
        notes.append(
            "No times per request under pace asap: the whole window is due at once, so they would be times of the"
            " replayer's own queue. Replay with --pace closed or open to measure them."
        )
    if any(summary.metrics["nvme_write_bytes_per_day"] for summary in summaries):
        notes.append(
            "Bytes written to nvme per day, and a drive's endurance, are at the replay's pace: that of the workload"
            " only under pace open at speed-up 1. `replayer plan` prints that of the trace's own times."
        )
    return notes


def compare_work(summaries: Sequence[Summary]) -> str:
    """Say whether runs did equal work."""
    first, unlike = summaries[0], find_differences(summaries)
    more = f" and {len(unlike) - _NAMED} more" if len(unlike) > _NAMED else ""
    said = f"different work: {', '.join(unlike[:_NAMED])}{more} differ"
    if not unlike:
        trace, plan = str(first.trace_fingerprint)[:12], str(first.plan_fingerprint)[:12]
        said = f"same work: trace {trace}…, plan {plan}… and every count are equal, only times differ"
    return f"{len(summaries)} runs, {said}."
