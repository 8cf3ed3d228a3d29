"""Comparisons as text and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from analysis.comparison.compare import GROUPS, Comparison, Pair
from analysis.comparison.interval_text import find_intervals, render_intervals
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio, Verdict, estimate_false_alarms
from analysis.comparison.sentences import describe_comparison
from analysis.comparison.tables import (
    Rows,
    abbreviate_runs,
    align_columns,
    format_figure,
    list_doubt_kinds,
)
from analysis.comparison.trials import Statistics
from analysis.comparison.warnings import find_unequal_work, list_totals
from analysis.metrics.headlines import QUOTED
from tracegen.errors import format_count

LISTED: Final = 12
"""Most configurations that are listed with a line each."""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison in plain JSON; of the summaries only the statistics of its metrics."""
    names = dict.fromkeys([*comparison.metrics, *QUOTED])
    configurations = [
        {
            "name": one.name,
            "trace_fingerprint": one.trace,
            **{group: value_of(one) for group, value_of in GROUPS.items()},
            "cut": one.cut,
            "window_s": {system: one.values(system, "elapsed_s") for system in one.summaries},
            "same_plan": one.same_plan,
            "statistics": {
                metric: {system: asdict(one.statistics(system, metric)) for system in one.summaries} for metric in names
            },
        }
        for one in comparison.configurations
    ]
    alarm = estimate_false_alarms(comparison.configurations) if comparison.pairs else None
    return {
        "sides": comparison.systems,
        "runs": comparison.runs,
        "left_out": comparison.left_out,
        "unmatched": comparison.unmatched,
        "warnings": comparison.warnings,
        "varied": comparison.varied,
        "predicted": comparison.predicted,
        "doubts": comparison.doubts,
        "workloads": comparison.workloads,
        "metrics": comparison.metrics,
        "same_ratio": comparison.same_ratio,
        "pairs": [asdict(pair) for pair in comparison.pairs],
        "ranking": comparison.ranking,
        "advice": asdict(comparison.advice) if comparison.advice else None,
        "configurations": configurations,
        "false_alarm_share": alarm[-1] if alarm else None,
        "sentence": describe_comparison(comparison) or None,
    }


def render(comparison: Comparison) -> str:
    """Return the comparison as text, without a newline at its end."""
    body: list[str] = []
    if comparison.workloads:
        body += _render_workloads(comparison)
    elif not comparison.pairs:
        for one in comparison.configurations:
            if len(comparison.configurations) > 1:
                body += ["", one.name]
            else:
                body.append("")
            body += _render_trials(one, comparison)
    elif predicted := find_intervals(comparison):
        body += [*render_intervals(predicted, _list_distinct(comparison)), *_list_same(comparison)]
    elif len(comparison.systems) == 2:
        body += _render_pair(comparison, comparison.pairs[0])
    else:
        body += _render_ranking(comparison)
    return "\n".join([*_render_head(comparison), *body, *_render_foot(comparison)])


def _render_head(comparison: Comparison) -> list[str]:
    """Return the systems, the configurations and all that was left out."""
    width = max(map(len, comparison.systems))
    lines = [
        f"{system:{width}}  {format_count(len(runs), 'run')}: {abbreviate_runs(runs)}"
        for system, runs in comparison.runs.items()
    ]
    lines += [
        f"PREDICTED, not measured: {system}: with {' and '.join(profiles)}"
        for system, profiles in comparison.predicted.items()
    ]
    if comparison.workloads:
        count = f"{format_count(len(comparison.configurations), 'workload')} compared"
    else:
        verb = "matched" if len(comparison.systems) > 1 else "found"
        count = f"{format_count(len(comparison.configurations), 'configuration')} {verb}"
    lines += ["", f"{count}:"]
    lines += [f"  {_describe_configuration(one)}" for one in comparison.configurations[:LISTED]]
    if rest := comparison.configurations[LISTED:]:
        cut = sum(one.cut for one in rest)
        lines.append(f"  and {len(rest)} more, {cut} of them cut in time, each run judged over its own window")
    lines += [f"Varied: {name}: {_list_by_system(values)}" for name, values in comparison.varied.items()]
    lines += [f"LEFT OUT: {path}: {why}" for path, why in comparison.left_out.items()]
    lines += [f"UNMATCHED: {why}" for why in comparison.unmatched]
    return lines + [f"WARNING: {warning}" for warning in comparison.warnings]


def _describe_configuration(configuration: Configuration) -> str:
    *others, last = (len(trials) for trials in configuration.summaries.values())
    counts = " + ".join(map(str, [*others, last]))
    trials = f"{counts} trials" if others else format_count(last, "trial")
    windows = {
        system: f"{format_figure(configuration.statistics(system, 'elapsed_s').mean)} s"
        for system in configuration.summaries
    }
    cut = ""
    if configuration.cut:
        cut = f"; cut in time, each run judged over its own window: {_list_by_system(windows)}"
    return f"{configuration.name}; trace {configuration.trace[:12]}, {trials}{cut}"


