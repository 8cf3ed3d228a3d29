"""The answer of `analysis compare`: rows of ratios, statistics of trials, workloads side by side."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.conditions import Systems
from analysis.comparison.equal_work.measuring import EQUAL_WORK, Measured
from analysis.comparison.equal_work.spans import EqualWork
from analysis.comparison.export import (
    convert_comparison,
    convert_statistics,
    tabulate_ratios,
    tabulate_statistics,
)
from analysis.comparison.intervals import Statistics
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import (
    describe_comparison,
    describe_pair,
    describe_verdict,
    format_ends,
    format_times,
)
from analysis.comparison.warnings import abbreviate_runs, count_doubts, list_doubt_kinds
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import heading, scale
from analysis.summary.percentiles import is_thin
from tracegen.errors import format_count
from views.answer import Answer, Column, Table
from views.numbers import ABSENT, format_alike, format_number

BRIEF: Final = (EQUAL_WORK, "wall_clock_tok_s", "nvme_read_gib_s", "nvme_read_p95_ms", "ttfb_p95_ms")
"""The metrics that have rows if there are several configurations or systems."""
_SHORTER: Final = {
    "time to first byte (part of TTFT)": "storage part of TTFT",
    "prefill speed that reading from nvme beats": "break-even of nvme",
    "throughput by the wall clock": "throughput",
    " per request": "",
    " per object": "",
}
"""Words of labels, and the shorter ones of a comparison."""
_DIFFERENT: Final = "The work differs: no ratio of these numbers says which system is faster."


class Row(NamedTuple):
    """A metric of a system against the baseline.

    Attributes:
        label: the metric, and of several systems or configurations which one.
        old: the baseline's mean; an empty text over several configurations.
        new: the system's mean.
        ratio: of the system over the baseline.
    """

    label: str
    old: str
    new: str
    ratio: Ratio


def answer_comparison(comparison: Comparison, runs: Sequence[str], found: Mapping[str, Any]) -> Answer:
    """Make the answer of a comparison.

    Args:
        comparison: systems against one of them.
        runs: lines on the runs of each system.
        found: entries of its JSON beside those of the comparison.
    """
    table = tabulate_rows(comparison)
    trials = [trial for own in comparison.trials.values() for trial in own]
    doubts = count_doubts(trials)
    notes = [*table.notes, *([list_doubt_kinds(doubts, len(trials))] if doubts else [])]
    return Answer(
        title=table.title,
        subject=[*runs, *([] if table.rows else notes)],
        sentence=describe_comparison(comparison),
        tables=[
            Table(name="ratios", title="Ratios at equal work", columns=table.columns, rows=table.rows, notes=notes)
        ],
        records=tabulate_ratios(comparison),
        data={**found, **convert_comparison(comparison)},
    )


def describe_sets(systems: Systems, left_out: Mapping[Path, str]) -> list[str]:
    """Return lines on the runs of each system, and on those that were left out.

    Args:
        systems: valid trials by system.
        left_out: by path, why a run was left out.
    """
    lines, predicted = [], []
    for system, own in systems.items():
        paths = abbreviate_runs([str(trial.run.path) for trial in own])
        lines.append(f"{system}: {format_count(len(own), 'run')}: {paths}")
        profiles = dict.fromkeys(filter(None, (trial.summary.describe_profile() for trial in own)))
        if profiles:
            predicted.append(f"PREDICTED, not measured: {system}: with {' and '.join(profiles)}")
    return [*lines, *predicted, *(f"LEFT OUT: {path}: {why}" for path, why in left_out.items())]


def tabulate_rows(comparison: Comparison) -> Table:
    """Return the rows as a table, with the remarks and warnings as its notes."""
    compared = comparison.compared
    name = compared[0].name if len(compared) == 1 else "system"
    heads = ("", comparison.baseline, name, "ratio", "95% interval", "")
    warnings = [f"WARNING: {warning}" for warning in comparison.warnings]
    return Table(
        name="comparison",
        title=f"{', '.join(pair.name for pair in comparison.pairs)} against {comparison.baseline}",
        columns=[Column(head) for head in heads],
        rows=[
            [*texts, format_times(ratio), format_ends(ratio), describe_verdict(ratio)]
            for *texts, ratio in list_rows(comparison)
        ],
        notes=[*list_remarks(comparison), *warnings],
    )


def list_rows(comparison: Comparison) -> list[Row]:
    """Return a row for each metric, system and configuration.

    If there are several systems or configurations, only the metrics of BRIEF have rows.
    """
    compared = comparison.compared
    is_single = len(compared) == 1
    is_brief = not is_single or bool(compared[0].each)
    rows = []
    for metric in BRIEF if is_brief else compared[0].ratios:
        for pair in compared:
            if metric not in pair.ratios or _has_nothing(pair.ratios[metric]):
                continue
            names = [] if is_single else [pair.name]
            whole = ", ".join([*names, "all configurations"] if pair.each else names)
            each = {whole: pair.ratios} | (pair.each if is_single else {})
            rows += [_make_row(head, pair, ratios[metric]) for head, ratios in each.items() if metric in ratios]
    return rows


def _has_nothing(ratio: Ratio) -> bool:
    """Return whether a metric has neither a ratio nor values: then a remark says why."""
    return ratio.ratio is None and ratio.means == (None, None)


def _make_row(head: str, pair: Pair, ratio: Ratio) -> Row:
    label = ": ".join(filter(None, (_name_row(ratio.metric, pair), head)))
    return Row(label, *format_means(pair, ratio), ratio)


def _name_row(metric: str, pair: Pair) -> str:
    """Return a metric's label and unit in the words of a comparison."""
    if metric == EQUAL_WORK:
        return f"equal work, {name_unit_of_work(pair)}"
    label = heading(metric) if metric in CATALOGUE else metric
    for words, shorter in _SHORTER.items():
        label = label.replace(words, shorter)
    return label


