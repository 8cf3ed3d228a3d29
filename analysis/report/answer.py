"""The answer of a report: what runs were tested, what they showed, and how sure that is."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from analysis.comparison.answer import convert_comparison
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.predictions import COLUMNS, tabulate_errors
from analysis.comparison.sentences import describe_comparison
from analysis.metrics.catalogue import CATALOGUE
from analysis.report.charts import CHARTED, list_other_tables, list_run_charts
from analysis.report.comparisons import COMPARISON, compare_in_charts, describe_predicted, draw_spread, find_predicted
from analysis.report.data import Gathered
from analysis.report.figures import list_figures, list_load_figures
from analysis.report.load import (
    LoadCurves,
    describe_curves,
    draw_load,
    find_load,
    is_one_curve,
    make_load_title,
)
from analysis.report.subject import list_tested
from analysis.report.systems import Subject
from analysis.report.tables import HEADLINES, MEANING, SETTINGS, list_run_tables
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.run_summary import is_thin
from replayer.schema import TIERS
from tracegen.errors import format_count
from views.answer import Answer
from views.numbers import format_alike
from views.sentences import say_values

_LIMITS: Final = {
    "cpu": "the processor, whose cores are busy",
    "source": "the workload, which asks for nothing in more than a fifth of the time",
    "data": "moves that wait for earlier moves of the same objects",
    "eviction": "moves that wait for the evictions that their own op causes",
    "room": "moves that wait for room which other ops free",
    "window": "the planning window, which does not contain the ops that are due",
    "plan": "the plan, for whose order moves wait",
    "order": "the plan's order, in which moves wait for their turn",
    "queue": "the queue for a worker, a buffer or a permit",
    "host": "the host: opening, closing and the interpreter",
    "device": "the device",
    "verify": "making and checking bytes",
}
"""What holds a run back, by the word of `bottleneck`."""
_SECTIONS: Final = ("Load", COMPARISON, "Measured beside predicted", HEADLINES, "Trials", *CHARTED, SETTINGS, MEANING)
"""The parts of the page in their order."""


def make_report(data: Gathered) -> Answer:
    """Make the answer of a report's runs."""
    load = find_load(data)
    comparison = data.comparison
    # A curve over the load answers alone, unless systems are compared at several loads.
    curve = None if comparison and comparison.has_configurations else load
    is_compared = comparison is not None and not is_one_curve(load, data)
    sides = compare_in_charts(comparison) if comparison and is_compared else ([], [])
    pairs = find_predicted(data)
    is_valid = all(summary.is_valid for summary in data.summaries)
    # Valid runs are no verdict on which system is better, nor predictions outside their profile a measurement.
    is_plain = comparison or any(summary.is_outside_profile for summary in data.summaries)
    runs = [
        run.summary.to_json() | {"tables": {name: table.to_dicts() for name, table in run.tables.items()}}
        for run in data.runs
    ]
    return Answer(
        kicker=f"kv-tier-bench report of {_count_runs(data, curve)}",
        title=data.title or (make_load_title(curve) if curve else _make_title(data)),
        subject=list_tested(data, ("pace", "users") if load and not is_compared else ()),
        state=format_state(data),
        tone="bad" if not is_valid else "plain" if is_plain else "good",
        sentence=_describe_answer(data, curve, describe_predicted(pairs)),
        figures=list_load_figures(curve) if curve else list_figures(data),
        charts=[*([draw_load(load)] if load else ()), *sides[0], *draw_spread(data), *list_run_charts(data)],
        tables=[
            *sides[1],
            *([tabulate_errors(pairs, COLUMNS)] if pairs else ()),
            *list_run_tables(data),
            *list_other_tables(data),
        ],
        doubts=list_doubt_lines([run.name for run in data.runs], data.summaries),
        source="the logs alone",
        sections=_SECTIONS,
        records=_list_records(data),
        data={"runs": runs} | ({"comparison": convert_comparison(comparison)} if comparison else {}),
    )