def _render_pair(comparison: Comparison, pair: Pair) -> list[str]:
    """Return the tables of two systems."""
    single = comparison.configurations[0] if len(comparison.configurations) == 1 else None
    heads = [pair.a, pair.b] if single else ["least", "most"]
    rows = [["", *heads, f"{pair.a}/{pair.b}", "95% interval", "wins", "verdict"]]
    for metric in _list_distinct(comparison):
        ratio = pair.ratios[metric]
        if single:
            cells = [_format_mean(single.statistics(system, metric)) for system in (pair.a, pair.b)]
        else:
            cells = [_format_ratio(ratio.least), _format_ratio(ratio.most)]
        rows.append(
            [
                metric,
                *cells,
                _format_ratio(ratio.ratio),
                _format_interval(ratio),
                _format_share(ratio.win_rate),
                _describe_verdict(ratio, comparison),
            ]
        )
    lines = ["", *align_columns(rows), *_list_same(comparison)]
    for setting, groups in pair.by.items():
        lines += ["", *align_columns(_tabulate_groups(setting, groups, comparison), left=(0,))]
    if not single and len(comparison.configurations) <= LISTED and comparison.advice:
        metric = comparison.advice.metrics[0]
        lines += ["", *align_columns(_tabulate_configurations(comparison, pair, metric))]
    return lines


def _list_distinct(comparison: Comparison) -> list[str]:
    """Return the metrics without those whose ratio is the same as another's."""
    others = {other for same in comparison.same_ratio.values() for other in same}
    return [metric for metric in comparison.metrics if metric not in others]


def _list_same(comparison: Comparison) -> list[str]:
    """Return a line for each ratio that several metrics share."""
    lines = []
    for first, others in comparison.same_ratio.items():
        names = [f"{name} (inverted)" if name == "elapsed_s" else name for name in others]
        lines.append(f"The same ratio as {first}, as the work is equal: {', '.join(names)}")
    return lines


def _tabulate_groups(setting: str, groups: dict[str, dict[str, Ratio]], comparison: Comparison) -> Rows:
    """Return the ratios of QUOTED for each value of a setting."""
    heads = [cell for metric in QUOTED for cell in (metric, "wins")]
    quoted: Mapping[str, tuple[str, ...]] = {}
    if comparison.advice and setting == "cpu_gib":
        quoted = comparison.advice.by_cpu_gib
    rows = [[f"by {setting}", "configurations", *heads, *(["quote"] if quoted else [])]]
    for value, ratios in groups.items():
        quotients = [ratios[metric] for metric in QUOTED]
        cells = [cell for one in quotients for cell in (_format_ratio(one.ratio), _format_share(one.win_rate))]
        if quoted:
            cells.append(quoted[value][0])
        count = max(ratio.configurations for ratio in ratios.values())
        rows.append([f"  {value}", str(count), *cells])
    return rows


def _tabulate_configurations(comparison: Comparison, pair: Pair, metric: str) -> Rows:
    """Return a metric of two systems in each configuration."""
    rows = [[metric, pair.a, pair.b, f"{pair.a}/{pair.b}"]]
    for one in comparison.configurations:
        first = one.statistics(pair.a, metric)
        second = one.statistics(pair.b, metric)
        ratio = first.mean / second.mean if first.mean and second.mean else None
        rows.append([f"  {one.name}", _format_mean(first), _format_mean(second), _format_ratio(ratio)])
    return rows


def _render_ranking(comparison: Comparison) -> list[str]:
    """Return the tables of more than two systems: the ranking, and the ratios to the best."""
    assert comparison.advice is not None, "several systems have advice"
    primary = comparison.advice.metrics[0]
    best = comparison.ranking[0]
    rows = [
        ["", f"by {primary}", "to the best", "95% interval", "wins", "verdict"],
        ["1", best, "1.00x", "", "", "best"],
    ]
    for place, pair in enumerate(comparison.pairs, 2):
        ratio = pair.ratios[primary]
        verdict = "worse than the best" if ratio.winner == best else _describe_verdict(ratio, comparison)
        cells = [_format_ratio(ratio.ratio), _format_interval(ratio), _format_share(ratio.win_rate)]
        rows.append([str(place), pair.a, *cells, verdict])
    lines = ["", *align_columns(rows, left=(0, 1, 5)), ""]
    single = comparison.configurations[0] if len(comparison.configurations) == 1 else None
    rows = [["", best, *(f"{pair.a}/{best}" for pair in comparison.pairs)]]
    for metric in _list_distinct(comparison):
        ratios = [pair.ratios[metric] for pair in comparison.pairs]
        cells = [_format_ratio(ratio.ratio) + _MARKS[ratio.verdict] for ratio in ratios]
        own = _format_mean(single.statistics(best, metric)) if single else "1.00x"
        rows.append([metric, own, *cells])
    lines += [*align_columns(rows, left=(0,)), *_list_same(comparison)]
    if any(cell.endswith(("~", "?")) for row in rows for cell in row):
        lines.append("~ does not tell them apart, ? no verdict")
    return lines


