"""A comparison as text for people and as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from analysis.comparison.compare import GROUPS, Comparison, Pair, list_totals, unequal_work
from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio, false_alarm
from analysis.comparison.trials import Statistics
from analysis.metrics.headlines import QUOTED
from tracegen.errors import format_count

LISTED: Final = 12  # so many configurations have a line each
Rows = list[list[str]]


def as_json(found: Comparison) -> dict[str, Any]:
    """All of a comparison in plain JSON; of the trials' summaries the statistics of the metrics compared."""
    names = dict.fromkeys([*found.metrics, *QUOTED])
    configurations = [
        {
            "name": one.name,
            "trace_fingerprint": one.trace,
            **{group: value_of(one) for group, value_of in GROUPS.items()},
            "cut": one.cut,
            "window_s": {side: one.values(side, "elapsed_s") for side in one.summaries},
            "same_plan": one.same_plan,
            "statistics": {m: {side: asdict(one.statistics(side, m)) for side in one.summaries} for m in names},
        }
        for one in found.configurations
    ]
    told = {name: getattr(found, name) for name in Comparison.__dataclass_fields__ if name != "configurations"}
    pairs = [asdict(pair) for pair in found.pairs]
    advice = asdict(found.advice) if found.advice else None
    alarm = false_alarm(found.configurations) if pairs else None
    told |= {"configurations": configurations, "pairs": pairs, "advice": advice}
    return told | {"false_alarm_share": alarm[-1] if alarm else None}


def render(found: Comparison) -> str:
    """The comparison as text."""
    body: list[str] = []
    if found.workloads:
        body += _side_by_side(found)
    elif not found.pairs:
        for one in found.configurations:
            body += ["", *([one.name] if len(found.configurations) > 1 else []), *_trials(one, found)]
    elif len(found.sides) == 2:
        body += _two(found, found.pairs[0])
    else:
        body += _ranking(found)
    return "\n".join([*_head(found), *body, *_foot(found)])


def _head(found: Comparison) -> list[str]:
    width = max(map(len, found.sides))
    lines = [f"{side:{width}}  {_count(len(runs), 'run')}: {_some(runs)}" for side, runs in found.runs.items()]
    matched = "compared" if found.workloads else "matched" if len(found.sides) > 1 else "found"
    lines += ["", f"{_count(len(found.configurations), 'workload' if found.workloads else 'configuration')} {matched}:"]
    lines += [f"  {_configuration(one)}" for one in found.configurations[:LISTED]]
    if rest := found.configurations[LISTED:]:
        cut = sum(one.cut for one in rest)
        lines.append(f"  and {len(rest)} more, {cut} of them cut in time, each run judged over its own window")
    lines += [f"Varied: {name}: {_by_side(values)}" for name, values in found.varied.items()]
    lines += [f"LEFT OUT: {path}: {why}" for path, why in found.left_out.items()]
    lines += [f"UNMATCHED: {why}" for why in found.unmatched]
    return lines + [f"WARNING: {warning}" for warning in found.warnings]


def _configuration(one: Configuration) -> str:
    *more, last = (len(trials) for trials in one.summaries.values())
    counts = "".join(f"{count} + " for count in more) + (f"{last} trials" if more else format_count(last, "trial"))
    windows = {side: f"{_number(one.statistics(side, 'elapsed_s').mean)} s" for side in one.summaries}
    cut = f"; cut in time, each run judged over its own window: {_by_side(windows)}" if one.cut else ""
    return f"{one.name}; trace {one.trace[:12]}, {counts}{cut}"


def _two(found: Comparison, pair: Pair) -> list[str]:
    single = found.configurations[0] if len(found.configurations) == 1 else None
    heads = [pair.a, pair.b] if single else ["least", "most"]
    rows = [["", *heads, f"{pair.a}/{pair.b}", "95% interval", "wins", "verdict"]]
    for metric in _once(found):
        one = pair.ratios[metric]
        if single:
            cells = [_mean(single.statistics(side, metric)) for side in (pair.a, pair.b)]
        else:
            cells = [_times(one.least), _times(one.most)]
        rows.append([metric, *cells, _times(one.ratio), _interval(one), _share(one.win_rate), _verdict(one, found)])
    lines = ["", *_table(rows), *_same(found)]
    for name, groups in pair.by.items():
        lines += ["", *_table(_breakdown(name, groups, found), left=(0,))]
    if not single and len(found.configurations) <= LISTED and found.advice:
        lines += ["", *_table(_each(found, pair, found.advice.metrics[0]))]
    return lines


