"""Predictions against measurements: the error of each metric, over pairs of equal work."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from analysis.comparison.compare import select_metrics
from analysis.comparison.conditions import conditions_of, find_differing, format_condition
from analysis.comparison.intervals import compute_statistics
from analysis.comparison.matching import (
    Groups,
    Key,
    explain_stray,
    group_trials,
    name_configurations,
)
from analysis.comparison.trials import Trial, check_common_plan, load_trials
from analysis.comparison.warnings import count_doubts, warn_of_machines
from analysis.doubts.predictions import describe_profile
from analysis.runs.opening import open_run
from analysis.runs.plan_order import kind_of
from analysis.summary.percentiles import is_thin
from analysis.summary.run_summary import Summary
from replayer.schema import CONDITION_GROUPS, PredictionInfo
from tracegen.errors import InputError
from tracegen.progress import Advance

OF_DEVICES: Final = CONDITION_GROUPS["devices"]
"""Conditions of the tiers, which a prediction has from its profile; all others are the load's."""
ACCEPTED: Final = ("page cache",)
"""Kinds of doubt that invalidate a run as a measurement of a drive, but not as one of the model."""
_UNSAID: Final = (None, "null", "{}", "0", "0.0")
"""Values of conditions that a profile does not record, such as how a tier was slowed down."""
MEASURED: Final = "measured"
PREDICTED: Final = "predicted"


@dataclass(frozen=True)
class PredictionError:
    """The error of one metric of a pair; values are in the metric's unit.

    Attributes:
        trials: measured trials that have the metric.
        measured: their median; None if none has it.
        low: the least of them.
        high: the greatest.
        predicted: the predicted value; None if the prediction has none.
        is_thin: whether it is a percentile of too few samples.
        error: predicted ÷ measured − 1; None unless both are above 0.
    """

    trials: int
    measured: float | None
    low: float | None
    high: float | None
    predicted: float | None
    is_thin: bool
    error: float | None


@dataclass(frozen=True)
class Accuracy:
    """The errors of one metric over pairs.

    Attributes:
        pairs: pairs with an error.
        median_error: median of the errors with their signs, which shows a bias; None without one.
        median: median of their magnitudes.
        p90: 90% quantile of their magnitudes, interpolated linearly.
    """

    pairs: int
    median_error: float | None = None
    median: float | None = None
    p90: float | None = None


@dataclass(frozen=True)
class PredictedPair:
    """A prediction and the measured trials of the same work.

    Attributes:
        name: what distinguishes it from the other pairs.
        trace_fingerprint: of its trace.
        measured: paths of the trials.
        predicted: path of the predicted run.
        prediction: what it was predicted from.
        errors: by metric.
    """

    name: str
    trace_fingerprint: str
    measured: list[str]
    predicted: str
    prediction: PredictionInfo
    errors: dict[str, PredictionError]


@dataclass(frozen=True)
class PredictionCheck:
    """Predictions against measurements; its fields are those of the JSON.

    Attributes:
        runs: paths of the runs by side, MEASURED and PREDICTED.
        left_out: by path, why a run was left out.
        unmatched: for each group of runs without a counterpart, why it has none.
        warnings: reasons to doubt the comparison, in sentences.
        doubts: kinds of doubt that the runs have, with the number of runs.
        metrics: names of the metrics to show.
        pairs: in the order of the measured runs.
        accuracy: by metric.
    """

    runs: dict[str, list[str]]
    left_out: dict[str, str]
    unmatched: list[str]
    warnings: list[str]
    doubts: dict[str, int]
    metrics: list[str]
    pairs: list[PredictedPair]
    accuracy: dict[str, Accuracy]


def find_predictions(sets: Sequence[Sequence[Path]]) -> list[bool | None]:
    """Return for each set whether its runs are predicted; None if it mixes both.

    Raises:
        InputError: a run cannot be read.
    """
    kinds = [{open_run(path).infos[0].prediction is not None for path in runs} for runs in sets]
    return [kind.pop() if len(kind) == 1 else None for kind in kinds]


def check_predictions(
    measured: Sequence[Path],
    predicted: Sequence[Path],
    metrics: Sequence[str] | None = None,
    advance: Advance = lambda _runs: None,
) -> PredictionCheck:
    """Compare predictions with measurements of the same work.

    Args:
        measured: run directories of replays.
        predicted: run directories of predictions.
        metrics: names in a summary; none takes those of COMPARED that the runs have.
        advance: takes the number of runs read since its last call.

    Raises:
        InputError: a run cannot be read, no prediction is of a replay's work, two predict the same
            replays, or a name is unknown.
    """
    replays, left_out = load_trials(measured, advance, ACCEPTED)
    predictions, others = load_trials(predicted, advance)
    groups = {
        MEASURED: group_trials(replays, OF_DEVICES),
        PREDICTED: group_trials(predictions, OF_DEVICES),
    }
    common, unmatched = _match(groups)
    names = select_metrics([trial.summary for trial in (*replays, *predictions)], metrics)
    labels = name_configurations(common, groups[MEASURED])
    pairs = []
    warnings = [
        f"{trial.run.path} is NOT VALID, {'; '.join(trial.summary.findings)}: it tests the model, not a drive."
        for trial in replays
        if not trial.summary.is_valid
    ]
    for label, key in zip(labels, common, strict=True):
        own, prediction = groups[MEASURED][key], _choose_single(groups[PREDICTED][key])
        warnings += _check_pair(label, own, prediction)
        pairs.append(_make_pair(label, own, prediction, names))
    return PredictionCheck(
        runs={side: _list_paths(found.values()) for side, found in groups.items()},
        left_out={str(path): reason for path, reason in (left_out | others).items()},
        unmatched=unmatched,
        warnings=list(dict.fromkeys(warnings)),
        doubts=count_doubts([*replays, *predictions]),
        metrics=names,
        pairs=pairs,
        accuracy={name: compute_accuracy(pair.errors[name] for pair in pairs) for name in names},
    )


