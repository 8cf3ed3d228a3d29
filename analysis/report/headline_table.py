"""The table of headline figures: a column per system, trials folded to their mean and interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analysis.comparison.intervals import summarise_metric
from analysis.metrics.catalogue import describe
from analysis.metrics.headlines import REPORT
from analysis.report.data import Gathered, Subject
from analysis.report.first_screen.cards import pick_valid
from analysis.report.text import unit
from analysis.summary.numbers import format_alike
from analysis.summary.percentiles import bracketed, is_thin
from replayer.schema import TIERS
from tracegen.errors import format_count

_LEADING: Final = (
    "wall_clock_tok_s",
    *(f"{tier}_{direction}_gib_s" for tier in TIERS for direction in ("read", "write")),
    *("nvme_read_p95_ms", "nvme_write_p95_ms", "ttfb_p95_ms", "ttfb_p99_ms"),
    *("hit_rate_prompt_tokens", "hit_rate", "drive_writes_per_day", "nvme_break_even_tok_s"),
)
"""The metrics that a page shows unfolded."""
_WORD: Final = "bottleneck"
"""The one entry that is a word, not a number."""


@dataclass(frozen=True)
class HeadlineCell:
    """The mean of a system's valid trials, and its interval; empty texts without."""

    value: str
    interval: str


@dataclass(frozen=True)
class HeadlineRow:
    """A metric: its name, label and unit, and a cell per system."""

    name: str
    label: str
    unit: str
    cells: list[HeadlineCell]


@dataclass(frozen=True)
class HeadlineTable:
    """The table of headline figures.

    Attributes:
        systems: the head of each system's column, and how many valid trials it has.
        has_intervals: whether the cells of each system have an interval.
        rows: a row for each metric that any run has.
    """

    systems: list[tuple[str, str]]
    has_intervals: list[bool]
    rows: list[HeadlineRow]

    @property
    def leading(self) -> list[HeadlineRow]:
        """The rows that a page shows unfolded."""
        return [row for row in self.rows if row.name in _LEADING]

    @property
    def rest(self) -> list[HeadlineRow]:
        """The other rows."""
        return [row for row in self.rows if row.name not in _LEADING]


def tabulate_headlines(data: Gathered) -> HeadlineTable:
    """Return the table of a report's systems."""
    systems = [pick_valid(data.trials(system)) for system in data.systems]
    heads = [
        (data.systems[number] if len(systems) > 1 or len(data.runs) > 1 else data.runs[0].name, trials)
        for number, trials in enumerate(systems)
    ]
    rows = [
        HeadlineRow(name, describe(name).label, unit(name), _make_cells(name, systems))
        for name in REPORT
        if any(summary.values.get(name) or name in summary.more_than for summary in data.summaries)
    ]
    return HeadlineTable(
        [(head, format_count(len(own), "trial") if len(own) > 1 else "") for head, own in heads],
        [any(row.cells[number].interval for row in rows) for number in range(len(systems))],
        rows,
    )


def _make_cells(name: str, systems: Sequence[Sequence[Subject]]) -> list[HeadlineCell]:
    if name == _WORD:
        return [HeadlineCell(_join_words(name, trials), "") for trials in systems]
    found = [summarise_metric(name, [run.summary for run in trials]) for trials in systems]
    texts = format_alike(
        name,
        [end for one in found for end in (one.mean if one.more_than is None else one.more_than, one.low, one.high)],
    )
    cells = []
    for number, (trials, one) in enumerate(zip(systems, found, strict=True)):
        mean, low, high = texts[3 * number : 3 * number + 3]
        if one.more_than is not None:
            mean = f"> {mean}"
        is_few = any(is_thin(name, run.summary.metrics) for run in trials)
        has_span = one.low is not None and low != high
        cells.append(HeadlineCell(f"({mean})" if is_few else mean, f"{low} to {high}" if has_span else ""))
    return cells


def _join_words(name: str, trials: Sequence[Subject]) -> str:
    return ", ".join(dict.fromkeys(str(run.summary.values[name] or "–") for run in trials))


def tabulate_every_trial(data: Gathered) -> list[list[str]]:
    """Return rows of every run's headline figures, after the head; none without trials."""
    if len(data.runs) == len(data.systems):
        return []
    rows = [["metric", "unit", *(run.name for run in data.runs)]]
    for name in REPORT:
        values = [summary.values.get(name) for summary in data.summaries]
        if not any(values):
            continue
        words = [str(value) for value in values]
        if name != _WORD:
            words = format_alike(name, [summary.metrics[name] for summary in data.summaries])
        cells = (bracketed(name, summary.metrics, word) for word, summary in zip(words, data.summaries, strict=True))
        rows.append([describe(name).label, unit(name), *cells])
    return rows
