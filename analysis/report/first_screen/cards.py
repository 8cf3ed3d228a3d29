"""Large figures of a first screen: six metrics of one system, or the ratios of a comparison."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from analysis.comparison.compare import Comparison, Pair
from analysis.comparison.equal_work.measuring import EQUAL_WORK
from analysis.comparison.intervals import Statistics, summarise_metric
from analysis.comparison.ratios import Ratio
from analysis.comparison.rows import format_means, name_unit_of_work
from analysis.comparison.sentences import describe_verdict, format_ends, format_times
from analysis.metrics.catalogue import describe
from analysis.metrics.metric import Better
from analysis.report.between_runs.load_screen import make_load_cards
from analysis.report.data import Gathered, Subject
from analysis.report.first_screen.form import Card
from analysis.summary.numbers import format_alike
from analysis.summary.percentiles import is_thin
from tracegen.errors import format_count


@dataclass(frozen=True)
class _Figure:
    """A metric that has a card.

    Attributes:
        name: the metric.
        label: what it is, in words.
        missing: why a run has no value.
        hint: what a reader must know besides the direction.
        beside: a metric of the same unit for the hint, and its name there.
    """

    name: str
    label: str
    missing: str
    hint: str = ""
    beside: tuple[str, str] | None = None


_FIGURES: Final = (
    _Figure("wall_clock_tok_s", "Throughput", "no tokens were generated"),
    _Figure("nvme_read_gib_s", "Reads from NVMe", "nothing was read from NVMe"),
    _Figure(
        "ttfb_p95_ms",
        "Storage part of TTFT, P95",
        "pace asap times no requests",
        beside=("ttfb_p99_ms", "P99"),
    ),
    _Figure(
        "hit_rate_prompt_tokens",
        "Hit rate of prompt tokens",
        "nothing was read",
        beside=("hit_rate", "of re-reads"),
    ),
    _Figure(
        "nvme_break_even_tok_s",
        "Break-even of NVMe",
        "nothing was read from NVMe",
        "per request: reading pays below this prefill speed",
    ),
    _Figure(
        "drive_writes_per_day",
        "Drive writes per day",
        "nothing was written to NVMe, or its size is not given",
        "at the pace of the replay",
    ),
)
_PER_DAY: Final = _Figure(
    "nvme_write_bytes_per_day",
    "Writes to NVMe per day",
    "nothing was written to NVMe",
    "at the pace of the replay; drive writes per day need the size of the drive",
)
_DIRECTIONS: Final[dict[Better | None, str]] = {
    "higher": "higher is better",
    "lower": "lower is better",
    None: "",
}


def make_cards(data: Gathered) -> list[Card]:
    """Return the cards of a report: metrics of one system, or ratios of the fastest to the baseline.

    There are none if systems cannot be compared, as figures side by side would compare them.
    """
    has_configurations = data.comparison is not None and data.comparison.has_configurations
    if not has_configurations and (cards := make_load_cards(data)):
        return cards
    if data.comparison and data.comparison.compared:
        return [*_list_ratio_cards(data, data.comparison)]
    if len(data.systems) > 1:
        return []
    has_dwpd = any(run.summary.metrics["drive_writes_per_day"] for run in data.runs)
    figures = _FIGURES if has_dwpd else (*_FIGURES[:-1], _PER_DAY)
    return [_describe_one(figure, pick_valid(data.runs)) for figure in figures]


def pick_valid(trials: list[Subject]) -> list[Subject]:
    """Return the valid trials; all if none is valid, so that a report shows what went wrong."""
    return [run for run in trials if run.summary.is_valid] or trials


def compute_over_trials(name: str, trials: list[Subject]) -> Statistics:
    """Return the statistics of a metric over trials."""
    return summarise_metric(name, [run.summary for run in trials])


def _is_measured(figure: _Figure, mean: float) -> bool:
    """Return whether a mean is a measurement: a share of 0 is one, a rate or a time of 0 is not."""
    return mean != 0 or describe(figure.name).is_share


def _describe_one(figure: _Figure, trials: list[Subject]) -> Card:
    stats = compute_over_trials(figure.name, trials)
    if stats.more_than is not None:
        value = f"> {_scale(figure.name, [stats.more_than])[0]}"
        return Card(figure.label, value, _unit(figure.name), "a cut left requests unfinished", _hint(figure, trials))
    if stats.mean is None or not _is_measured(figure, stats.mean):
        return Card(figure.label, None, "", figure.missing)
    value, *ends = _scale(figure.name, [stats.mean, stats.low, stats.high])
    span = "" if stats.low is None else f"{ends[0]} to {ends[1]}"
    if trials[0].summary.prediction is not None:
        between = "predicted"
    elif span and ends[0] == ends[1]:
        between = f"equal in {format_count(stats.n, 'trial')}"
    elif span:
        between = f"95% interval {span}, {format_count(stats.n, 'trial')}"
    else:
        between = f"one run, {_count_samples(figure.name, trials[0])}".removesuffix(", ")
    return Card(figure.label, value, _unit(figure.name), between, _hint(figure, trials))


def _list_ratio_cards(data: Gathered, comparison: Comparison) -> Iterator[Card]:
    """Yield the cards of the fastest system against the baseline, by the rules of the rows."""
    pair = comparison.compared[0]
    yield _describe_ratio("Equal work per second", pair.ratios[EQUAL_WORK], pair)
    for figure in _FIGURES[:-1]:
        ratio = pair.ratios.get(figure.name)
        if ratio is None:
            yield _describe_both(figure, data, pair.name, comparison.baseline)
        else:
            yield _describe_ratio(figure.label, ratio, pair)


def _describe_both(figure: _Figure, data: Gathered, system: str, baseline: str) -> Card:
    """Return the card of a metric that has no ratio, as hit rates: the values of both systems."""
    both = [compute_over_trials(figure.name, pick_valid(data.trials(name))).mean for name in (system, baseline)]
    if None in both:
        return Card(figure.label, None, "", figure.missing)
    new, old = _scale(figure.name, both)
    told = f"{system}; {baseline} {old}" if new != old else "the same for both systems"
    return Card(figure.label, new, _unit(figure.name), told, "each over its own window")


def _describe_ratio(label: str, ratio: Ratio, pair: Pair) -> Card:
    """Return the card of a ratio; of its values if it is not judged."""
    old, new = format_means(pair, ratio)
    unit = name_unit_of_work(pair) if ratio.metric == EQUAL_WORK else _unit(ratio.metric)
    told = f"{ratio.a} {new}, {ratio.b} {old} {unit}".strip() if new else ""
    if pair.each:
        told = f"{ratio.a} against {ratio.b}, mean over {format_count(ratio.configurations, 'configuration')}"
    words = describe_verdict(ratio)
    if ratio.ratio is None:
        return Card(label, "no ratio", "", words.removeprefix("no ratio: "), told)
    if ratio.better is None and new:
        return Card(label, new, unit, f"{ratio.a}; {ratio.b} {old}", words)
    ends = "" if ratio.low is None else f"95% interval {format_ends(ratio)}"
    return Card(label, format_times(ratio), "", ": ".join(filter(None, (ends, words))), told)


def _scale(name: str, values: list[float | None]) -> list[str]:
    """Format values of a metric; bytes per day in TB per day."""
    is_bytes = describe(name).unit == "bytes/day"
    scaled = [value if value is None or not is_bytes else value / 1e12 for value in values]
    return format_alike(name, scaled)


def _unit(name: str) -> str:
    unit = describe(name).unit
    words = {"share": "", "ratio": "", "bytes/day": "TB", "per day": ""}
    return words.get(unit, unit)


def _count_samples(name: str, run: Subject) -> str:
    """Describe the samples behind a value, and whether a percentile has too few."""
    counted_by = describe(name).counted_by
    if counted_by is None or (samples := run.summary.metrics.get(counted_by)) is None:
        return ""
    remark = " (too few)" if is_thin(name, run.summary.metrics) else ""
    return f"{samples:,.0f} {describe(counted_by).unit}{remark}"


def _hint(figure: _Figure, trials: list[Subject]) -> str:
    parts = [figure.hint, _DIRECTIONS[describe(figure.name).better]]
    if figure.beside is not None:
        name, label = figure.beside
        if (mean := compute_over_trials(name, trials).mean) is not None:
            value = f"{_scale(name, [mean])[0]} {_unit(name)}".strip()
            parts.insert(0, f"{label} {value}")
    return "; ".join(filter(None, parts))