def _list_paths(groups: Iterable[Sequence[Trial]]) -> list[str]:
    return [str(trial.run.path) for trials in groups for trial in trials]


def _match(groups: Groups) -> tuple[list[Key], list[str]]:
    """Return the keys that both sides have, and for each other one why it has no counterpart.

    Raises:
        InputError: there is no common key.
    """
    common = [key for key in groups[MEASURED] if key in groups[PREDICTED]]
    strays = [(side, key) for side, found in groups.items() for key in found if key not in common]
    unmatched = [explain_stray(groups, side, key) for side, key in strays]
    if not common:
        remedy = "predict the trace of the replay under its settings, or pass `vary` for ratios"
        raise InputError(unmatched[0], remedy)
    return common, unmatched


def _choose_single(predictions: Sequence[Trial]) -> Trial:
    if len(predictions) > 1:
        first, second = (trial.run.path for trial in predictions[:2])
        raise InputError(
            f"{first} and {second} predict the same replays",
            "compare each with its own replays",
        )
    return predictions[0]


def _check_pair(name: str, measured: Sequence[Trial], prediction: Trial) -> list[str]:
    """Check that a pair is of the same work; return reasons to doubt it.

    Raises:
        InputError: the plans differ.
    """
    if any(kind_of(trial.run.conditions) == "live" for trial in (*measured, prediction)):
        warnings = [f"{name}: objects were placed live, so the prediction may have moved others."]
    else:
        check_common_plan([*measured, prediction])
        warnings = []
    if any(trial.summary.provenance.is_cut for trial in (*measured, prediction)):
        warnings.append(
            f"{name}: the runs were cut, so each covers another part of the plan, and errors are of own windows:"
            " compare whole runs."
        )
    warnings += warn_of_machines({name: measured})
    info = prediction.run.infos[0].prediction
    if info is not None and info.speeds:
        warnings.append(f"{name}: predicted with {describe_profile(info)}: no replay was as fast.")
    unlike = _list_unlike_devices(measured, prediction)
    if unlike:
        warnings.append(f"{name}: the profile is of other conditions: {', '.join(unlike)}.")
    return warnings


def _list_unlike_devices(measured: Sequence[Trial], prediction: Trial) -> list[str]:
    """List the conditions of tiers that differ, as far as the prediction has them."""
    own = conditions_of(prediction)
    found = dict[str, str]()
    for conditions in map(conditions_of, measured):
        for name in find_differing(conditions, own):
            if name in OF_DEVICES and own.get(name) not in _UNSAID:
                was, now = (format_condition(name, each.get(name)) for each in (conditions, own))
                found[name] = f"{name} ({was} measured, {now} predicted)"
    return list(found.values())


def _make_pair(
    name: str,
    measured: Sequence[Trial],
    prediction: Trial,
    metrics: Sequence[str],
) -> PredictedPair:
    info = prediction.run.infos[0].prediction
    assert info is not None, "the run is predicted"
    summaries = [trial.summary for trial in measured]
    return PredictedPair(
        name,
        trace_fingerprint=str(prediction.run.trace_fingerprint),
        measured=_list_paths([measured]),
        predicted=str(prediction.run.path),
        prediction=info,
        errors={metric: compute_error(summaries, prediction.summary, metric) for metric in metrics},
    )


def compute_error(measured: Sequence[Summary], prediction: Summary, metric: str) -> PredictionError:
    """Compute the error of one metric of a prediction against measured trials."""
    found = [trial.numbers.get(metric) for trial in measured]
    values = [value for value in found if value is not None]
    median = compute_statistics(values).median
    predicted = prediction.numbers.get(metric)
    return PredictionError(
        trials=len(values),
        measured=median,
        low=min(values, default=None),
        high=max(values, default=None),
        predicted=predicted,
        is_thin=any(is_thin(metric, trial.metrics) for trial in (*measured, prediction)),
        error=predicted / median - 1 if median and predicted else None,
    )


def compute_accuracy(errors: Iterable[PredictionError]) -> Accuracy:
    """Compute how far predictions of one metric were off."""
    known = [one.error for one in errors if one.error is not None]
    if not known:
        return Accuracy(0)
    sizes = np.abs(known)
    quantiles = (np.median(known), np.median(sizes), np.quantile(sizes, 0.9))
    return Accuracy(len(known), *map(float, quantiles))
