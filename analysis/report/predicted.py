"""Predicted runs beside measured trials of the same work: their errors, in words and as a table."""

from dataclasses import dataclass
from typing import Final

from analysis.comparison.conditions import find_differing, write_conditions
from analysis.comparison.prediction_answer import COLUMNS
from analysis.comparison.predictions import ACCEPTED, OF_DEVICES, PredictionError, compute_error
from analysis.metrics.headlines import heading
from analysis.report.data import Gathered
from analysis.summary.run_summary import Summary
from views.answer import Column, Table
from views.numbers import format_number
from views.sentences import say_values

PREDICTED: Final = "Measured beside predicted"
_WORDS: Final = {
    "wall_clock_tok_s": "tokens/s",
    "ttfb_p95_ms": "the P95 of the storage part of TTFT",
}
"""The metrics that the sentence names."""


@dataclass(frozen=True)
class PredictedSystem:
    """A prediction beside the measured trials of its work.

    Attributes:
        name: the predicted run's system.
        errors: by metric; only metrics that are above 0 on both sides.
    """

    name: str
    errors: dict[str, PredictionError]


def find_predicted(data: Gathered) -> list[PredictedSystem]:
    """Find the predictions that have measured trials of their work in the report."""
    measured = [one for one in data.summaries if one.prediction is None and _is_accepted(one)]
    found = []
    for run in data.runs:
        if run.summary.prediction is not None:
            trials = [one for one in measured if _is_same_work(one, run.summary)]
            each = {name: compute_error(trials, run.summary, name) for name in COLUMNS}
            errors = {name: error for name, error in each.items() if error.error is not None}
            if errors:
                found.append(PredictedSystem(run.system, errors))
    return found


def _is_accepted(summary: Summary) -> bool:
    """Return whether a run is valid as a measurement of the model, if not of a drive."""
    return all(doubt.kind in ACCEPTED for doubt in summary.doubts if doubt.invalidates)


def _is_same_work(measured: Summary, predicted: Summary) -> bool:
    """Return whether two runs replayed one load and plan; runs that were cut executed parts of it.

    Conditions of tiers do not count: a prediction has them from its profile.
    """
    one, other = measured.provenance, predicted.provenance
    conditions = (write_conditions(each.conditions) for each in (one, other))
    is_load = {*OF_DEVICES} >= {*find_differing(*conditions)}
    is_plan = one.is_cut or other.is_cut or one.plan_fingerprint == other.plan_fingerprint
    return one.trace_fingerprint == other.trace_fingerprint and is_load and is_plan


def describe_predicted(data: Gathered) -> str:
    """Describe the errors of predictions; empty without measured trials beside one."""
    said = []
    for system in find_predicted(data):
        errors = {name: one.error or 0.0 for name, one in system.errors.items()}
        most = f"no metric of {len(errors)} is off by more than {{}}"
        named = [
            (f"the prediction {system.name} is off by {{}} in {words}", _format_error(errors[name]))
            for name, words in _WORDS.items()
            if name in errors
        ]
        said.append(say_values([*named, (most, f"{max(map(abs, errors.values())):.1%}")]))
    return " ".join(said)


def _format_error(error: float) -> str:
    return f"{error:+.1%}".replace("-", "−")


def tabulate_errors(data: Gathered) -> list[Table]:
    """Return a table with a row for each metric of each prediction; none without predictions."""
    rows = [
        [system.name, heading(name), *_list_values(one)]
        for system in find_predicted(data)
        for name, one in system.errors.items()
    ]
    heads = ("prediction", "metric", "measured, median", "range of trials", "predicted", "error")
    note = "The error is predicted ÷ measured − 1; in brackets are percentiles of too few samples."
    columns = [Column(head) for head in heads]
    table = Table(
        name="predicted",
        title=PREDICTED,
        columns=columns,
        rows=rows,
        notes=[note],
    )
    return [table] if rows else []


def _list_values(one: PredictionError) -> list[str]:
    measured, predicted = (
        f"({format_number(value)})" if one.is_thin else format_number(value) for value in (one.measured, one.predicted)
    )
    span = "" if one.trials < 2 else f"{format_number(one.low)} to {format_number(one.high)}"
    return [measured, span, predicted, _format_error(one.error or 0.0)]
