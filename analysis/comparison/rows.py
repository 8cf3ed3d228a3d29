"""Rows of a comparison, for the terminal, the page, Markdown, CSV and JSON alike."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import polars as pl

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.equal_work.measuring import EQUAL_WORK, Measured
from analysis.comparison.equal_work.spans import EqualWork
from analysis.comparison.export import convert_statistics
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import (
    describe_comparison,
    describe_pair,
    describe_verdict,
    format_ends,
    format_times,
)
from analysis.comparison.tables import format_figure
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.headlines import heading
from analysis.summary.numbers import choose_decimals, format_alike
from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary

Tone = Literal["better", "worse", "equal", "open"]
"""The colour of a row: the side that is better, no difference shown, or nothing judged."""
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


@dataclass(frozen=True)
class Row:
    """A metric of a system against the baseline.

    Attributes:
        head: what the row is of, within its group.
        old: the baseline's mean; an empty text over several configurations.
        new: the system's mean.
        ratio: of the system over the baseline.
        words: what the ratio shows.
        tone: which side is better.
    """

    head: str
    old: str
    new: str
    ratio: Ratio
    words: str
    tone: Tone

    @property
    def times(self) -> str:
        """The ratio, as 1.50 ×."""
        return format_times(self.ratio)

    @property
    def interval(self) -> str:
        """Its 95% interval, as 1.48 to 1.52."""
        return format_ends(self.ratio)


@dataclass(frozen=True)
class RowGroup:
    """Rows under one heading: a metric's rows, or all metrics of one configuration."""

    title: str
    rows: list[Row]


def tabulate_comparison(comparison: Comparison, *, brief: bool = True) -> list[RowGroup]:
    """Return the rows: a group for each metric if there are several configurations or systems.

    Args:
        comparison: the systems.
        brief: whether these groups are only those of BRIEF.
    """
    compared = comparison.compared
    if not compared:
        return []
    metrics = dict.fromkeys(metric for pair in compared for metric in pair.ratios)
    if len(compared) == 1 and not compared[0].each:
        (pair,) = compared
        shown = [ratio for ratio in pair.ratios.values() if not _has_nothing(ratio)]
        rows = [_make_row(_name_row(ratio.metric, pair), pair, ratio) for ratio in shown]
        return [RowGroup("", rows)]
    groups = []
    for metric in metrics:
        if brief and metric not in BRIEF:
            continue
        having = [pair for pair in compared if metric in pair.ratios and not _has_nothing(pair.ratios[metric])]
        named: dict[str, list[Row]] = {}  # units of work may differ
        for pair in having:
            own = named.setdefault(_name_row(metric, pair), [])
            own += _list_rows(pair, metric, len(compared))
        groups += [RowGroup(title, rows) for title, rows in named.items()]
    return groups


def _has_nothing(ratio: Ratio) -> bool:
    """Return whether a metric has neither a ratio nor values: then a remark says why."""
    return ratio.ratio is None and ratio.means == (None, None)


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


def _list_rows(pair: Pair, metric: str, systems: int) -> list[Row]:
    """Return the row of a system, and one for each of several configurations."""
    name = pair.name if systems > 1 else ""
    whole = ", ".join(filter(None, (name, "all configurations" if pair.each else "")))
    rows = [_make_row(whole, pair, pair.ratios[metric])]
    if systems == 1:
        each = ((one, ratios[metric]) for one, ratios in pair.each.items() if metric in ratios)
        rows += [_make_row(one, pair, ratio) for one, ratio in each]
    return rows


def _make_row(head: str, pair: Pair, ratio: Ratio) -> Row:
    old, new = format_means(pair, ratio)
    tone: Tone = "equal" if ratio.verdict == "not apart" else "open"
    if ratio.verdict == "apart":
        tone = "better" if ratio.winner == ratio.a else "worse"
    return Row(head, old, new, ratio, describe_verdict(ratio), tone)


def format_means(pair: Pair, ratio: Ratio) -> tuple[str, str]:
    """Format the means of baseline and system alike; empty over several configurations."""
    means = [ratio.means[1], ratio.means[0]]
    if means == [None, None]:
        return "", ""
    if ratio.metric == EQUAL_WORK:
        is_bytes = pair.measured[0].equal.unit == "bytes"
        rates = [mean / 2**30 if mean is not None and is_bytes else mean for mean in means]
        decimals = choose_decimals(rates)
        old, new = ("–" if rate is None else f"{rate:,.{decimals}f}" for rate in rates)
        return old, new
    texts = format_alike(ratio.metric, means)
    trials = pair.measured[0].metrics
    old, new = (
        max(
            (bracketed(ratio.metric, trial, text) for trial in trials.get(system, [])),
            key=len,
            default=text,
        )
        for system, text in zip((ratio.b, ratio.a), texts, strict=True)
    )
    return old, new


_RATIO_COLUMNS: Final[dict[str, type[pl.DataType]]] = (
    dict.fromkeys(("configuration", "system", "baseline"), pl.String)
    | {"predicted": pl.Boolean, "metric": pl.String, "unit": pl.String}
    | dict.fromkeys(("mean", "baseline_mean", "ratio", "low", "high"), pl.Float64)
    | dict.fromkeys(("verdict", "winner", "why"), pl.String)
)
TRIALS: Final = ("system", "trial", "configuration")


def tabulate_trials(comparison: Comparison) -> list[list[str]]:
    """Return a table of every trial over its own window: the head, then a row for each."""
    metrics = list(dict.fromkeys(metric for pair in comparison.compared for metric in pair.metrics))
    rows = [[*TRIALS, *map(heading, metrics)]]
    seen = set[str]()
    for pair in comparison.compared:
        for one in pair.configurations:
            for system in (comparison.baseline, pair.name):
                for summary in one.summaries[system]:
                    if summary.run not in seen:
                        seen.add(summary.run)
                        rows.append(
                            [
                                system,
                                summary.run,
                                one.name,
                                *(_format_trial(each, summary) for each in metrics),
                            ]
                        )
    return rows


