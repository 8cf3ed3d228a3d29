"""The error table: errors, medians, signs and noise, as Markdown and JSON."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Final

from tests.bench.measure import tabulate
from tests.bench.prediction.cells import METRICS, Values

PROFILE: Final = "profile"
"""The name of the full model, beside those of the simpler rules."""
TAIL: Final = "nvme_read_p95_ms"
_LABELS: Final = {
    "wall_clock_tok_s": "tok/s",
    "nvme_read_gib_s": "nvme read GiB/s",
    "nvme_read_p95_ms": "nvme read P95 ms",
    "ttfb_p95_ms": "TTFT P95 ms",
}


@dataclass
class Row:
    """One cell on one medium.

    Attributes:
        medium: its name.
        load: its name.
        capacity: of the cpu tier, in GiB.
        workers: moves in flight at most.
        measured: metrics of each trial.
        nearby: for each trial, metrics of the repeated cell, replayed shortly before.
        predicted: metrics of the prediction.
        rules: metrics by each simpler rule; a rule lacks what it does not predict.
    """

    medium: str
    load: str
    capacity: str
    workers: int
    measured: list[Values] = field(default_factory=list)
    nearby: list[Values] = field(default_factory=list)
    predicted: Values = field(default_factory=dict)
    rules: dict[str, Values] = field(default_factory=dict)

    def measure(self, metric: str) -> float | None:
        """Return the median of the trials; None if the replay has no such moves."""
        values = [trial[metric] for trial in self.measured]
        return None if None in values else statistics.median(value for value in values if value is not None)

    def predict(self, metric: str, rule: str = PROFILE) -> float | None:
        """Return the prediction of a rule; None if it makes none."""
        return (self.predicted if rule == PROFILE else self.rules[rule]).get(metric)

    def error(self, metric: str, rule: str = PROFILE) -> float | None:
        """Return predicted ÷ measured − 1."""
        measured, predicted = self.measure(metric), self.predict(metric, rule)
        return predicted / measured - 1 if measured and predicted else None

    def error_of_ratio(self, metric: str, repeated: "Row") -> float | None:
        """Return the error of (this cell ÷ the repeated cell), which a drive that drifts changes less."""
        ratios = [
            mine / theirs
            for trial, near in zip(self.measured, self.nearby, strict=True)
            if (mine := trial[metric]) and (theirs := near[metric])
        ]
        mine, theirs = self.predict(metric), repeated.predict(metric)
        return mine / theirs / statistics.median(ratios) - 1 if ratios and mine and theirs else None


@dataclass
class Repeats:
    """One cell, replayed again and again on one medium.

    Attributes:
        medium: its name.
        cell: its name.
        values: metrics of each replay.
    """

    medium: str
    cell: str
    values: list[Values]

    def deviation(self, metric: str) -> tuple[float, float] | None:
        """Return the median and the greatest of |value ÷ median − 1|."""
        values = [one[metric] for one in self.values if one[metric] is not None]
        if not values:
            return None
        middle = statistics.median(values)  # type: ignore[type-var]
        deviations = sorted(abs(value / middle - 1) for value in values)  # type: ignore[operator]
        return statistics.median(deviations), deviations[-1]


def count_signs(rows: Sequence[Row], rule: str = PROFILE) -> tuple[int, int]:
    """Count the pairs of cells, alike but for workers, in which P95 moves as predicted; and all pairs."""
    right = pairs = 0
    for few in rows:
        for many in rows:
            same = (few.medium, few.load, few.capacity) == (many.medium, many.load, many.capacity)
            if not same or few.workers >= many.workers:
                continue
            values = [row.measure(TAIL) for row in (few, many)], [row.predict(TAIL, rule) for row in (few, many)]
            if None not in values[0] + values[1]:
                measured, predicted = ((high or 0) > (low or 0) for low, high in values)
                pairs, right = pairs + 1, right + (measured == predicted)
    return right, pairs


def median_error(rows: Iterable[Row], metric: str, rule: str = PROFILE) -> float | None:
    """Return the median of |error|."""
    errors = [abs(error) for row in rows if (error := row.error(metric, rule)) is not None]
    return statistics.median(errors) if errors else None


def median_error_of_ratios(rows: Sequence[Row], metric: str) -> float | None:
    """Return the median of |error of the ratio to the first cell of the same medium|, which is the repeated one."""
    repeated = {row.medium: row for row in reversed(rows)}
    others = [row for row in rows if row is not repeated[row.medium]]
    errors = [row.error_of_ratio(metric, repeated[row.medium]) for row in others]
    known = [abs(error) for error in errors if error is not None]
    return statistics.median(known) if known else None


def write_markdown(rows: Sequence[Row], repeats: Sequence[Repeats], minutes: float) -> str:
    """Write the tables as Markdown."""
    media = list(dict.fromkeys(row.medium for row in rows))
    trials = max(len(row.measured) for row in rows)
    lines = [f"{len(rows)} cells, trials of each: {trials}; {minutes:.0f} minutes, on {date.today()}.", ""]
    for medium in media:
        lines += _write_cells(medium, [row for row in rows if row.medium == medium])
    lines += ["### Medians of |error|", "", *_write_medians(rows, media)]
    lines += ["### Repeats of one cell: median and greatest distance from their median", "", *_write_repeats(repeats)]
    return "\n".join(lines)


def write_json(rows: Sequence[Row], repeats: Sequence[Repeats], minutes: float) -> dict[str, Any]:
    """Return everything that was measured and predicted, as JSON has it."""
    cells = [asdict(row) | {"error": {metric: row.error(metric) for metric in METRICS}} for row in rows]
    return {"minutes": minutes, "cells": cells, "repeats": [asdict(one) for one in repeats]}


def _write_cells(medium: str, rows: Sequence[Row]) -> list[str]:
    heads = [f"{_LABELS[metric]}: measured, predicted, error" for metric in METRICS]
    cells = [[row.load, row.capacity, row.workers, *(_write_cell(row, metric) for metric in METRICS)] for row in rows]
    return [f"### {medium}", "", *tabulate(["load", "GiB", "workers", *heads], cells), ""]


def _write_cell(row: Row, metric: str) -> str:
    measured, predicted, error = row.measure(metric), row.predict(metric), row.error(metric)
    if error is None:
        return "-"
    return f"{_round(measured)}, {_round(predicted)}, {error:+.1%}"


def _round(value: float | None) -> str:
    """Write three digits or more; a value with an error is not None."""
    assert value is not None
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f}"


def _write_medians(rows: Sequence[Row], media: Sequence[str]) -> list[str]:
    rules = [PROFILE, *dict.fromkeys(rule for row in rows for rule in row.rules)]
    lines = []
    for medium in (*media, *(["all"] if len(media) > 1 else [])):
        chosen = [row for row in rows if medium in (row.medium, "all")]
        for rule in rules:
            right, pairs = count_signs(chosen, rule)
            signs = f"{right} of {pairs}" if pairs else "-"
            lines.append([medium, rule, *(_share(median_error(chosen, metric, rule)) for metric in METRICS), signs])
        ratios = [_share(median_error_of_ratios(chosen, metric)) for metric in METRICS]
        lines.append([medium, f"{PROFILE}, ratios to the repeated cell", *ratios, "-"])
    return [*tabulate(["medium", "rule", *_LABELS.values(), "signs right"], lines), ""]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _write_repeats(repeats: Sequence[Repeats]) -> list[str]:
    lines = []
    for one in repeats:
        found = [one.deviation(metric) for metric in METRICS]
        shown = [", ".join(map(_share, pair)) if pair else "-" for pair in found]
        lines.append([one.medium, one.cell, len(one.values), *shown])
    return [*tabulate(["medium", "cell", "times", *_LABELS.values()], lines), ""]
