"""The answer of a report: what runs were tested, what they showed, and how sure that is."""

from collections.abc import Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from analysis.comparison.answer import convert_comparison, get_unit, tabulate_rows
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.matching import group_trials
from analysis.comparison.predictions import (
    ACCEPTED,
    COLUMNS,
    OF_DEVICES,
    PredictedPair,
    make_pair,
    tabulate_errors,
)
from analysis.comparison.ratios import EQUAL_WORK
from analysis.comparison.sentences import describe_comparison, describe_verdict
from analysis.comparison.trials import find_fault
from analysis.metrics.catalogue import describe
from analysis.report.charts import CHARTED, COMPARISON, draw_ratios, list_run_charts
from analysis.report.load import (
    LoadCurves,
    describe_curves,
    draw_load,
    find_load,
    is_one_curve,
    list_load_figures,
    make_load_title,
)
from analysis.report.systems import Gathered, Subject
from analysis.report.tables import HEADLINES, MEANING, OTHERS, SETTINGS, list_run_tables, list_tested
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.run_summary import is_thin
from replayer.schema import TIERS
from tracegen.errors import format_count
from views.answer import Answer, Figure, Table
from views.numbers import format_alike, format_value
from views.sentences import say_values

_READS: Final = "nothing was read from NVMe"
# The metrics of the figures with their labels, and why a run has none.
_FIGURES: Final = {
    "wall_clock_tok_s": ("Throughput", "no tokens were generated"),
    "nvme_read_gib_s": ("Reads from NVMe", _READS),
    "ttfb_p95_ms": ("Storage part of TTFT, P95", "pace asap times no requests"),
    "hit_rate_prompt_tokens": ("Hit rate of prompt tokens", "nothing was read"),
    "nvme_break_even_tok_s": ("Break-even of NVMe", _READS),
    "drive_writes_per_day": ("Drive writes per day", "needs the size of the drive and writes to it"),
}
_REMARKS: Final = {
    "nvme_break_even_tok_s": "per request: reading pays below this prefill speed",
    "drive_writes_per_day": "at the pace of the replay",
}
# The metrics that the sentence on a prediction names.
_WORDS: Final = {
    "wall_clock_tok_s": "tokens/s",
    "ttfb_p95_ms": "the P95 of the storage part of TTFT",
}
# What holds a run back, by the word of `bottleneck`.
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
# The parts of the page in their order.
_SECTIONS: Final = ("Load", COMPARISON, "Measured beside predicted", HEADLINES, *CHARTED, OTHERS, SETTINGS, MEANING)


