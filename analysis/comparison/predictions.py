"""Predictions against measurements: the error of each metric, over pairs of equal work."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, product
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from analysis.comparison.answer import convert_sets, describe_sets, list_set_doubts
from analysis.comparison.compare import select_metrics
from analysis.comparison.matching import find_common, group_trials, name_configurations
from analysis.comparison.trials import Trial, check_common_plan, describe_differing, find_differing, load_sets
from analysis.comparison.warnings import warn_of_machines
from analysis.doubts.predictions import describe_profile
from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.headlines import heading
from analysis.runs.opening import open_run
from analysis.runs.plan_order import kind_of
from analysis.summary.run_summary import NOTE, Summary, is_thin
from replayer.schema import CONDITION_GROUPS, PredictionInfo
from tracegen.errors import InputError
from tracegen.progress import Advance
from views.answer import Answer, Column, Table
from views.numbers import format_number

# Conditions of the tiers, which a prediction has from its profile; all others are the load's.
_OF_DEVICES: Final = CONDITION_GROUPS["devices"]
# Kinds of doubt that invalidate a run as a measurement of a drive, but not as one of the model.
_ACCEPTED: Final = ("page cache",)
# Values of conditions that a profile does not record, such as how a tier was slowed down.
_UNSAID: Final = (None, "null", "{}", "0", "0.0")
# The metrics that are shown of several pairs, unless others are asked for.
_COLUMNS: Final = (
    "wall_clock_tok_s",
    "nvme_read_gib_s",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
)


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
    """Predictions against measurements.

    Attributes:
        trials: the runs by side, `measured` and `predicted`.
        left_out: by path, why a run was left out.
        unmatched: for each group of runs without a counterpart, why it has none.
        warnings: reasons to doubt the comparison, in sentences.
        metrics: names of the metrics to show.
        pairs: in the order of the measured runs.
    """

    trials: dict[str, list[Trial]]
    left_out: dict[Path, str]
    unmatched: list[str]
    warnings: list[str]
    metrics: list[str]
    pairs: list[PredictedPair]


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
    trials, left_out = load_sets({"measured": measured}, advance, _ACCEPTED)
    predictions, others = load_sets({"predicted": predicted}, advance)
    trials |= predictions
    groups = {side: group_trials(own, _OF_DEVICES) for side, own in trials.items()}
    remedy = "predict the trace of the replay under its settings, or pass `vary` for ratios"
    common, unmatched = find_common(groups, remedy)
    names = select_metrics([trial.summary for trial in chain(*trials.values())], metrics)
    pairs = []
    warnings = [
        f"{trial.run.path} is NOT VALID, {'; '.join(trial.summary.findings)}: it tests the model, not a drive."
        for trial in trials["measured"]
        if not trial.summary.is_valid
    ]
    for key, label in name_configurations(common, groups["measured"]).items():
        # A prediction has no spread, so a second one would be another system.
        own, (prediction, *more) = (group[key] for group in groups.values())
        if more:
            problem = f"{prediction.run.path} and {more[0].run.path} predict the same replays"
            raise InputError(problem, "compare each with its own replays")
        info = prediction.summary.prediction
        assert info is not None, "the run is predicted"
        warnings += _check_pair(label, own, prediction, info)
        pair = PredictedPair(
            label,
            trace_fingerprint=str(prediction.run.trace_fingerprint),
            measured=[str(trial.run.path) for trial in own],
            predicted=str(prediction.run.path),
            prediction=info,
            errors={name: compute_error([trial.summary for trial in own], prediction.summary, name) for name in names},
        )
        pairs.append(pair)
    return PredictionCheck(trials, left_out | others, unmatched, list(dict.fromkeys(warnings)), names, pairs)


def _check_pair(name: str, measured: Sequence[Trial], prediction: Trial, info: PredictionInfo) -> Iterator[str]:
    """Check that a pair is of the same work; yield reasons to doubt it.

    Raises:
        InputError: the plans differ.
    """
    trials = [*measured, prediction]
    if any(kind_of(trial.run.conditions) == "live" for trial in trials):
        yield f"{name}: objects were placed live, so the prediction may have moved others."
    else:
        check_common_plan(trials)
    if any(trial.summary.cut is not None for trial in trials):
        why = "the runs were cut, so each covers another part of the plan, and errors are of own windows"
        yield f"{name}: {why}: compare whole runs."
    yield from warn_of_machines({name: measured})
    if info.speeds:
        yield f"{name}: predicted with {describe_profile(info)}: no replay was as fast."
    # The profile decides the conditions of its devices; a replay under others is not what was predicted.
    own = prediction.conditions
    for other in (trial.conditions for trial in measured):
        known = (each for each in find_differing(other, own) if own.get(each) not in _UNSAID)
        if differing := [each for each in known if each in _OF_DEVICES]:
            told = ", ".join(describe_differing(differing, {"measured": other, "predicted": own}))
            yield f"{name}: the profile is of other conditions: {told}."
            return


def compute_error(measured: Sequence[Summary], prediction: Summary, metric: str) -> PredictionError:
    """Compute the error of one metric of a prediction against measured trials."""
    values = [value for trial in measured if (value := trial.numbers.get(metric)) is not None]
    # The median bears one disturbed trial of three.
    median = statistics.median(values) if values else None
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


def answer_check(check: PredictionCheck, *, every_metric: bool = False) -> Answer:
    """Make the answer of a check.

    Args:
        check: predictions against measurements.
        every_metric: whether all its metrics are shown if there are several pairs.
    """
    metrics = check.metrics
    if len(check.pairs) > 1 and not every_metric:
        metrics = [name for name in _COLUMNS if name in metrics] or metrics[: len(_COLUMNS)]
    records = [
        {
            "pair": pair.name,
            "predicted_run": pair.predicted,
            "profile": pair.prediction.profile,
            "metric": metric,
            "unit": CATALOGUE[metric].unit,
            **asdict(one),
        }
        for pair in check.pairs
        for metric, one in pair.errors.items()
    ]
    frame = pl.DataFrame(records, infer_schema_length=None).drop("is_thin")
    found = {name: msgspec.to_builtins(getattr(check, name)) for name in ("unmatched", "warnings", "metrics", "pairs")}
    return Answer(
        title="Predictions against measurements",
        subject=[
            *describe_sets(check.trials, check.left_out),
            *(f"UNMATCHED: {why}" for why in check.unmatched),
            *(f"WARNING: {warning}" for warning in check.warnings),
        ],
        sentence="error: predicted ÷ median of the measured trials − 1",
        tables=[tabulate_errors(check.pairs, metrics)],
        doubts=list_set_doubts(check.trials),
        records=frame.rename({"low": "measured_low", "high": "measured_high"}),
        data=convert_sets(check.trials, check.left_out) | found,
    )


def tabulate_errors(pairs: Sequence[PredictedPair], metrics: Sequence[str]) -> Table:
    """Return a row for each pair and metric."""
    rows = []
    for pair, metric in product(pairs, metrics):
        one = pair.errors[metric]
        measured, low, high, predicted = map(format_number, (one.measured, one.low, one.high, one.predicted))
        if one.is_thin:
            measured, predicted = f"({measured})", f"({predicted})"
        span = "" if one.trials < 2 else f"{low} to {high}"
        rows.append([pair.name, heading(metric), metric, measured, span, predicted, one.error])
    has_thin = any(pair.errors[metric].is_thin for pair, metric in product(pairs, metrics))
    heads = ("prediction", "metric", "name", "measured, median", "range of trials", "predicted")
    return Table(
        name="errors",
        title="Measured beside predicted",
        columns=[*map(Column, heads), Column("error", "change")],
        rows=rows,
        notes=["The error is predicted ÷ measured − 1.", *([NOTE] if has_thin else [])],
    )
