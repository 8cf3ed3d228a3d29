"""Columns of a summary's table: the values of a run, and the intervals of a predicted one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from analysis.summary.percentiles import bracketed
from analysis.summary.run_summary import Summary

Format = Callable[[Any], str]
_INTERVAL_WIDTH: Final = 26


@dataclass(frozen=True)
class Column:
    """A column of numbers: a run's values, or the intervals of a predicted run's."""

    head: str
    summary: Summary
    is_interval: bool = False

    def width(self, usual: int) -> int:
        """Return the width of the column, where `usual` is that of values."""
        return _INTERVAL_WIDTH if self.is_interval else usual

    def cell(self, name: str, form: Format) -> str:
        """Return the cell of a metric; intervals of one value are left out."""
        if self.is_interval:
            ends = format_interval(self.summary, name, form)
            return "" if ends is None else f"[{ends}]"
        value = self.summary.values[name]
        if value is None:
            least = self.summary.more_than.get(name)
            return "-" if least is None else f"> {form(least)}"
        return bracketed(name, self.summary.metrics, form(value))


def make_columns(names: Sequence[str], summaries: Sequence[Summary]) -> list[Column]:
    """Return the columns of runs; a predicted run with bounds has two."""
    columns = []
    for name, summary in zip(names, summaries, strict=True):
        columns.append(Column(name, summary))
        if summary.prediction is not None and summary.prediction.intervals:
            columns.append(Column("interval", summary, is_interval=True))
    return columns


def format_interval(summary: Summary, name: str, form: Format, between: str = " .. ") -> str | None:
    """Format the interval of a predicted run's metric; None without one, or if its ends look equal."""
    ends = None if summary.prediction is None else summary.prediction.intervals.get(name)
    if ends is None:
        return None
    low, high = map(form, ends)
    return None if low == high else f"{low}{between}{high}"


def format_predictions(names: Sequence[str], summaries: Sequence[Summary]) -> list[str]:
    """Return a line for each predicted run that says so."""
    lines = []
    for name, summary in zip(names, summaries, strict=True):
        if (prediction := summary.prediction) is not None:
            interval = "" if prediction.intervals else "; without bounds, so no intervals"
            source = f"with {prediction.describe()}{interval}"
            lines.append(f"PREDICTED, not measured: {name}: {source}")
    return lines
