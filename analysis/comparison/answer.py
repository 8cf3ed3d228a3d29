"""The answer of `analysis compare`: ratios of systems, or statistics of trials, for people and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, product
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl
from msgspec import to_builtins

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import EQUAL_WORK, Measured, Ratio
from analysis.comparison.sentences import describe_comparison, describe_pair, describe_verdict, format_interval
from analysis.comparison.trials import Systems
from analysis.comparison.warnings import warn_of_machines, warn_of_predictions
from analysis.metrics.catalogue import CATALOGUE, describe
from analysis.metrics.headlines import heading, scale
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.answer import shorten_paths
from analysis.summary.run_summary import is_thin
from tracegen.errors import format_count
from views.answer import Answer, Column, DoubtLine, Table
from views.numbers import format_alike, format_number

BRIEF: Final = (EQUAL_WORK, "wall_clock_tok_s", "nvme_read_gib_s", "nvme_read_p95_ms", "ttfb_p95_ms")
"""The metrics that have rows if there are several configurations or systems."""
SECTION: Final = "Comparison at equal work"
"""The part of a page that compares systems."""
# Most runs of a system whose paths are listed.
_LISTED: Final = 3
# Words of labels, and the shorter ones of a comparison.
_SHORTER: Final = {
    "time to first byte (part of TTFT)": "storage part of TTFT",
    "prefill speed that reading from nvme beats": "break-even of nvme",
    "throughput by the wall clock": "throughput",
    " per request": "",
    " per object": "",
}
# The columns of CSV.
_RECORD: Final[dict[str, Any]] = (
    dict.fromkeys(("configuration", "system", "baseline"), pl.String)
    | {"predicted": pl.Boolean, "metric": pl.String, "unit": pl.String}
    | dict.fromkeys(("mean", "baseline_mean", "ratio", "low", "high"), pl.Float64)
    | dict.fromkeys(("verdict", "winner", "why"), pl.String)
)


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


def answer_comparison(comparison: Comparison, left_out: Mapping[Path, str]) -> Answer:
    """Make the answer of systems against one of them; `left_out` says by path why a run was left out."""
    table = tabulate_rows(comparison)
    records = [row for pair in comparison.pairs for row in _list_records(comparison, pair)]
    # A table without rows is not shown, nor would its notes be.
    remarks = () if table.rows else table.notes
    return Answer(
        title=name_comparison(comparison),
        subject=[*describe_sets(comparison.trials, left_out), *remarks],
        sentence=describe_comparison(comparison),
        tables=[table],
        doubts=list_set_doubts(comparison.trials),
        records=pl.DataFrame(records, _RECORD),
        data=convert_sets(comparison.trials, left_out) | convert_comparison(comparison),
    )


def describe_sets(systems: Systems, left_out: Mapping[Path, str]) -> list[str]:
    """Return lines on the runs of each system, and on those that were left out."""
    lines, predicted = [], []
    for system, own in systems.items():
        paths = [str(trial.run.path) for trial in own]
        listed = ", ".join(paths) if len(paths) <= _LISTED else f"{paths[0]} … {paths[-1]}"
        lines.append(f"{system}: {format_count(len(paths), 'run')}: {listed}")
        profiles = dict.fromkeys(filter(None, (trial.summary.describe_profile() for trial in own)))
        if profiles:
            predicted.append(f"PREDICTED, not measured: {system}: with {' and '.join(profiles)}")
    return [*lines, *predicted, *(f"LEFT OUT: {path}: {why}" for path, why in left_out.items())]


def convert_sets(systems: Systems, left_out: Mapping[Path, str]) -> dict[str, Any]:
    """Return the runs of each system, and those that were left out, in plain JSON."""
    return {
        "runs": {system: [str(trial.run.path) for trial in own] for system, own in systems.items()},
        "left_out": {str(path): why for path, why in left_out.items()},
    }


def list_set_doubts(systems: Systems) -> list[DoubtLine]:
    """Return the doubts on all runs."""
    trials = [*chain(*systems.values())]
    names = shorten_paths([trial.run.path for trial in trials])
    return list_doubt_lines(names, [trial.summary for trial in trials])


def tabulate_rows(comparison: Comparison) -> Table:
    """Return the rows as a table, with the remarks and warnings as its notes."""
    compared = comparison.compared
    name = compared[0].name if len(compared) == 1 else "system"
    return Table(
        name="ratios",
        title="Ratios at equal work",
        columns=[*map(Column, ("", comparison.baseline, name, "ratio", "95% interval", ""))],
        rows=[
            [row.label, row.old, row.new, *format_interval(row.ratio), describe_verdict(row.ratio)]
            for row in list_rows(comparison)
        ],
        section=SECTION,
        notes=[*list_remarks(comparison), *(f"WARNING: {warning}" for warning in comparison.warnings)],
    )


def name_comparison(comparison: Comparison) -> str:
    """Return which systems are compared with which."""
    return f"{', '.join(pair.name for pair in comparison.pairs)} against {comparison.baseline}"


def list_rows(comparison: Comparison) -> list[Row]:
    """Return a row for each metric, system and configuration.

    If there are several systems or configurations, only the metrics of BRIEF have rows.
    """
    compared = comparison.compared
    is_single = len(compared) == 1
    rows = []
    # Every metric of every system and configuration would be hundreds of rows.
    for metric in compared[0].ratios if is_single and not compared[0].each else BRIEF:
        for pair in compared:
            if metric not in pair.ratios:
                continue
            names = [*([] if is_single else [pair.name]), *(["all configurations"] if pair.each else [])]
            parts = {", ".join(names): pair.ratios} | (pair.each if is_single else {})
            for place, ratios in parts.items():
                label = ": ".join(filter(None, (_name_row(metric, pair), place)))
                rows.append(Row(label, *format_means(pair, ratios[metric]), ratios[metric]))
    return rows


def _name_row(metric: str, pair: Pair) -> str:
    """Return a metric's label and unit in the words of a comparison."""
    if metric == EQUAL_WORK:
        return f"equal work, {'GiB/s' if _is_of_bytes(pair) else 'tokens/s of prompts and answers'}"
    label = heading(metric)
    for words, shorter in _SHORTER.items():
        label = label.replace(words, shorter)
    return label


