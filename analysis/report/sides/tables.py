"""Rows of the comparison of systems, for the page, Markdown and JSON alike."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

from analysis.comparison.matching import Configuration
from analysis.comparison.ratios import Ratio
from analysis.comparison.sentences import describe_verdict, format_ends, format_times
from analysis.metrics.headlines import heading
from analysis.report.numbers import format_alike
from analysis.report.sides.sides import PRIMARY, Side, Sides
from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary

Tone = Literal["better", "worse", "equal", "open"]
"""The colour of a row: the side that is better, no difference shown, or nothing judged."""
BRIEF: Final = (PRIMARY, "nvme_read_gib_s", "nvme_read_p95_ms", "ttfb_p95_ms")
"""The metrics that have rows if there are several configurations or systems."""
_CARDS: Final = {
    "time to first byte (part of TTFT)": "storage part of TTFT",
    "prefill speed that reading from nvme beats": "break-even of nvme",
    "throughput by the wall clock": "throughput",
    " per request": "",
    " per object": "",
}
"""Words of labels, and the shorter ones of the first screen."""


@dataclass(frozen=True)
class Row:
    """A metric of a system against the baseline.

    Attributes:
        head: what the row is of, within its group.
        old: the baseline's mean; an empty text over several configurations.
        new: the system's mean.
        ratio: of the system over the baseline.
        words: what the ratio shows.
        tone: which side is better.
    """

    head: str
    old: str
    new: str
    ratio: Ratio
    words: str
    tone: Tone

    @property
    def times(self) -> str:
        """The ratio, as 1.50 ×."""
        return format_times(self.ratio)

    @property
    def interval(self) -> str:
        """Its 95% interval, as 1.48 to 1.52."""
        return format_ends(self.ratio)


@dataclass(frozen=True)
class RowGroup:
    """Rows under one heading: a metric's rows, or all metrics of one configuration."""

    title: str
    rows: list[Row]


def tabulate_sides(sides: Sides) -> list[RowGroup]:
    """Return the rows: a group for each metric if there are several configurations or systems."""
    compared = sides.compared
    if not compared:
        return []
    is_single = len(compared) == 1 and not compared[0].each
    metrics = dict.fromkeys(metric for side in compared for metric in side.ratios)
    if not is_single:
        metrics = dict.fromkeys(metric for metric in metrics if metric in BRIEF)
    if is_single:
        side = compared[0]
        ratios = {name_row(metric): side.ratios[metric] for metric in metrics}
        rows = [_make_row(head, side, one, side.configurations) for head, one in ratios.items()]
        return [RowGroup("", rows)]
    groups = []
    for metric in metrics:
        having = [side for side in compared if metric in side.ratios]
        rows = [row for side in having for row in _list_rows(side, metric, len(compared))]
        groups.append(RowGroup(name_row(metric), rows))
    return groups


def name_row(metric: str) -> str:
    """Return a metric's label and unit in the words of the first screen."""
    label = heading(metric)
    for words, shorter in _CARDS.items():
        label = label.replace(words, shorter)
    return label


def _list_rows(side: Side, metric: str, systems: int) -> list[Row]:
    """Return the row of a system, and one for each of several configurations."""
    name = side.name if systems > 1 else ""
    if not side.each:
        return [_make_row(name, side, side.ratios[metric], side.configurations)]
    whole = f"{name}, all configurations" if name else "all configurations"
    rows = [_make_row(whole, side, side.ratios[metric], [])]
    if systems == 1:
        rows += [
            _make_row(one.name, side, side.each[one.name][metric], [one])
            for one in side.configurations
            if metric in side.each[one.name]
        ]
    return rows


def _make_row(head: str, side: Side, ratio: Ratio, configurations: list[Configuration]) -> Row:
    old = new = ""
    if len(configurations) == 1:
        old, new = format_values(configurations[0], ratio)
    tone: Tone = "equal" if ratio.verdict == "not apart" else "open"
    if ratio.verdict == "apart":
        tone = "better" if ratio.winner == ratio.a else "worse"
    return Row(head, old, new, ratio, describe_verdict(ratio, side.no_interval), tone)


def format_values(one: Configuration, ratio: Ratio) -> tuple[str, str]:
    """Format the means of the baseline and of the system with the same decimals."""
    means = [one.statistics(system, ratio.metric).mean for system in (ratio.b, ratio.a)]
    texts = format_alike(ratio.metric, means)
    trials = (one.summaries[system] for system in (ratio.b, ratio.a))
    old, new = (_bracket(ratio.metric, own, text) for own, text in zip(trials, texts, strict=True))
    return old, new


def _bracket(metric: str, trials: Iterable[Summary], text: str) -> str:
    """Put a percentile in brackets if it rests on too few samples in some trial."""
    texts = [bracketed(metric, trial.metrics, text) for trial in trials]
    return max(texts, key=len)


TRIALS: Final = ("system", "trial", "configuration")


def tabulate_side_trials(sides: Sides) -> list[list[str]]:
    """Return a table of every trial: the head, then a row for each, with the metrics as columns."""
    metrics = list(dict.fromkeys(metric for side in sides.compared for metric in side.ratios))
    rows = [[*TRIALS, *map(heading, metrics)]]
    seen = set[str]()
    for side in sides.compared:
        for one in side.configurations:
            for system in (sides.baseline, side.name):
                for summary in one.summaries[system]:
                    if summary.run not in seen:
                        seen.add(summary.run)
                        values = [_format_trial(metric, summary) for metric in metrics]
                        rows.append([system, summary.run, one.name, *values])
    return rows


def _format_trial(metric: str, summary: Summary) -> str:
    (text,) = format_alike(metric, [summary.numbers.get(metric)])
    return bracketed(metric, summary.metrics, text)


def convert_sides(sides: Sides) -> dict[str, object]:
    """Return the comparison in plain JSON."""
    return {
        "baseline": sides.baseline,
        "sentence": sides.describe(),
        "warnings": sides.warnings,
        "systems": [
            {
                "system": side.name,
                "sentence": side.describe(sides.baseline),
                "not_compared": side.why or None,
                "varied": side.varied,
                "unmatched": side.unmatched,
                "configurations": [one.name for one in side.configurations],
                "ratios": {metric: asdict(ratio) for metric, ratio in side.ratios.items()},
                "by_configuration": {
                    name: {metric: asdict(ratio) for metric, ratio in ratios.items()}
                    for name, ratios in side.each.items()
                },
            }
            for side in sides.sides
        ],
    }