def make_report(data: Gathered, title: str = "") -> Answer:
    """Make the answer of a report's runs; its title is `title`, or one of what was tested."""
    load = find_load(data)
    comparison = data.comparison
    # A curve over the load answers alone, unless systems are compared at several loads.
    curve = None if comparison and comparison.has_configurations else load
    is_compared = comparison is not None and not is_one_curve(load, data)
    pairs = find_predicted(data)
    is_valid = all(summary.is_valid for summary in data.summaries)
    # Valid runs are no verdict on which system is better, nor predictions outside their profile a measurement.
    is_plain = comparison or any(summary.is_outside_profile for summary in data.summaries)
    runs = [
        run.summary.to_json() | {"tables": {name: table.to_dicts() for name, table in run.tables.items()}}
        for run in data.runs
    ]
    ratios: list[Table] = []
    if comparison and is_compared:
        ratios = [replace(tabulate_rows(comparison), section=COMPARISON)]
    return Answer(
        kicker=f"kv-tier-bench report of {_count_runs(data, curve)}",
        title=title or (make_load_title(curve) if curve else _make_title(data)),
        subject=list_tested(data, ("pace", "users") if load and not is_compared else ()),
        state=choose_state(data),
        tone="bad" if not is_valid else "plain" if is_plain else "good",
        sentence=_describe_answer(data, curve, describe_predicted(pairs)),
        figures=list_load_figures(curve) if curve else list_figures(data),
        charts=[
            *([draw_load(load)] if load else ()),
            *(draw_ratios(comparison) if comparison and is_compared else ()),
            *list_run_charts(data),
        ],
        tables=[
            *ratios,
            *([tabulate_errors(pairs, COLUMNS)] if pairs else ()),
            *list_run_tables(data),
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
    name = systems[0] if len(data.runs) > 1 else run.name
    place = f"on {run.drive}" if run.drive else f"of {run.summary.provenance.conditions.plan.model}"
    return f"{name}: KV cache {place}"


def _count_runs(data: Gathered, curve: LoadCurves | None) -> str:
    runs, systems = len(data.runs), len(data.trials)
    if curve and is_one_curve(curve, data):
        return f"{runs} runs at {len(curve.curves[0].points)} loads"
    if systems > 1:
        return f"{format_count(systems, 'system')}, {format_count(runs, 'run')}"
    return f"{runs} trials" if runs > 1 else "one run"


def choose_state(data: Gathered) -> str:
    """Return the verdict on all runs."""
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
    # Figures from a profile are read with the error that such profiles have had.
    errors = " ".join(dict.fromkeys(summary.describe_errors() for summary in data.summaries))
    if curve:
        said = describe_curves(curve)
    elif predicted:
        said, errors = predicted, ""
    else:
        said = describe_comparison(data.comparison) if data.comparison else describe_runs(data)
    return " ".join(filter(None, (warning, said, errors.strip())))


def list_figures(data: Gathered) -> list[Figure]:
    """Return metrics of one system, or ratios of the fastest to the baseline.

    There are none if systems cannot be compared, as figures side by side would compare them.
    """
    if data.comparison and data.comparison.compared:
        ratios = data.comparison.compared[0].ratios
        labels = {EQUAL_WORK: "Equal work per second"} | {name: label for name, (label, _) in _FIGURES.items()}
        return [
            Figure(
                name=name,
                label=label,
                value=ratio.ratio,
                unit="ratio",
                low=ratio.low,
                high=ratio.high,
                note=f"{ratio.a} against {ratio.b}: {describe_verdict(ratio) or 'shown, not judged'}",
            )
            for name, label in labels.items()
            if (ratio := ratios.get(name))
        ]
    # Figures of systems that cannot be compared would be compared if they stood side by side.
    if len(data.trials) > 1:
        return []
    (trials,) = data.valid.values()
    return [_make_figure(name, *words, trials) for name, words in _FIGURES.items()]


def _make_figure(name: str, label: str, missing: str, trials: Sequence[Subject]) -> Figure:
    metric = describe(name)
    stats = summarise_metric(name, [run.summary for run in trials])
    value = stats.mean if stats.more_than is None else stats.more_than
    if value is None or (value == 0 and not metric.is_share):  # a share of 0 is a measurement
        return Figure(name=name, label=label, value=None, note=missing)
    basis = format_count(len(trials), "trial")
    if len(trials) == 1:
        few = ", too few samples" if is_thin(name, trials[0].summary.metrics) else ""
        basis = f"{'predicted' if trials[0].summary.prediction else 'one run'}{few}"
    return Figure(
        name=name,
        label=label,
        value=value,
        unit=metric.unit,
        low=stats.low,
        high=stats.high,
        is_more_than=stats.more_than is not None,
        better=metric.better or "",
        note="; ".join(filter(None, (basis, _REMARKS.get(name)))),
    )


def find_predicted(data: Gathered) -> list[PredictedPair]:
    """Find the predictions that have measured trials of their work in the report.

    Conditions of tiers may differ: a prediction has them from its profile.
    """
    measured = [
        run for run in data.runs if run.summary.prediction is None and not find_fault(run.run, run.summary, ACCEPTED)
    ]
    groups = group_trials(measured, OF_DEVICES)
    pairs = []
    for run in data.runs:
        if run.summary.prediction is None:
            continue
        own = run.summary.provenance
        (key,) = group_trials([run], OF_DEVICES)
        known = ((trial, trial.summary.provenance) for trial in groups.get(key, ()))
        # Runs that were cut executed parts of one plan.
        trials = [
            trial
            for trial, other in known
            if own.is_cut or other.is_cut or own.plan_fingerprint == other.plan_fingerprint
        ]
        pair = make_pair(run.system, trials, run, COLUMNS)
        if any(one.error is not None for one in pair.errors.values()):
            pairs.append(pair)
    return pairs


def describe_predicted(pairs: Sequence[PredictedPair]) -> str:
    """Describe the errors of predictions; empty without measured trials beside one."""
    said = []
    for pair in pairs:
        errors = {name: one.error for name, one in pair.errors.items() if one.error is not None}
        most = f"no metric of {len(errors)} is off by more than {{}}"
        named = [
            (f"the prediction {pair.name} is off by {{}} in {words}", format_value(errors[name], "change"))
            for name, words in _WORDS.items()
            if name in errors
        ]
        said.append(say_values([*named, (most, format_value(max(map(abs, errors.values())), "share"))]))
    return " ".join(said)


def describe_runs(data: Gathered) -> str:
    """Say what one system serves, how long requests wait, what reading is worth, and the limit."""
    (trials,) = data.valid.values()
    start = "by the profile this machine" if trials[0].summary.prediction else "this machine"
    wait = "95% of requests wait {} ms or less for storage before their first token"
    is_few = any(is_thin("ttfb_p95_ms", run.summary.metrics) for run in trials)
    speeds = {tier: f"{tier}_break_even_tok_s" for tier in TIERS}
    names = ("wall_clock_tok_s", "ttfb_p95_ms", *speeds.values())
    means = {name: summarise_metric(name, [run.summary for run in trials]).mean for name in names}
    said = {name: format_alike([mean])[0] if mean else "" for name, mean in means.items()}
    # The slowest tier is the one whose worth is asked.
    tier = next((tier for tier in reversed(TIERS) if said[speeds[tier]]), TIERS[0])
    worth = f"reading from {tier} beats recomputing where prefill computes less than {{}} tokens/s"
    limits = {str(run.summary.bottleneck) for run in trials}
    return say_values(
        [
            (f"{start} serves {{}} tokens/s", said["wall_clock_tok_s"]),
            (wait, "" if is_few else said["ttfb_p95_ms"]),
            (worth, said[speeds[tier]]),
        ],
        _LIMITS.get(limits.pop(), "") if len(limits) == 1 else "",
    )


def _list_records(data: Gathered) -> pl.DataFrame:
    """Return a row for each run and metric that is a number: run, metric, value, unit."""
    rows = [
        (run.name, name, None if value is None else float(value), get_unit(name))
        for run in data.runs
        for name, value in run.summary.to_json().items()
        if value is None or isinstance(value, int | float)
    ]
    schema = {"run": pl.String, "metric": pl.String, "value": pl.Float64, "unit": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
