"""The large figures of a report: metrics of one system, or the ratios of two."""

from typing import Final

from analysis.comparison.compare import Pair
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.ratios import EQUAL_WORK
from analysis.comparison.sentences import describe_verdict
from analysis.metrics.catalogue import describe
from analysis.report.data import Gathered
from analysis.report.load import NAMED, RATE, WAIT, LoadCurve, LoadCurves, LoadPoint
from analysis.report.systems import Subject
from analysis.summary.run_summary import is_thin
from tracegen.errors import format_count
from views.answer import Figure
from views.numbers import format_number

_READS: Final = "nothing was read from NVMe"
_FIGURES: Final = {
    "wall_clock_tok_s": ("Throughput", "no tokens were generated"),
    "nvme_read_gib_s": ("Reads from NVMe", _READS),
    "ttfb_p95_ms": ("Storage part of TTFT, P95", "pace asap times no requests"),
    "hit_rate_prompt_tokens": ("Hit rate of prompt tokens", "nothing was read"),
    "nvme_break_even_tok_s": ("Break-even of NVMe", _READS),
    "drive_writes_per_day": ("Drive writes per day", "needs the size of the drive and writes to it"),
}
"""Metrics with their labels, and why a run has none."""
_REMARKS: Final = {
    "nvme_break_even_tok_s": "per request: reading pays below this prefill speed",
    "drive_writes_per_day": "at the pace of the replay",
}


def list_figures(data: Gathered) -> list[Figure]:
    """Return metrics of one system, or ratios of the fastest to the baseline.

    There are none if systems cannot be compared, as figures side by side would compare them.
    """
    if data.comparison and data.comparison.compared:
        pair = data.comparison.compared[0]
        labels = {EQUAL_WORK: "Equal work per second"} | {name: label for name, (label, _) in _FIGURES.items()}
        return [_make_ratio(label, name, pair) for name, label in labels.items() if name in pair.ratios]
    if len(data.trials) > 1:  # not compared, so that no two numbers may stand side by side
        return []
    (trials,) = data.valid.values()
    return [_make_figure(name, *words, trials) for name, words in _FIGURES.items()]


def _make_figure(name: str, label: str, missing: str, trials: list[Subject]) -> Figure:
    metric = describe(name)
    stats = summarise_metric(name, [run.summary for run in trials])
    value = stats.mean if stats.more_than is None else stats.more_than
    if value is None or (value == 0 and not metric.is_share):  # a share of 0 is a measurement
        return Figure(name=name, label=label, value=None, note=missing)
    return Figure(
        name=name,
        label=label,
        value=value,
        unit=metric.unit,
        low=stats.low,
        high=stats.high,
        is_more_than=stats.more_than is not None,
        better=metric.better or "",
        note="; ".join(filter(None, (_count_samples(name, trials), _REMARKS.get(name)))),
    )


def _count_samples(name: str, trials: list[Subject]) -> str:
    """Say on how many trials a value rests, and of a single run whether its samples are too few."""
    if len(trials) > 1:
        return format_count(len(trials), "trial")
    (run,) = trials
    few = ", too few samples" if is_thin(name, run.summary.metrics) else ""
    return f"{'one run' if run.summary.prediction is None else 'predicted'}{few}"


def _make_ratio(label: str, name: str, pair: Pair) -> Figure:
    """Return a ratio with its interval and verdict."""
    ratio = pair.ratios[name]
    return Figure(
        name=name,
        label=label,
        value=ratio.ratio,
        unit="ratio",
        low=ratio.low,
        high=ratio.high,
        note=f"{ratio.a} against {ratio.b}: {describe_verdict(ratio) or 'shown, not judged'}",
    )


def list_load_figures(found: LoadCurves) -> list[Figure]:
    """Return the highest load within the target of each curve; of one curve its ends, too."""
    if len(found.curves) > 1:
        return [_make_limit(found, curve, curve.name) for curve in found.curves[: NAMED + 2]]
    (curve,) = found.curves
    ends = {"lowest": curve.points[0], "highest": curve.points[-1]}
    return [
        _make_limit(found, curve, "Highest load within its target"),
        *(
            _make_load_figure(found, point, WAIT, f"Storage part of TTFT, P95, at the {end} load")
            for end, point in ends.items()
        ),
        _make_load_figure(found, curve.fastest, RATE, "Requests served at most"),
    ]


def _make_limit(found: LoadCurves, curve: LoadCurve, label: str) -> Figure:
    limit = found.find_limit(curve)
    if limit is None:
        why = "targets that depend on the bytes moved are not judged here"
        return Figure(name="highest_load", label=label, value=None, note=why)
    return Figure(
        name="highest_load",
        label=label,
        value=curve.points[limit.kept - 1].load if limit.kept else None,
        text="" if limit.kept else "none",
        unit="users" if found.axis == "users" else "× speed-up",
        note=f"P95 of {limit.requests} within {format_number(limit.target)} ms",
        better="higher",
    )


def _make_load_figure(found: LoadCurves, point: LoadPoint, metric: str, label: str) -> Figure:
    stats = point.summarise(metric)
    trials = "predicted" if point.trials[0].prediction else format_count(stats.n, "trial")
    return Figure(
        name=metric,
        label=label,
        value=stats.mean or None,
        low=stats.low,
        high=stats.high,
        unit=describe(metric).unit,
        better=describe(metric).better or "",
        note=f"{trials} at {found.format_load(point.load)}",
    )
