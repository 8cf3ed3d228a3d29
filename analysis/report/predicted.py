"""Predicted runs beside measured trials of the same work: their errors, in words and as a table."""

from dataclasses import dataclass
from typing import Final

from analysis.comparison.matching import group_trials
from analysis.comparison.prediction_answer import COLUMNS
from analysis.comparison.predictions import ACCEPTED, OF_DEVICES, PredictionError, compute_error
from analysis.comparison.trials import Trial, find_fault
from analysis.metrics.headlines import heading
from analysis.report.data import Gathered
from analysis.report.sides import Subject
from views.answer import Column, Table
from views.numbers import format_number
from views.sentences import say_values

PREDICTED: Final = "Measured beside predicted"
_METRICS: Final = (
    "wall_clock_tok_s",
    "nvme_read_gib_s",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
)
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
    predicted = [run for run in data.runs if run.summary.prediction]
    measured = [run for run in data.runs if not run.summary.prediction and _is_accepted(run)]
    groups = group_trials([Trial(run.run, run.summary) for run in measured], OF_DEVICES)
    found = []
    for run in predicted:
        ((key, (own,)),) = group_trials([Trial(run.run, run.summary)], OF_DEVICES).items()
        trials = [one.summary for one in groups.get(key, ()) if _is_same_plan(one, own)]
        each = {name: compute_error(trials, run.summary, name) for name in _METRICS}
        errors = {name: error for name, error in each.items() if error.error is not None}
        if errors:
            found.append(PredictedSystem(run.system, errors))
    return found


def _is_accepted(run: Subject) -> bool:
    """Return whether a run is valid as a measurement of the model, if not of a drive."""
    return not find_fault(run.run, run.summary, ACCEPTED)


def _is_same_plan(measured: Trial, predicted: Trial) -> bool:
    """Return whether two runs executed one plan; runs that were cut executed parts of it."""
    one, other = measured.summary.provenance, predicted.summary.provenance
    return one.is_cut or other.is_cut or one.plan_fingerprint == other.plan_fingerprint


def describe_predicted(data: Gathered) -> str:
    """Describe the errors of predictions; empty without measured trials beside one."""
    said = []
    for system in find_predicted(data):
        errors = {name: one.error or 0.0 for name, one in system.errors.items()}
        most = f"no metric of {len(errors)} is off by more than {{}}"
        named = [
            (f"{system.name} is off by {{}} in {words}", _format_error(errors[name]))
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
        f"({format_number(value)})" if one.is_thin else format_number(value)
        for value in (one.measured, one.predicted)
    )
    span = "" if one.trials < 2 else f"{format_number(one.low)} to {format_number(one.high)}"
    return [measured, span, predicted, _format_error(one.error or 0.0)]