def _is_of_bytes(pair: Pair) -> bool:
    return all(one.equal.unit == "bytes" for one in pair.measured)


def format_means(pair: Pair, ratio: Ratio) -> tuple[str, str]:
    """Format the means of baseline and system alike; empty over several configurations."""
    if ratio.means == (None, None):
        return "", ""
    metric, (new, old) = ratio.metric, ratio.means
    if metric == EQUAL_WORK:
        size = 2**30 if _is_of_bytes(pair) else 1
        shown = format_alike([mean and mean / size for mean in (old, new)])
    else:
        unit = "share" if describe(metric).is_share else ""
        shown = format_alike([mean and scale(metric, mean) for mean in (old, new)], unit)
        # A percentile that rests on too few samples is in brackets.
        for place, system in enumerate((ratio.b, ratio.a)):
            if any(is_thin(metric, trial) for trial in pair.measured[0].metrics[system]):
                shown[place] = f"({shown[place]})"
    return shown[0], shown[1]


def list_remarks(comparison: Comparison) -> list[str]:
    """Return what a reader must know of a comparison: the spans, what differs, what is left out."""
    pairs = comparison.compared
    remarks = [text for pair in pairs for one in pair.measured for text in _describe_span(one, pair)]
    remarks += [f"They differ in {'; '.join(pair.varied)}." for pair in pairs if pair.varied]
    if len(comparison.pairs) > 1:
        remarks += [describe_pair(pair) for pair in comparison.pairs if pair.why]
    remarks += [f"Left out: {why}." for pair in pairs for why in pair.unmatched]
    return list(dict.fromkeys(remarks))


def _describe_span(measured: Measured, pair: Pair) -> Iterator[str]:
    """Say over which spans a configuration was compared, and how busy its drives were."""
    equal = measured.equal
    start = f"{measured.configuration.name}: " if pair.each else ""
    if equal.reason:
        yield f"{start}not compared: {equal.refusal}."
        return
    amount = f"{equal.amount:,.0f} tokens of the trace"
    if equal.unit == "bytes":
        amount = f"{format_number(equal.amount / 2**30)} GiB"
    # Trials that took as long to all digits shown have one time.
    ends = {system: dict.fromkeys(format_alike((min(spans), max(spans)))) for system, spans in equal.spans_s.items()}
    times = (f"{' to '.join(own)} s ({system})" for system, own in ends.items())
    yield f"{start}equal work: the first {amount} took {', '.join(times)}."
    busy = [f"{share:.0%} ({system})" for system, share in equal.busy.items() if share is not None]
    if busy:
        limit = ": the load limits, not the drive" if equal.is_limited_by_load else ""
        yield f"{start}the nvme tier was busy {', '.join(busy)} of that time{limit}."


