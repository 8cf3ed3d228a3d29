"""The large figures of a report: six metrics of one system, or the ratios of two."""

from collections.abc import Iterator
from typing import Final

from analysis.comparison.answer import format_means, name_unit_of_work
from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.equal_work.measuring import EQUAL_WORK
from analysis.comparison.intervals import summarise_metric
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import describe_verdict, format_ends, format_times
from analysis.metrics.catalogue import describe
from analysis.report.data import Gathered
from analysis.report.sides import Subject
from analysis.summary.percentiles import is_thin
from tracegen.errors import format_count
from views.answer import Figure
from views.numbers import format_value

_PACE: Final = "at the pace of the replay"
_FIGURES: Final = (
    ("wall_clock_tok_s", "Throughput", "no tokens were generated", ""),
    ("nvme_read_gib_s", "Reads from NVMe", "nothing was read from NVMe", ""),
    ("ttfb_p95_ms", "Storage part of TTFT, P95", "pace asap times no requests", "ttfb_p99_ms"),
    ("hit_rate_prompt_tokens", "Hit rate of prompt tokens", "nothing was read", "hit_rate"),
    ("nvme_break_even_tok_s", "Break-even of NVMe", "nothing was read from NVMe", ""),
)
"""Metrics with their labels, why a run has none, and a metric to name beside them."""
_BESIDE: Final = {"ttfb_p99_ms": "P99", "hit_rate": "of re-reads"}
_REMARKS: Final = {
    "nvme_break_even_tok_s": "per request: reading pays below this prefill speed",
    "drive_writes_per_day": _PACE,
    "nvme_write_bytes_per_day": f"{_PACE}; drive writes per day need the size of the drive",
}
_UNITS: Final = {"bytes/day": ("TB", 1e12), "per day": ("", 1.0)}
"""Units that people read, and how much of the metric's unit they are."""


def list_figures(data: Gathered) -> list[Figure]:
    """Return metrics of one system, or ratios of the fastest to the baseline.

    There are none if systems cannot be compared, as figures side by side would compare them.
    """
    if data.comparison and data.comparison.compared:
        return [*_list_ratios(data, data.comparison)]
    if len(data.trials) > 1:
        return []
    (trials,) = data.valid.values()
    has_dwpd = any(run.summary.metrics["drive_writes_per_day"] for run in trials)
    wear = (
        ("drive_writes_per_day", "Drive writes per day", "", "")
        if has_dwpd
        else (
            "nvme_write_bytes_per_day",
            "Writes to NVMe per day",
            "nothing was written to NVMe",
            "",
        )
    )
    return [_make_figure(*figure, trials) for figure in (*_FIGURES, wear)]


def _make_figure(name: str, label: str, missing: str, beside: str, trials: list[Subject]) -> Figure:
    metric = describe(name)
    unit, scale = _UNITS.get(metric.unit, (metric.unit, 1.0))
    stats = summarise_metric(name, [run.summary for run in trials])
    value = stats.mean if stats.more_than is None else stats.more_than
    if value is None or (value == 0 and not metric.is_share):  # a share of 0 is a measurement
        return Figure(name=name, label=label, value=None, note=missing)
    low, high = (None if end is None else end / scale for end in (stats.low, stats.high))
    notes = [_count_samples(name, trials), _format_beside(beside, trials), _REMARKS.get(name, "")]
    return Figure(
        name=name,
        label=label,
        value=value / scale,
        unit=unit,
        low=low,
        high=high,
        is_more_than=stats.more_than is not None,
        better=metric.better or "",
        note="; ".join(filter(None, notes)),
    )


def _count_samples(name: str, trials: list[Subject]) -> str:
    """Say on how many trials a value rests; of a single run, on how many samples."""
    if len(trials) > 1:
        return format_count(len(trials), "trial")
    (run,) = trials
    start = "one run" if run.summary.prediction is None else "predicted"
    counted_by = describe(name).counted_by
    samples = run.summary.metrics.get(counted_by) if counted_by else None
    if counted_by is None or samples is None:
        return start
    few = " (too few)" if is_thin(name, run.summary.metrics) else ""
    return f"{start}, {samples:,.0f} {describe(counted_by).unit}{few}"


def _format_beside(name: str, trials: list[Subject]) -> str:
    if not name:
        return ""
    mean = summarise_metric(name, [run.summary for run in trials]).mean
    return "" if mean is None else f"{_BESIDE[name]} {format_value(mean, describe(name).unit)}"


def _list_ratios(data: Gathered, comparison: Comparison) -> Iterator[Figure]:
    """Yield the ratios of the fastest system to the baseline, or the values of both."""
    pair = comparison.compared[0]
    yield _make_ratio("Equal work per second", pair.ratios[EQUAL_WORK], pair)
    for name, label, missing, _ in _FIGURES:
        if name in pair.ratios:
            yield _make_ratio(label, pair.ratios[name], pair)
            continue
        own, base = (data.valid.get(system, []) for system in (pair.name, comparison.baseline))
        new, old = (summarise_metric(name, [run.summary for run in runs]).mean for runs in (own, base))
        unit = describe(name).unit
        if new is None or old is None:
            yield Figure(name=name, label=label, value=None, note=missing)
        else:
            beside = f"{pair.name}; {comparison.baseline} {format_value(old, unit)}"
            note = f"{beside}; each over its own window"
            yield Figure(name=name, label=label, value=new, unit=unit, note=note)


def _make_ratio(label: str, ratio: Ratio, pair: Pair) -> Figure:
    """Return a ratio with its interval and verdict; the values of both if it is not judged."""
    old, new = format_means(pair, ratio)
    is_work = ratio.metric == EQUAL_WORK
    unit = name_unit_of_work(pair) if is_work else describe(ratio.metric).unit
    both = f"{ratio.a} {new}, {ratio.b} {old} {unit}".strip() if new else ""
    if pair.each:
        count = format_count(ratio.configurations, "configuration")
        both = f"{ratio.a} against {ratio.b}, mean over {count}"
    words = describe_verdict(ratio)
    if ratio.better is None and new:
        note = f"{words}; {both}"
        return Figure(name=ratio.metric, label=label, value=ratio.means[0], text=new, unit=unit, note=note)
    ends = "" if ratio.low is None else f"95% interval {format_ends(ratio)}"
    return Figure(
        name=ratio.metric,
        label=label,
        value=ratio.ratio,
        text="no ratio" if ratio.ratio is None else format_times(ratio),
        unit="ratio",
        low=ratio.low,
        high=ratio.high,
        note="; ".join(filter(None, (": ".join(filter(None, (ends, words))), both))),
    )