def _format_trial(metric: str, summary: Summary) -> str:
    (text,) = format_alike(metric, [summary.numbers.get(metric)])
    return bracketed(metric, summary.metrics, text)


def list_remarks(comparison: Comparison) -> list[str]:
    """Return what a reader must know of a comparison: the spans, what differs, what is left out."""
    pairs = comparison.compared
    measured = [(one, bool(pair.each)) for pair in pairs for one in pair.measured]
    spans = [text for one, named in measured for text in describe_span(one, named=named)]
    varied = [f"They differ in {'; '.join(pair.varied)}." for pair in pairs if pair.varied]
    refused = [describe_pair(pair) for pair in comparison.pairs if pair.why] if len(comparison.pairs) > 1 else []
    unmatched = [f"Left out: {why}." for pair in pairs for why in pair.unmatched]
    missing = [text for pair in pairs for text in _list_missing(pair)]
    return list(dict.fromkeys([*spans, *varied, *missing, *refused, *unmatched]))


def _list_missing(pair: Pair) -> list[str]:
    """Return the metrics of a pair that have no ratio, a line for each reason."""
    metrics: dict[str, list[str]] = {}
    for ratio in pair.ratios.values():
        if _has_nothing(ratio):
            metrics.setdefault(ratio.why, []).append(_name_row(ratio.metric, pair))
    return [f"Not compared: {'; '.join(own)}: {why}." for why, own in metrics.items()]


def describe_span(measured: Measured, *, named: bool) -> list[str]:
    """Say over which spans a configuration was compared, and how busy its drives were.

    Args:
        measured: the configuration.
        named: whether to name it.
    """
    equal = measured.equal
    start = f"{measured.configuration.name}: " if named else ""
    if equal.reason:
        return [f"{start}not compared: {equal.reason}; {equal.remedy}."]
    ends = {
        system: dict.fromkeys(map(format_figure, (min(spans), max(spans)))) for system, spans in equal.spans_s.items()
    }
    times = ", ".join(f"{' to '.join(figures)} s ({system})" for system, figures in ends.items())
    lines = [f"{start}equal work: the first {format_amount(equal)} took {times}."]
    known = {system: share for system, share in equal.busy.items() if share is not None}
    if known:
        busy = ", ".join(f"{share:.0%} ({system})" for system, share in known.items())
        limit = ": the load limits, not the drive" if equal.is_limited_by_load else ""
        lines.append(f"{start}the nvme tier was busy {busy} of that time{limit}.")
    return lines


def format_amount(equal: EqualWork) -> str:
    """Format an amount of work, as 3.0 GiB."""
    if equal.unit == "tokens":
        return f"{equal.amount:,.0f} tokens of the trace"
    return f"{format_figure(equal.amount / 2**30)} GiB"


def convert_comparison(comparison: Comparison) -> dict[str, object]:
    """Return a comparison in plain JSON."""
    return {
        "baseline": comparison.baseline,
        "sentence": describe_comparison(comparison),
        "ranking": comparison.ranking,
        "warnings": comparison.warnings,
        "systems": [_convert_pair(pair) for pair in comparison.pairs],
    }


def tabulate_ratios(comparison: Comparison) -> pl.DataFrame:
    """Return a row for each ratio at equal work, and for each configuration that has none."""
    rows: list[dict[str, object]] = []
    for pair in comparison.pairs:
        trials = [trial for name in (pair.name, pair.baseline) for trial in comparison.trials[name]]
        is_predicted = any(trial.summary.prediction for trial in trials)
        start = {"system": pair.name, "baseline": pair.baseline, "predicted": is_predicted}
        refused = {
            one.configuration.name: f"{one.equal.reason}; {one.equal.remedy}"
            for one in pair.measured
            if one.equal.reason
        } or ({"": pair.why} if pair.why else {})
        rows += [start | {"configuration": name, "why": why} for name, why in refused.items()]
        whole = "all configurations" if pair.each else pair.configurations[0].name
        for configuration, ratios in {whole: pair.ratios, **pair.each}.items():
            for ratio in ratios.values():
                unit = CATALOGUE[ratio.metric].unit if ratio.metric in CATALOGUE else ""
                if ratio.metric == EQUAL_WORK:
                    unit = f"{pair.measured[0].equal.unit}/s"
                known = {"configuration": configuration, "unit": unit} | asdict(ratio)
                known |= dict(zip(("mean", "baseline_mean"), ratio.means, strict=True))
                rows.append(start | {name: known[name] for name in _RATIO_COLUMNS if name in known})
    return pl.DataFrame(rows, _RATIO_COLUMNS)


def _convert_pair(pair: Pair) -> dict[str, object]:
    return {
        "system": pair.name,
        "sentence": describe_pair(pair),
        "not_compared": pair.why or None,
        "varied": pair.varied,
        "unmatched": pair.unmatched,
        "disturbance": pair.disturbance.remark or None,
        "configurations": [_convert_measured(one, pair.metrics) for one in pair.measured],
        "ratios": {metric: asdict(ratio) for metric, ratio in pair.ratios.items()},
        "by_configuration": {
            name: {metric: asdict(ratio) for metric, ratio in ratios.items()} for name, ratios in pair.each.items()
        },
    }


def _convert_measured(one: Measured, metrics: Sequence[str]) -> dict[str, Any]:
    (own,) = convert_statistics([one.configuration], metrics)
    equal = asdict(one.equal)
    del equal["ends_ns"]
    return own | {"equal_work": equal, "requests": one.requests}