def _once(found: Comparison) -> list[str]:
    """Metrics without those that another one's ratio stands for."""
    others = {other for same in found.same_ratio.values() for other in same}
    return [metric for metric in found.metrics if metric not in others]


def _same(found: Comparison) -> list[str]:
    lines = []
    for first, others in found.same_ratio.items():
        told = [f"{one} (inverted)" if one == "elapsed_s" else one for one in others]
        lines.append(f"The same ratio as {first}, as the work is equal: {', '.join(told)}")
    return lines


def _breakdown(name: str, groups: dict[str, dict[str, Ratio]], found: Comparison) -> Rows:
    heads = [cell for metric in QUOTED for cell in (metric, "wins")]
    quoted = found.advice.by_cpu_gib if found.advice and name == "cpu_gib" else {}
    rows = [[f"by {name}", "configurations", *heads, *(["quote"] if quoted else [])]]
    for value, ratios in groups.items():
        cells = [cell for m in QUOTED for cell in (_times(ratios[m].ratio), _share(ratios[m].win_rate))]
        cells += [quoted[value][0]] if quoted else []
        rows.append([f"  {value}", str(max(one.configurations for one in ratios.values())), *cells])
    return rows


def _each(found: Comparison, pair: Pair, metric: str) -> Rows:
    rows = [[metric, pair.a, pair.b, f"{pair.a}/{pair.b}"]]
    for one in found.configurations:
        means = [one.statistics(side, metric) for side in (pair.a, pair.b)]
        ratio = means[0].mean / means[1].mean if means[0].mean and means[1].mean else None
        rows.append([f"  {one.name}", *map(_mean, means), _times(ratio)])
    return rows


def _ranking(found: Comparison) -> list[str]:
    assert found.advice is not None, "there are sides to rank"
    primary, best = found.advice.metrics[0], found.ranking[0]
    rows = [
        ["", f"by {primary}", "to the best", "95% interval", "wins", "verdict"],
        ["1", best, "1.00x", "", "", "best"],
    ]
    for place, pair in enumerate(found.pairs, 2):
        one = pair.ratios[primary]
        verdict = "worse than the best" if one.winner == best else _verdict(one, found)
        rows.append([str(place), pair.a, _times(one.ratio), _interval(one), _share(one.win_rate), verdict])
    lines = ["", *_table(rows, left=(0, 1, 5))]
    single = found.configurations[0] if len(found.configurations) == 1 else None
    rows = [["", best, *(f"{pair.a}/{best}" for pair in found.pairs)]]
    for metric in _once(found):
        cells = [_times(pair.ratios[metric].ratio) + _MARKS[pair.ratios[metric].verdict] for pair in found.pairs]
        rows.append([metric, _mean(single.statistics(best, metric)) if single else "1.00x", *cells])
    marked = any(cell.endswith(("~", "?")) for row in rows for cell in row)
    return [
        *lines,
        "",
        *_table(rows, left=(0,)),
        *_same(found),
        *(["~ does not tell them apart, ? no verdict"] if marked else []),
    ]


_MARKS: Final = {"apart": "  ", "not apart": " ~", "no verdict": " ?", "not judged": "  "}


def _trials(one: Configuration, found: Comparison) -> list[str]:
    rows = [["", "trials", "mean", "sd", "CV", "median", "95% interval of the mean"]]
    for metric in found.metrics:
        s = one.statistics(found.sides[0], metric)
        bounds = f"{_number(s.low)} .. {_number(s.high)}" if s.low is not None else "-"
        rows.append(
            [f"  {metric}", str(s.n), _number(s.mean), _number(s.sd), _share(s.cv, 1), _number(s.median), bounds]
        )
    return _table(rows, left=(0,))


