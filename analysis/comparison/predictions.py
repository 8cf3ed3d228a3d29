"""Predictions against measurements: the error of each metric, over pairs of equal work."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import polars as pl

from analysis.comparison.compare import select_metrics
from analysis.comparison.intervals import compute_statistics
from analysis.comparison.matching import find_common, group_trials, name_configurations
from analysis.comparison.trials import (
    Trial,
    check_common_plan,
    conditions_of,
    find_differing,
    format_condition,
    load_trials,
)
from analysis.comparison.warnings import abbreviate_runs, count_doubts, list_doubt_kinds, warn_of_machines
from analysis.doubts.predictions import describe_profile
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.headlines import heading
from analysis.runs.opening import open_run
from analysis.runs.plan_order import kind_of
from analysis.summary.run_summary import NOTE, Summary, is_thin
from replayer.schema import CONDITION_GROUPS, PredictionInfo
from tracegen.errors import InputError, format_count
from tracegen.progress import Advance
from views.answer import Answer, Column, Table
from views.numbers import ABSENT, format_number

OF_DEVICES: Final = CONDITION_GROUPS["devices"]
"""Conditions of the tiers, which a prediction has from its profile; all others are the load's."""
ACCEPTED: Final = ("page cache",)
"""Kinds of doubt that invalidate a run as a measurement of a drive, but not as one of the model."""
_UNSAID: Final = (None, "null", "{}", "0", "0.0")
"""Values of conditions that a profile does not record, such as how a tier was slowed down."""
COLUMNS: Final = (
    "wall_clock_tok_s",
    "nvme_read_gib_s",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
)
"""The metrics that are shown of several pairs, unless others are asked for."""


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
        runs: paths of the runs by side, `measured` and `predicted`.
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
    # Replays from the page cache test the model of a memory, though they measure no drive.
    replays, left_out = load_trials(measured, advance, ACCEPTED)
    predictions, others = load_trials(predicted, advance)
    trials = {"measured": replays, "predicted": predictions}
    groups = {side: group_trials(own, OF_DEVICES) for side, own in trials.items()}
    remedy = "predict the trace of the replay under its settings, or pass `vary` for ratios"
    common, unmatched = find_common(groups, remedy)
    names = select_metrics([trial.summary for trial in (*replays, *predictions)], metrics)
    pairs = []
    warnings = [
        f"{trial.run.path} is NOT VALID, {'; '.join(trial.summary.findings)}: it tests the model, not a drive."
        for trial in replays
        if not trial.summary.is_valid
    ]
    for label, key in zip(name_configurations(common, groups["measured"]), common, strict=True):
        own, (prediction, *more) = (group[key] for group in groups.values())
        if more:
            problem = f"{prediction.run.path} and {more[0].run.path} predict the same replays"
            raise InputError(problem, "compare each with its own replays")
        warnings += _check_pair(label, own, prediction)
        pairs.append(make_pair(label, own, prediction, names))
    return PredictionCheck(
        runs={side: [str(trial.run.path) for trial in own] for side, own in trials.items()},
        left_out={str(path): reason for path, reason in (left_out | others).items()},
        unmatched=unmatched,
        warnings=list(dict.fromkeys(warnings)),
        doubts=count_doubts([*replays, *predictions]),
        metrics=names,
        pairs=pairs,
        accuracy={name: compute_accuracy(pair.errors[name] for pair in pairs) for name in names},
    )


def _check_pair(name: str, measured: Sequence[Trial], prediction: Trial) -> Iterator[str]:
    """Check that a pair is of the same work; yield reasons to doubt it.

    Raises:
        InputError: the plans differ.
    """
    trials = [*measured, prediction]
    if any(kind_of(trial.run.conditions) == "live" for trial in trials):
        yield f"{name}: objects were placed live, so the prediction may have moved others."
    else:
        check_common_plan(trials)
    if any(trial.summary.provenance.is_cut for trial in trials):
        yield (
            f"{name}: the runs were cut, so each covers another part of the plan, and errors are of own windows:"
            " compare whole runs."
        )
    yield from warn_of_machines({name: measured})
    info = prediction.run.infos[0].prediction
    if info is not None and info.speeds:
        yield f"{name}: predicted with {describe_profile(info)}: no replay was as fast."
    own = conditions_of(prediction)
    unlike = {
        condition: " measured, ".join(format_condition(condition, each.get(condition)) for each in (conditions, own))
        for conditions in map(conditions_of, measured)
        for condition in find_differing(conditions, own)
        if condition in OF_DEVICES and own.get(condition) not in _UNSAID
    }
    if unlike:
        texts = (f"{condition} ({values} predicted)" for condition, values in unlike.items())
        yield f"{name}: the profile is of other conditions: {', '.join(texts)}."


