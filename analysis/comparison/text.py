"""Comparisons, trials and workloads as text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from analysis.comparison.compare import Comparison
from analysis.comparison.conditions import Systems
from analysis.comparison.intervals import Statistics
from analysis.comparison.matching import Configuration
from analysis.comparison.rows import list_remarks, tabulate_comparison
from analysis.comparison.sentences import describe_comparison
from analysis.comparison.tables import (
    abbreviate_runs,
    align_columns,
    format_figure,
    list_doubt_kinds,
)
from analysis.comparison.warnings import count_doubts
from tracegen.errors import format_count

LISTED: Final = 12
"""Most configurations that are listed with a line each."""


def render_sets(systems: Systems, left_out: Mapping[Path, str]) -> list[str]:
    """Return lines on the runs of each system, and on those that were left out.

    Args:
        systems: valid trials by system.
        left_out: by path, why a run was left out.
    """
    width = max(map(len, systems))
    lines = [
        f"{system:{width}}  {format_count(len(own), 'run')}: {abbreviate_runs([str(one.run.path) for one in own])}"
        for system, own in systems.items()
    ]
    for system, own in systems.items():
        profiles = dict.fromkeys(filter(None, (one.summary.describe_profile() for one in own)))
        if profiles:
            lines.append(f"PREDICTED, not measured: {system}: with {' and '.join(profiles)}")
    return [*lines, *(f"LEFT OUT: {path}: {why}" for path, why in left_out.items())]


def render_comparison(comparison: Comparison) -> list[str]:
    """Return the tables of a comparison, remarks, doubts, and the answer in a sentence."""
    lines = [""]
    groups = tabulate_comparison(comparison)
    if groups:
        is_pair = len(comparison.compared) == 1
        system = comparison.compared[0].name if is_pair else ""
        rows = [["", comparison.baseline, system, "ratio", "95% interval", ""]]
        for group in groups:
            rows += [[group.title, "", "", "", "", ""]] if group.title else []
            indent = "  " if group.title else ""
            for row in group.rows:
                cells = [indent + row.head, row.old, row.new, row.times, row.interval, row.words]
                rows.append(cells)
        lines += [*align_columns(rows, left=(0, 5)), ""]
    lines += [
        *list_remarks(comparison),
        *(f"WARNING: {warning}" for warning in comparison.warnings),
    ]
    trials = [trial for own in comparison.trials.values() for trial in own]
    if doubts := count_doubts(trials):
        lines.append(list_doubt_kinds(doubts, len(trials)))
    return [*lines, "", describe_comparison(comparison)]


def render_trials(
    configurations: Sequence[Configuration],
    system: str,
    metrics: Sequence[str],
) -> list[str]:
    """Return the statistics of the trials of one system, a table for each configuration."""
    lines: list[str] = []
    for one in configurations:
        rows = [["", "trials", "mean", "sd", "CV", "median", "95% interval of the mean"]]
        for metric in metrics:
            stats = one.statistics(system, metric)
            cells = [
                _format_mean(stats),
                format_figure(stats.sd),
                "-" if stats.cv is None else f"{stats.cv:.1%}",
            ]
            ends = "-" if stats.low is None else f"{format_figure(stats.low)} .. {format_figure(stats.high)}"
            rows.append([f"  {metric}", str(stats.n), *cells, format_figure(stats.median), ends])
        lines += ["", _describe_configuration(one), *align_columns(rows, left=(0,))]
    return lines


def _describe_configuration(one: Configuration) -> str:
    trials = format_count(sum(map(len, one.trials.values())), "trial")
    cut = ", cut in time: each over its own window" if one.cut else ""
    return f"{one.name}; trace {one.trace[:12]}, {trials}{cut}"


def render_workloads(
    configurations: Sequence[Configuration], metrics: Sequence[str], warnings: Sequence[str]
) -> list[str]:
    """Return the metrics of different workloads next to each other."""
    rows = [["", *(one.name for one in configurations)]]
    rows += [
        [
            metric,
            *(_format_spread(one.statistics(one.name, metric)) for one in configurations),
        ]
        for metric in metrics
    ]
    lines = [
        *(f"WARNING: {warning}" for warning in warnings),
        "",
        *align_columns(rows, left=(0,)),
        "",
    ]
    return [*lines, "The work differs: no ratio of these numbers says which system is faster."]


def _format_mean(stats: Statistics) -> str:
    return format_figure(stats.mean) if stats.more_than is None else f"> {format_figure(stats.more_than)}"


def _format_spread(stats: Statistics) -> str:
    return _format_mean(stats) + (f" ±{stats.cv:4.1%}" if stats.cv is not None else "")