def _side_by_side(found: Comparison) -> list[str]:
    rows = [["", *found.sides]]
    rows += [
        [metric, *(_mean(one.statistics(one.name, metric)) for one in found.configurations)] for metric in found.metrics
    ]
    return ["", *_table(rows, left=(0,)), "", "Unlike work: no ratio of these says which is faster."]


def _foot(found: Comparison) -> list[str]:
    lines = _work(found) if found.pairs else []
    if found.advice:
        lines.append(f"Quote {' and '.join(found.advice.metrics)}: {found.advice.why}.")
        if by := found.advice.by_cpu_gib:
            told = ", ".join(f"{size} GiB: {' and '.join(metrics)}" for size, metrics in by.items())
            lines.append(f"  By CPU budget: {told}.")
        lines += [f"  {note}" for note in found.advice.notes]
    if found.pairs and (alarm := false_alarm(found.configurations)):
        few, what, share = alarm
        lines.append(f"With {few} {what}, {share:.0%} of the metrics of equal systems would be told apart by chance.")
    if found.doubts:
        total = sum(map(len, found.runs.values()))
        doubts = ", ".join(f"{kind} ({count} of {format_count(total, 'run')})" for kind, count in found.doubts.items())
        lines.append(f"Doubts: {doubts}; `analysis summary` has them in full.")
    return ["", *lines] if lines else []


def _work(found: Comparison) -> list[str]:
    """One line where all did equal work, else the counts that differ."""
    unlike = dict.fromkeys(name for one in found.configurations for name in unequal_work(one))
    if not unlike:
        return [
            "Work is equal: tokens, hits and bytes follow from trace and plan; rates over elapsed_s differ as it does."
        ]
    why = "see above"
    if not all(one.same_plan for one in found.configurations):
        why = "they follow from what is varied"
    elif any(one.cut for one in found.configurations):
        why = "each run did what it could until it was cut"
    lines = [f"Work differs ({why}), and times with it; means over trials and configurations:"]
    for name in list_totals(unlike):
        means = {side: [one.statistics(side, name).mean or 0.0 for one in found.configurations] for side in found.sides}
        lines.append(f"  {name}: {_by_side({side: f'{sum(v) / len(v):,.0f}' for side, v in means.items()})}")
    return lines


def _verdict(one: Ratio, found: Comparison) -> str:
    if one.verdict == "apart":
        return f"tells them apart: {one.winner} is better"
    if one.verdict == "not apart":
        return "does not tell them apart"
    if one.verdict == "not judged":
        return "belongs to the work"
    if one.ratio is None:
        return "no ratio: missing or 0 in a trial"
    single = [side for side in (one.a, one.b) if len(found.configurations[0].summaries[side]) == 1]
    return "one trial a side: no verdict" if len(single) == 2 else f"one trial of {single[0]}: no verdict"


def _table(rows: Rows, left: Sequence[int] = (0, 6)) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    aligned = (
        "  ".join(f"{cell:{'<' if i in left else '>'}{widths[i]}}" for i, cell in enumerate(row)) for row in rows
    )
    return [line.rstrip() for line in aligned]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _some(runs: Sequence[str]) -> str:
    return ", ".join(runs) if len(runs) <= 3 else f"{runs[0]} … {runs[-1]}"


def _by_side(values: dict[str, str]) -> str:
    return ", ".join(f"{value} ({side})" for side, value in values.items())


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 0  # three digits, of large numbers all
    return f"{value:,.{max(0, decimals)}f}" if abs(value) >= 1e-3 or not value else f"{value:.3g}"


def _mean(one: Statistics) -> str:
    return _number(one.mean) + (f" ±{one.cv:4.1%}" if one.cv is not None else "")


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def _interval(one: Ratio) -> str:
    return "-" if one.low is None or one.high is None else f"{one.low:.2f} .. {one.high:.2f}"


def _share(share: float | None, digits: int = 0) -> str:
    return "-" if share is None else f"{share:.{digits}%}"