def answer_statistics(
    configurations: Sequence[Configuration], metrics: Sequence[str], systems: Systems, left_out: Mapping[Path, str]
) -> Answer:
    """Make the answer of the trials of a system: their statistics.

    Args:
        configurations: of the system.
        metrics: names of metrics.
        systems: the system and its trials.
        left_out: by path, why a run was left out.
    """
    ((system, trials),) = systems.items()
    records = [
        {
            "configuration": one.name,
            "system": system,
            "predicted": any(trial.summary.prediction for trial in one.trials[system]),
            "metric": metric,
            "unit": get_unit(metric),
            **asdict(summarise_metric(metric, [trial.summary for trial in one.trials[system]])),
        }
        for metric, one in product(metrics, configurations)
    ]
    rows = []
    for record in records:
        name = f"{record['metric']}, {record['configuration']}" if len(configurations) > 1 else record["metric"]
        mean = record["mean"] if record["more_than"] is None else f"> {format_number(record['more_than'])}"
        texts = map(format_number, (mean, record["sd"], record["median"], record["low"], record["high"]))
        rows.append([name, record["n"], record["cv"], *texts])
    warnings = [*warn_of_machines(systems), *warn_of_predictions(systems)]
    cut = "; runs were cut in time" if any(one.cut for one in configurations) else ""
    heads = map(Column, ("mean", "sd", "median", "from", "to"))
    table = Table(
        name="statistics",
        title="Means with their 95% intervals, each run over its own window",
        columns=[Column("metric"), Column("trials"), Column("CV", "share"), *heads],
        rows=rows,
    )
    return Answer(
        title="; ".join(one.name for one in configurations),
        subject=[*describe_sets(systems, left_out), *(f"WARNING: {warning}" for warning in warnings)],
        sentence=f"{format_count(len(trials), 'trial')} of {format_count(len(configurations), 'configuration')}{cut}.",
        tables=[table],
        doubts=list_set_doubts(systems),
        records=pl.DataFrame(records, infer_schema_length=None),
        data=convert_sets(systems, left_out)
        | {
            "warnings": warnings,
            "configurations": [_convert_configuration(one) for one in configurations],
            "statistics": records,
        },
    )


def get_unit(metric: str) -> str:
    """Return the unit of a metric; empty for anything else of a summary."""
    return CATALOGUE[metric].unit if metric in CATALOGUE else ""


def convert_comparison(comparison: Comparison) -> dict[str, object]:
    """Return a comparison in plain JSON."""
    return {
        "baseline": comparison.baseline,
        "sentence": describe_comparison(comparison),
        "ranking": comparison.ranking,
        "warnings": comparison.warnings,
        "systems": [_convert_pair(pair) for pair in comparison.pairs],
    }


def _convert_pair(pair: Pair) -> dict[str, object]:
    return {
        "system": pair.name,
        "sentence": describe_pair(pair),
        "not_compared": pair.why or None,
        "varied": pair.varied,
        "unmatched": pair.unmatched,
        "disturbance": pair.disturbance.remark or None,
        "configurations": [
            _convert_configuration(one.configuration) | {"equal_work": asdict(one.equal), "requests": one.requests}
            for one in pair.measured
        ],
        "ratios": to_builtins(pair.ratios),
        "by_configuration": to_builtins(pair.each),
    }


def _convert_configuration(one: Configuration) -> dict[str, Any]:
    return {
        "name": one.name,
        "trace_fingerprint": one.first.trace_fingerprint,
        "users": one.first.users,
        "cut": one.cut,
        "same_plan": one.same_plan,
    }


def _list_records(comparison: Comparison, pair: Pair) -> Iterator[dict[str, object]]:
    """Yield a row for each ratio of a pair; one that says why if it has none."""
    trials = [*comparison.trials[pair.name], *comparison.trials[pair.baseline]]
    start = {
        "system": pair.name,
        "baseline": pair.baseline,
        "predicted": any(trial.summary.prediction for trial in trials),
    }
    if pair.why:
        yield start | {"why": pair.why}
    whole = "all configurations" if pair.each else "".join(one.configuration.name for one in pair.measured)
    for configuration, ratios in {whole: pair.ratios, **pair.each}.items():
        for ratio in ratios.values():
            mean, baseline_mean = ratio.means
            unit = f"{pair.measured[0].equal.unit}/s" if ratio.metric == EQUAL_WORK else get_unit(ratio.metric)
            own = {"configuration": configuration, "unit": unit, "mean": mean, "baseline_mean": baseline_mean}
            yield start | asdict(ratio) | own
