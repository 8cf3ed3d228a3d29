"""The answer of a report: what runs were tested, what they showed, and how sure that is."""

from typing import Final

import polars as pl

from analysis.comparison.answer import SECTION, convert_comparison, get_unit, name_comparison, tabulate_rows
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.ratios import EQUAL_WORK
from analysis.comparison.sentences import describe_comparison, describe_verdict
from analysis.report.charts import CHARTED, draw_ratios, list_run_charts
from analysis.report.load import (
    LoadCurves,
    describe_curves,
    draw_load,
    find_load,
    is_one_curve,
    list_load_figures,
    make_load_title,
)
from analysis.report.systems import Gathered
from analysis.report.tables import HEADLINES, MEANING, OTHERS, SETTINGS, list_run_tables, list_tested, make_figure
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.run_summary import Summary, is_thin
from replayer.schema import TIERS
from tracegen.errors import format_count
from views.answer import Answer, Figure
from views.numbers import format_alike
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
_OWN_CORES: Final = 0.5  # the share of the cores from which a busy processor is the replayer's own
# What holds a run back, by the word of `bottleneck`.
_LIMITS: Final = {
    "cpu": "the processor, whose cores are busy",
    "others": "other processes, which keep the processor's cores busy",
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
_SECTIONS: Final = ("Load", SECTION, HEADLINES, *CHARTED, OTHERS, SETTINGS, MEANING)


def make_report(data: Gathered, title: str = "") -> Answer:
    """Make the answer of a report's runs; its title is `title`, or one of what was tested."""
    load = find_load(data)
    comparison = data.comparison
    # A curve over the load answers alone, unless systems are compared at several loads.
    curve = None if comparison and any(pair.each for pair in comparison.pairs) else load
    compared = None if is_one_curve(load, data) else comparison
    is_valid = all(summary.is_valid for summary in data.summaries)
    # Valid runs are no verdict on which system is better, nor predictions outside their profile a measurement.
    is_plain = comparison or any(summary.is_outside_profile for summary in data.summaries)
    runs = [
        run.summary.to_json() | {"tables": {name: table.to_dicts() for name, table in run.tables.items()}}
        for run in data.runs
    ]
    # Systems of a curve are its loads, which the title names.
    counts = [format_count(len(data.trials), "system")] if len(data.trials) > 1 and not curve else []
    counts.append(format_count(len(data.runs), "run"))
    return Answer(
        kicker=f"kv-tier-bench report of {', '.join(counts)}",
        title=title or (make_load_title(curve) if curve else _make_title(data)),
        subject=list_tested(data),
        state=choose_state(data),
        tone="bad" if not is_valid else "plain" if is_plain else "good",
        sentence=_describe_answer(data, curve),
        figures=list_load_figures(curve) if curve else list_figures(data),
        charts=[
            *([draw_load(load)] if load else ()),
            *(draw_ratios(compared) if compared else ()),
            *list_run_charts(data),
        ],
        tables=[*([tabulate_rows(compared)] if compared else ()), *list_run_tables(data)],
        doubts=list_doubt_lines([run.name for run in data.runs], data.summaries),
        source="the logs alone",
        sections=_SECTIONS,
        records=_list_records(data),
        data={"runs": runs} | ({"comparison": convert_comparison(comparison)} if comparison else {}),
    )


def _make_title(data: Gathered) -> str:
    """Make a title of what was compared, or of what was tested."""
    first, *others = data.trials
    if data.comparison and len(data.comparison.pairs) == 1:
        return name_comparison(data.comparison)
    if others:
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        return ", ".join([first, *others[:2]]) + more
    run = data.valid[first][0]
    place = f"on {run.drive}" if run.drive else f"of {run.summary.conditions.model}"
    return f"{first}: KV cache {place}"


def choose_state(data: Gathered) -> str:
    """Return the worst verdict on a run, and how many have it."""
    verdicts = [summary.verdict if summary.is_valid else "NOT VALID" for summary in data.summaries]
    for worst in ("NOT VALID", "PREDICTED OUTSIDE THE PROFILE"):
        if worst in verdicts:
            share = f": {verdicts.count(worst)} of {len(verdicts)} runs"
            return worst if len({*verdicts}) == 1 else worst + share
    predicted = verdicts.count("VALID PREDICTION")
    return f"VALID, {predicted} predicted" if 0 < predicted < len(verdicts) else verdicts[0]


def _describe_answer(data: Gathered, curve: LoadCurves | None) -> str:
    """Answer in plain words what the runs showed, and say so if figures are not valid."""
    findings = [*dict.fromkeys(text for summary in data.summaries for text in summary.findings)]
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    warning = f"Do not publish these figures: {findings[0]}{more}." if findings else ""
    # Figures from a profile are read with the error that such profiles have had.
    errors = dict.fromkeys(summary.describe_errors() for summary in data.summaries)
    if curve:
        said = describe_curves(curve)
    else:
        said = describe_comparison(data.comparison) if data.comparison else describe_runs(data)
    return " ".join(filter(None, (warning, said, *errors)))


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
    if len(data.trials) > 1:
        return []
    (trials,) = data.valid.values()
    summaries = [run.summary for run in trials]
    return [
        make_figure(name, label, summaries, _REMARKS.get(name, ""), missing)
        for name, (label, missing) in _FIGURES.items()
    ]


def describe_runs(data: Gathered) -> str:
    """Say what one system serves, how long requests wait, what reading is worth, and the limit."""
    (trials,) = data.valid.values()
    start = "by the profile this machine" if trials[0].summary.prediction else "this machine"
    wait = "95% of requests wait {} ms or less for storage before their first token"
    is_few = any(is_thin("ttfb_p95_ms", run.summary.metrics) for run in trials)
    speeds = {tier: f"{tier}_break_even_tok_s" for tier in TIERS}
    names = ("wall_clock_tok_s", "ttfb_p95_ms", *speeds.values())
    means = ((name, summarise_metric(name, [run.summary for run in trials]).mean) for name in names)
    said = {name: format_alike([mean])[0] if mean else "" for name, mean in means}
    # The slowest tier is the one whose worth is asked.
    tier = next((tier for tier in reversed(TIERS) if said[speeds[tier]]), TIERS[0])
    worth = f"reading from {tier} beats recomputing where prefill computes less than {{}} tokens/s"
    limits = {_LIMITS.get(_name_limit(run.summary), "") for run in trials}
    return say_values(
        [
            (f"{start} serves {{}} tokens/s", said["wall_clock_tok_s"]),
            (wait, "" if is_few else said["ttfb_p95_ms"]),
            (worth, said[speeds[tier]]),
        ],
        limits.pop() if len(limits) == 1 else "",
    )


def _name_limit(summary: Summary) -> str:
    """Return the key in `_LIMITS` of what held a run back."""
    # Of busy cores, most of the time that the replayer did not spend is other processes'.
    is_by_others = summary.bottleneck == "cpu" and (summary.metrics["cpu_share"] or 0) < _OWN_CORES
    return "others" if is_by_others else str(summary.bottleneck)


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