def _make_title(data: Gathered) -> str:
    """Make a title of what was compared, or of what was tested."""
    systems = [*data.trials]
    if data.comparison and len(data.comparison.pairs) == 1:
        return f"{data.comparison.pairs[0].name} against {data.comparison.baseline}"
    if len(systems) > 1:
        more = f" and {len(systems) - 3} more" if len(systems) > 3 else ""
        return ", ".join(systems[:3]) + more
    run = data.valid[systems[0]][0]
    provenance = run.summary.provenance
    drive = provenance.storage and provenance.storage.device_model
    name = systems[0] if len(data.runs) > 1 else run.name
    return f"{name}: KV cache on {drive}" if drive else f"{name}: KV cache of {provenance.conditions.plan.model}"


def _count_runs(data: Gathered, curve: LoadCurves | None) -> str:
    runs, systems = len(data.runs), len(data.trials)
    if curve and is_one_curve(curve, data):
        return f"{runs} runs at {len(curve.curves[0].points)} loads"
    if systems > 1:
        return f"{format_count(systems, 'system')}, {format_count(runs, 'run')}"
    return f"{runs} trials" if runs > 1 else "one run"


def format_state(data: Gathered) -> str:
    """Format the verdict on all runs."""
    count, valid = len(data.runs), sum(summary.is_valid for summary in data.summaries)
    predicted = sum(summary.prediction is not None for summary in data.summaries)
    if valid < count:
        return "NOT VALID" if not valid else f"NOT VALID: {count - valid} of {count} runs"
    if predicted == count:
        outside = sum(summary.is_outside_profile for summary in data.summaries)
        share = f": {outside} of {count} runs" if count > 1 else ""
        plural = "S" if count > 1 else ""
        return f"PREDICTED OUTSIDE THE PROFILE{share}" if outside else f"VALID PREDICTION{plural}"
    state = f"{count} VALID RUNS" if data.comparison else "VALID"
    return f"{state}, {predicted} predicted" if predicted else state


def _describe_answer(data: Gathered, curve: LoadCurves | None, predicted: str) -> str:
    """Answer in plain words what the runs showed, and say so if figures are not valid."""
    findings = [*dict.fromkeys(text for summary in data.summaries for text in summary.findings)]
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    warning = f"Do not publish these figures: {findings[0]}{more}." if findings else ""
    errors = " ".join(dict.fromkeys(summary.describe_errors() for summary in data.summaries))
    if curve:
        said = describe_curves(curve)
    elif predicted:
        said, errors = predicted, ""
    else:
        said = describe_comparison(data.comparison) if data.comparison else describe_runs(data)
    return " ".join(filter(None, (warning, said, errors.strip())))


def describe_runs(data: Gathered) -> str:
    """Say what one system serves, how long requests wait, what reading is worth, and the limit."""
    (trials,) = data.valid.values()
    start = "by the profile this machine" if trials[0].summary.prediction else "this machine"
    wait = "95% of requests wait {} ms or less for storage before their first token"
    is_few = any(is_thin("ttfb_p95_ms", run.summary.metrics) for run in trials)
    speeds = {tier: _format_mean(f"{tier}_break_even_tok_s", trials) for tier in TIERS}
    tier = next((tier for tier in reversed(TIERS) if speeds[tier]), TIERS[0])
    worth = f"reading from {tier} beats recomputing where prefill computes less than {{}} tokens/s"
    limits = {str(run.summary.bottleneck) for run in trials}
    return say_values(
        [
            (f"{start} serves {{}} tokens/s", _format_mean("wall_clock_tok_s", trials)),
            (wait, "" if is_few else _format_mean("ttfb_p95_ms", trials)),
            (worth, speeds[tier]),
        ],
        _LIMITS.get(limits.pop(), "") if len(limits) == 1 else "",
    )


def _format_mean(name: str, trials: Sequence[Subject]) -> str:
    mean = summarise_metric(name, [run.summary for run in trials]).mean
    return format_alike([mean])[0] if mean else ""


def _list_records(data: Gathered) -> pl.DataFrame:
    """Return a row for each run and metric that is a number: run, metric, value, unit."""
    rows = [
        (run.name, name, None if value is None else float(value), _get_unit(name))
        for run in data.runs
        for name, value in run.summary.to_json().items()
        if value is None or isinstance(value, int | float)
    ]
    schema = {"run": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _get_unit(name: str) -> str:
    metric = CATALOGUE.get(name)
    return "" if metric is None or metric.unit in ("share", "ratio") else metric.unit