_MARKS: Final[dict[Verdict, str]] = {
    "apart": "  ",
    "not apart": " ~",
    "no verdict": " ?",
    "not judged": "  ",
}


def _render_trials(configuration: Configuration, comparison: Comparison) -> list[str]:
    """Return the statistics of a single system."""
    rows = [["", "trials", "mean", "sd", "CV", "median", "95% interval of the mean"]]
    for metric in comparison.metrics:
        stats = configuration.statistics(comparison.systems[0], metric)
        ends = f"{format_figure(stats.low)} .. {format_figure(stats.high)}"
        rows.append(
            [
                f"  {metric}",
                str(stats.n),
                format_figure(stats.mean),
                format_figure(stats.sd),
                _format_share(stats.cv, 1),
                format_figure(stats.median),
                ends if stats.low is not None else "-",
            ]
        )
    return align_columns(rows, left=(0,))


def _render_workloads(comparison: Comparison) -> list[str]:
    """Return the metrics of different workloads next to each other."""
    rows = [["", *comparison.systems]]
    for metric in comparison.metrics:
        means = [one.statistics(one.name, metric) for one in comparison.configurations]
        rows.append([metric, *map(_format_mean, means)])
    lines = ["", *align_columns(rows, left=(0,)), ""]
    return [*lines, "The work differs: no ratio of these numbers says which system is faster."]


def _render_foot(comparison: Comparison) -> list[str]:
    """Return the lines on work, metrics to quote, chance, doubts, and the answer in a sentence."""
    lines = _describe_work(comparison) if comparison.pairs else []
    if advice := comparison.advice:
        lines.append(f"Quote {' and '.join(advice.metrics)}: {advice.why}.")
        if advice.by_cpu_gib:
            budgets = (f"{size} GiB: {' and '.join(metrics)}" for size, metrics in advice.by_cpu_gib.items())
            lines.append(f"  By CPU budget: {', '.join(budgets)}.")
        lines += [] if find_intervals(comparison) else [f"  {note}" for note in advice.notes]
    if comparison.pairs and (alarm := estimate_false_alarms(comparison.configurations)):
        size, sample, share = alarm
        lines.append(
            f"With {size} {sample}, {share:.0%} of the metrics of equal systems would be told apart by chance."
        )
    if comparison.doubts:
        total = sum(map(len, comparison.runs.values()))
        lines.append(list_doubt_kinds(comparison.doubts, total))
    if sentence := describe_comparison(comparison):
        lines += ["", sentence]
    return ["", *lines] if lines else []


def _describe_work(comparison: Comparison) -> list[str]:
    """Return one line if all systems did equal work, otherwise the counts that differ."""
    unequal = dict.fromkeys(name for one in comparison.configurations for name in find_unequal_work(one))
    if not unequal:
        return [
            "Work is equal: tokens, hits and bytes follow from trace and plan; rates over elapsed_s differ as it does."
        ]
    why = "see above"
    if not all(one.same_plan for one in comparison.configurations):
        why = "because of the varied conditions"
        if not comparison.varied:
            why = "live runs decide by themselves"
    elif any(one.cut for one in comparison.configurations):
        why = "each run did what it could until it was cut"
    lines = [f"Work differs ({why}), and times with it; means over trials and configurations:"]
    for name in list_totals(unequal):
        means = {}
        for system in comparison.systems:
            values = [one.statistics(system, name).mean or 0.0 for one in comparison.configurations]
            means[system] = f"{sum(values) / len(values):,.0f}"
        lines.append(f"  {name}: {_list_by_system(means)}")
    return lines


def _describe_verdict(ratio: Ratio, comparison: Comparison) -> str:
    if ratio.verdict == "apart":
        return f"tells them apart: {ratio.winner} is better"
    if ratio.verdict == "not apart":
        return "does not tell them apart"
    if ratio.verdict == "not judged":
        return "depends on the work"
    if ratio.ratio is None:
        return "no ratio: missing or 0 in a trial"
    if {ratio.a, ratio.b} <= comparison.predicted.keys():
        return "predicted: no verdict"
    summaries = comparison.configurations[0].summaries
    single = [system for system in (ratio.a, ratio.b) if len(summaries[system]) == 1]
    few = "one trial per system" if len(single) == 2 else f"one trial of {single[0]}"
    return f"{few}: no verdict"


def _list_by_system(values: Mapping[str, str]) -> str:
    return ", ".join(f"{value} ({system})" for system, value in values.items())


def _format_mean(stats: Statistics) -> str:
    return format_figure(stats.mean) + (f" ±{stats.cv:4.1%}" if stats.cv is not None else "")


def _format_ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def _format_interval(ratio: Ratio) -> str:
    return "-" if ratio.low is None or ratio.high is None else f"{ratio.low:.2f} .. {ratio.high:.2f}"


def _format_share(share: float | None, digits: int = 0) -> str:
    return "-" if share is None else f"{share:.{digits}%}"
