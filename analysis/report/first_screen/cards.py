"""Large figures of a first screen: six metrics of one system, or their ratios of two."""

from dataclasses import dataclass
from typing import Final

from analysis.comparison.compare import Pair
from analysis.comparison.intervals import Statistics, compute_statistics
from analysis.comparison.ratios import Ratio
from analysis.comparison.rows import format_means
from analysis.comparison.sentences import describe_verdict, format_ends, format_times
from analysis.metrics.catalogue import describe
from analysis.metrics.metric import Better
from analysis.report.between_runs.load_screen import make_load_cards
from analysis.report.data import Gathered, Subject
from analysis.report.first_screen.form import Card
from analysis.summary.numbers import format_alike
from analysis.summary.percentiles import is_thin
from analysis.summary.run_summary import PREDICTED_RANGE
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
    """Return the cards of a report: of one system, of two with their ratio, or of the best one."""
    has_configurations = data.comparison is not None and data.comparison.has_configurations
    if not has_configurations and (cards := make_load_cards(data)):
        return cards
    systems = {system: pick_valid(data.trials(system)) for system in data.systems}
    has_dwpd = any(run.summary.metrics["drive_writes_per_day"] for run in data.runs)
    figures = _FIGURES if has_dwpd else (*_FIGURES[:-1], _PER_DAY)
    if len(systems) == 1:
        return [_describe_one(figure, *systems.values()) for figure in figures]
    side = data.comparison.compared[0] if data.comparison and len(data.comparison.compared) == 1 else None
    if side is not None and side.each:
        found = ((figure, side.ratios.get(figure.name)) for figure in figures)
        return [_describe_overall(figure, ratio) for figure, ratio in found if ratio]
    if side is None or len(systems) > 2:
        return [_describe_best(figure, systems) for figure in figures]
    return [
        _describe_ratio(figure, ratio, side)
        if (ratio := side.ratios.get(figure.name)) and ratio.ratio is not None
        else _describe_best(figure, systems)
        for figure in figures
    ]


def pick_valid(trials: list[Subject]) -> list[Subject]:
    """Return the valid trials; all if none is valid, so that a report shows what went wrong."""
    return [run for run in trials if run.summary.is_valid] or trials


def compute_over_trials(name: str, trials: list[Subject]) -> Statistics:
    """Return the statistics of a metric over trials."""
    return compute_statistics(run.summary.metrics[name] for run in trials)


def _is_measured(figure: _Figure, mean: float) -> bool:
    """Return whether a mean is a measurement: a share of 0 is one, a rate or a time of 0 is not."""
    return mean != 0 or describe(figure.name).is_share


def _describe_one(figure: _Figure, trials: list[Subject]) -> Card:
    stats = compute_over_trials(figure.name, trials)
    if stats.mean is None or not _is_measured(figure, stats.mean):
        return Card(figure.label, None, "", figure.missing)
    low, high = stats.low, stats.high
    prediction = trials[0].summary.prediction
    if prediction is not None:
        low, high = prediction.intervals.get(figure.name, (None, None))
    value, *ends = _scale(figure.name, [stats.mean, low, high])
    span = "" if low is None else f"{ends[0]} to {ends[1]}"
    if prediction is not None:
        between = f"predicted; {PREDICTED_RANGE} {span}" if span else "predicted, without bounds"
    elif span and ends[0] == ends[1]:
        between = f"equal in {format_count(stats.n, 'trial')}"
    elif span:
        between = f"95% interval {span}, {format_count(stats.n, 'trial')}"
    else:
        between = f"one run, {_count_samples(figure.name, trials[0])}".removesuffix(", ")
    return Card(figure.label, value, _unit(figure.name), between, _hint(figure, trials))


def _describe_ratio(figure: _Figure, ratio: Ratio, side: Pair) -> Card:
    """Return the card of the ratio of two systems, with their means over equal work."""
    ends = "" if ratio.low is None else f"95% interval {format_ends(ratio)}: "
    old, new = format_means(side, ratio)
    named = ((ratio.a, new), (ratio.b, old))
    told = ", ".join(f"{system} {value}" for system, value in named)
    return Card(
        figure.label,
        format_times(ratio),
        "",
        f"{ends}{describe_verdict(ratio)}",
        f"{told} {_unit(figure.name)}".strip(),
    )


def _describe_overall(figure: _Figure, ratio: Ratio) -> Card:
    """Return the card of the ratio of two systems over several configurations."""
    ends = "" if ratio.low is None else f"95% interval {format_ends(ratio)}: "
    verdict = describe_verdict(ratio)
    count = f"mean over {format_count(ratio.configurations, 'configuration')}"
    return Card(figure.label, format_times(ratio), "", f"{ends}{verdict}", count)


def _describe_best(figure: _Figure, systems: dict[str, list[Subject]]) -> Card:
    """Return the card of the best of several systems, beside the worst."""
    all_means = {system: compute_over_trials(figure.name, trials).mean for system, trials in systems.items()}
    means = {system: mean for system, mean in all_means.items() if mean is not None and _is_measured(figure, mean)}
    if not means:
        return Card(figure.label, None, "", figure.missing)
    better = describe(figure.name).better
    best, *_, worst = sorted(means, key=means.__getitem__, reverse=better != "lower") * 2
    value, other = _scale(figure.name, [means[best], means[worst]])
    hint = "; ".join(filter(None, (figure.hint, _DIRECTIONS[better])))
    unit = _unit(figure.name)
    if len(means) == 1:
        return Card(figure.label, value, unit, f"{best}; not measured on others", hint)
    if value == other:
        return Card(figure.label, value, unit, f"the same for {len(means)} systems", hint)
    if len(systems) == 2:
        return Card(figure.label, value, unit, f"{best}; {worst} {other}", hint)
    first, last = ("best", "worst") if better else ("most", "least")
    return Card(figure.label, value, unit, f"{first}: {best}; {last}: {worst} {other}", hint)


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