def name_unit_of_work(pair: Pair) -> str:
    """Name the unit of the rate of equal work."""
    is_bytes = all(one.equal.unit == "bytes" for one in pair.measured)
    return "GiB/s" if is_bytes else "tokens/s of prompts and answers"


def format_means(pair: Pair, ratio: Ratio) -> tuple[str, str]:
    """Format the means of baseline and system alike; empty over several configurations."""
    if ratio.means == (None, None):
        return "", ""
    metric = ratio.metric
    new, old = (mean and _scale(pair, metric, mean) for mean in ratio.means)
    is_share = metric in CATALOGUE and describe(metric).is_share
    texts = format_alike([old, new], "share" if is_share else "")
    thin = (
        metric != EQUAL_WORK and any(is_thin(metric, trial) for trial in pair.measured[0].metrics[system])
        for system in (ratio.b, ratio.a)
    )
    first, second = (f"({text})" if few else text for text, few in zip(texts, thin, strict=True))
    return first, second


def _scale(pair: Pair, metric: str, value: float) -> float:
    """Return a value in the unit of its row's label."""
    if metric == EQUAL_WORK:
        return value / (2**30 if pair.measured[0].equal.unit == "bytes" else 1)
    return scale(metric, value) if metric in CATALOGUE else value


def list_remarks(comparison: Comparison) -> list[str]:
    """Return what a reader must know of a comparison: the spans, what differs, what is left out."""
    pairs = comparison.compared
    remarks = [text for pair in pairs for one in pair.measured for text in _describe_span(one, pair)]
    remarks += [f"They differ in {'; '.join(pair.varied)}." for pair in pairs if pair.varied]
    remarks += [text for pair in pairs for text in _list_missing(pair)]
    if len(comparison.pairs) > 1:
        remarks += [describe_pair(pair) for pair in comparison.pairs if pair.why]
    remarks += [f"Left out: {why}." for pair in pairs for why in pair.unmatched]
    return list(dict.fromkeys(remarks))


def _list_missing(pair: Pair) -> list[str]:
    """Return the metrics of a pair that have no ratio, a line for each reason."""
    metrics: dict[str, list[str]] = {}
    for ratio in filter(_has_nothing, pair.ratios.values()):
        metrics.setdefault(ratio.why, []).append(_name_row(ratio.metric, pair))
    return [f"Not compared: {'; '.join(own)}: {why}." for why, own in metrics.items()]


def _describe_span(measured: Measured, pair: Pair) -> Iterator[str]:
    """Say over which spans a configuration was compared, and how busy its drives were."""
    equal = measured.equal
    start = f"{measured.configuration.name}: " if pair.each else ""
    if equal.reason:
        yield f"{start}not compared: {equal.reason}; {equal.remedy}."
        return
    times = []
    for system, spans in equal.spans_s.items():
        ends = dict.fromkeys(format_alike((min(spans), max(spans))))
        times.append(f"{' to '.join(ends)} s ({system})")
    yield f"{start}equal work: the first {_format_amount(equal)} took {', '.join(times)}."
    busy = [f"{share:.0%} ({system})" for system, share in equal.busy.items() if share is not None]
    if busy:
        limit = ": the load limits, not the drive" if equal.is_limited_by_load else ""
        yield f"{start}the nvme tier was busy {', '.join(busy)} of that time{limit}."


def _format_amount(equal: EqualWork) -> str:
    if equal.unit == "tokens":
        return f"{equal.amount:,.0f} tokens of the trace"
    return f"{format_number(equal.amount / 2**30)} GiB"


def answer_statistics(
    configurations: Sequence[Configuration],
    metrics: Sequence[str],
    runs: Sequence[str],
    found: Mapping[str, Any],
) -> Answer:
    """Make the answer of the trials of a system, or of different workloads: their statistics.

    Args:
        configurations: of one system; or of several, each with a workload of its own.
        metrics: names of metrics.
        runs: lines on the runs of each system.
        found: entries of its JSON beside the statistics; `warnings` is one.
    """
    records = tabulate_statistics(configurations, metrics)
    has_several = len({*records["system"]}) > 1
    heads = ("metric", "trials", "mean", "sd", "CV", "median", "from", "to")
    rows = [
        (f"{metric}, {one.name}" if configurations[1:] else metric, *_list_statistics(one.statistics(system, metric)))
        for metric in metrics
        for one in configurations
        for system in one.trials
    ]
    return Answer(
        title="; ".join(one.name for one in configurations),
        subject=[*runs, *(f"WARNING: {warning}" for warning in found["warnings"])],
        sentence=_DIFFERENT if has_several else _describe_trials(configurations),
        tables=[
            Table(
                name="statistics",
                title="Means with their 95% intervals, each run over its own window",
                columns=[*map(Column, heads)],
                rows=rows,
            )
        ],
        records=records,
        data={**found, "configurations": convert_statistics(configurations, metrics)},
    )


def _describe_trials(configurations: Sequence[Configuration]) -> str:
    trials = sum(len(own) for one in configurations for own in one.trials.values())
    cut = "; runs were cut in time" if any(one.cut for one in configurations) else ""
    return f"{format_count(trials, 'trial')} of {format_count(len(configurations), 'configuration')}{cut}."


def _list_statistics(stats: Statistics) -> list[str]:
    mean = format_number(stats.mean) if stats.more_than is None else f"> {format_number(stats.more_than)}"
    cv = ABSENT if stats.cv is None else f"{stats.cv:.1%}"
    others = map(format_number, (stats.median, stats.low, stats.high))
    return [str(stats.n), mean, format_number(stats.sd), cv, *others]
