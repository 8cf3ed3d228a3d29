"""Predicted runs beside measured trials of the same work: their errors, also in words."""

import json
from dataclasses import dataclass
from typing import Final

from analysis.comparison.prediction_answer import COLUMNS
from analysis.comparison.predictions import ACCEPTED, OF_DEVICES, PredictionError, compute_error
from analysis.report.data import Gathered, Subject
from analysis.summary.run_summary import Summary
from replayer.schema import to_plain

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
        measured: the trials.
        errors: by metric; only metrics that are above 0 on both sides.
    """

    name: str
    measured: list[Subject]
    errors: dict[str, PredictionError]


def find_predicted(data: Gathered) -> list[PredictedSystem]:
    """Find the predictions that have measured trials in the report."""
    groups: dict[str, list[Subject]] = {}
    for run in data.runs:
        if run.summary.prediction is None and _is_accepted(run.summary):
            groups.setdefault(_make_key(run.summary), []).append(run)
    found = []
    for run in data.runs:
        if run.summary.prediction is not None:
            same = groups.get(_make_key(run.summary), [])
            trials = [trial for trial in same if _is_same_plan(trial, run)]
            if errors := _compute_errors(trials, run):
                found.append(PredictedSystem(run.system, trials, errors))
    return found


def _compute_errors(trials: list[Subject], predicted: Subject) -> dict[str, PredictionError]:
    measured = [trial.summary for trial in trials]
    errors = {name: compute_error(measured, predicted.summary, name) for name in COLUMNS}
    return {name: error for name, error in errors.items() if error.error is not None}


def _is_accepted(summary: Summary) -> bool:
    """Return whether a run is valid as a measurement of the model, if not of a drive."""
    return all(doubt.kind in ACCEPTED for doubt in summary.doubts if doubt.invalidates)


def _make_key(summary: Summary) -> str:
    """Make a key of the trace and the load's conditions; the profile has those of tiers."""
    named = to_plain(summary.provenance.conditions)
    load = {name: value for name, value in named.items() if name not in OF_DEVICES}
    return json.dumps([summary.provenance.trace_fingerprint, load], sort_keys=True)


def _is_same_plan(measured: Subject, predicted: Subject) -> bool:
    """Return whether two runs executed one plan; runs that were cut executed parts of it."""
    one, other = measured.summary.provenance, predicted.summary.provenance
    return one.is_cut or other.is_cut or one.plan_fingerprint == other.plan_fingerprint


def describe_predicted(data: Gathered) -> str | None:
    """Describe the errors of predictions; None without measured trials beside one."""
    found = find_predicted(data)
    names = [one.name for one in found] if len(found) > 1 else ["The prediction"]
    each = zip(names, found, strict=False)
    return " ".join(_describe_prediction(name, system) for name, system in each) or None


def _describe_prediction(name: str, system: PredictedSystem) -> str:
    errors = {_WORDS.get(name, name): one.error or 0.0 for name, one in system.errors.items()}
    named = [word for word in _WORDS.values() if word in errors]
    parts = [f"{_format_error(errors[word])} in {word}" for word in named]
    off = f"{name} is off by {' and '.join(parts)}; no" if parts else f"{name}: no"
    most = f"metric of {len(errors)} is off by more than {max(map(abs, errors.values())):.1%}"
    return f"{off} {most}."


def _format_error(error: float) -> str:
    return f"{error:+.1%}".replace("-", "−")