def make_pair(name: str, measured: Sequence[Trial], prediction: Trial, metrics: Sequence[str]) -> PredictedPair:
    """Make a pair with the errors of metrics."""
    info = prediction.run.infos[0].prediction
    assert info is not None, "the run is predicted"
    summaries = [trial.summary for trial in measured]
    return PredictedPair(
        name,
        trace_fingerprint=str(prediction.run.trace_fingerprint),
        measured=[str(trial.run.path) for trial in measured],
        predicted=str(prediction.run.path),
        prediction=info,
        errors={metric: compute_error(summaries, prediction.summary, metric) for metric in metrics},
    )


def compute_error(measured: Sequence[Summary], prediction: Summary, metric: str) -> PredictionError:
    """Compute the error of one metric of a prediction against measured trials."""
    values = [value for trial in measured if (value := trial.numbers.get(metric)) is not None]
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


def tabulate_errors(pairs: Sequence[PredictedPair], metrics: Sequence[str]) -> Table:
    """Return a row for each pair and metric."""
    rows = []
    for pair in pairs:
        for metric in metrics:
            one = pair.errors[metric]
            measured, predicted = map(format_number, (one.measured, one.predicted))
            if one.is_thin:
                measured, predicted = f"({measured})", f"({predicted})"
            span = "" if one.trials < 2 else f"{format_number(one.low)} to {format_number(one.high)}"
            label = heading(metric) if metric in CATALOGUE else metric
            rows.append([pair.name, label, metric, measured, span, predicted, format_error(one.error)])
    heads = ("prediction", "metric", "name", "measured, median", "range of trials", "predicted", "error")
    is_few = any(pair.errors[metric].is_thin for pair in pairs for metric in metrics)
    return Table(
        name="errors",
        title="Measured beside predicted",
        columns=[*map(Column, heads)],
        rows=rows,
        notes=["The error is predicted ÷ measured − 1.", *([NOTE] if is_few else [])],
    )


def format_error(error: float | None) -> str:
    """Format an error with its sign."""
    return ABSENT if error is None else f"{error:+.1%}"


def answer_check(check: PredictionCheck, *, every_metric: bool = False) -> Answer:
    """Make the answer of a check.

    Args:
        check: predictions against measurements.
        every_metric: whether all its metrics are shown if there are several pairs.
    """
    is_single = len(check.pairs) == 1
    metrics = check.metrics
    if not is_single and not every_metric:
        metrics = [name for name in COLUMNS if name in metrics] or metrics[: len(COLUMNS)]
    tables = [tabulate_errors(check.pairs, metrics)]
    if not is_single:
        shares = (Column(head, "share") for head in ("median", "median of |error|", "P90 of |error|"))
        each = ((metric, check.accuracy[metric]) for metric in metrics)
        rows = [[metric, one.median_error, one.median, one.p90] for metric, one in each]
        title = f"Errors of {len(check.pairs)} predictions"
        tables.append(Table(name="accuracy", title=title, columns=[Column("metric"), *shares], rows=rows))
    runs = [f"{side}: {format_count(len(own), 'run')}: {abbreviate_runs(own)}" for side, own in check.runs.items()]
    profiles = dict.fromkeys(describe_profile(pair.prediction) for pair in check.pairs)
    doubts = [list_doubt_kinds(check.doubts, sum(map(len, check.runs.values())))] if check.doubts else []
    records = [
        {
            "pair": pair.name,
            "predicted_run": pair.predicted,
            "profile": pair.prediction.profile,
            "metric": metric,
            "unit": CATALOGUE[metric].unit if metric in CATALOGUE else "",
            "trials": one.trials,
            "measured": one.measured,
            "measured_low": one.low,
            "measured_high": one.high,
            "predicted": one.predicted,
            "error": one.error,
        }
        for pair in check.pairs
        for metric, one in pair.errors.items()
    ]
    return Answer(
        title="Predictions against measurements",
        subject=[
            *runs,
            f"PREDICTED with {' and '.join(profiles)}",
            *(f"LEFT OUT: {path}: {why}" for path, why in check.left_out.items()),
            *(f"UNMATCHED: {why}" for why in check.unmatched),
            *(f"WARNING: {warning}" for warning in check.warnings),
            *doubts,
        ],
        sentence="error: predicted ÷ median of the measured trials − 1",
        tables=tables,
        records=pl.DataFrame(records, infer_schema_length=None),
        data=msgspec.to_builtins(check),
    )
