"""The settings of a search for users, and the metric that it goes by."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from replayer.experiments import children
from replayer.experiments.prediction import Predictor
from replayer.experiments.user_search import NEAR_PEAK
from replayer.live.figures import Screen
from tracegen.errors import InputError

SearchMode = Literal["qos", "capacity"]

LATENCY: Final = "ttfb_p95_ms"
THROUGHPUT: Final = "steady_nvme_read_gib_s+steady_nvme_write_gib_s"
READ_LATENCY: Final = "nvme_read_p95_ms"


@dataclass(frozen=True)
class SearchSettings:
    """The goal of a search and its limits; series.json of its directory holds these names.

    Attributes:
        trace: to replay.
        mode: qos: the most users that meet the target; capacity: where throughput peaks.
        metric: of `analysis summary`; several joined by + are added.
        target: bound on the metric, in its unit; for qos.
        users: the most to try; None: all of the trace.
        trials: the most per step.
        precision: bisection ends if the bounds are this close, as a share of the lower one.
        duration_s: time limit of a replay.
        flags: of `replayer run`, for every replay.
        near: share of the peak that the fewest users must reach; for capacity.
        predictor: predicts the replays; None: they are made.
    """

    trace: Path
    mode: SearchMode
    metric: str
    target: float
    users: int | None
    trials: int
    precision: float
    duration_s: float
    flags: tuple[str, ...]
    near: float = NEAR_PEAK
    predictor: Predictor | None = None

    def record(self) -> dict[str, object]:
        """Return what series.json holds."""
        settings = {name: value for name, value in vars(self).items() if name != "predictor"}
        if self.predictor is not None:
            settings["prediction"] = self.predictor.row()
        return settings


@dataclass(frozen=True)
class SearchMetric:
    """The metric that a search goes by, as `analysis metrics` describes it.

    Attributes:
        names: of the metrics to add.
        at_most: whether lower is better, so that a target is an upper limit.
        counts: names of the metrics that count the samples of each.
        least: samples that a value must rest on.
    """

    names: tuple[str, ...]
    at_most: bool
    counts: tuple[str, ...]
    least: int


def describe_metric(settings: SearchSettings, display: Screen) -> SearchMetric:
    """Return what analysis says about the metric of a search.

    Raises:
        InputError: no search can go by this metric.
        ChildFailedError: there is no metric with this name.
    """
    names = tuple(settings.metric.split("+"))
    terms = json.loads(children.run_analysis("metrics", "--json", *names, display=display))
    directions = {name: term["better"] for term in terms for name in term["names"]}
    samples = {name: facts for term in terms for name, facts in term["samples"].items()}
    for name in names:
        if directions.get(name) is None:
            problem = "neither higher nor lower values are better"
            raise _bad_metric(name, problem, "name a latency, rate or share")
    lower_is_better = directions[names[0]] == "lower"
    _check_sum(settings, {directions[name] for name in names}, lower_is_better=lower_is_better)
    return SearchMetric(
        names=names,
        at_most=lower_is_better,
        counts=tuple(samples[name]["counted_by"] for name in names if samples[name]["counted_by"]),
        least=max(samples[name]["least"] for name in names),
    )


def _check_sum(settings: SearchSettings, directions: set[str], *, lower_is_better: bool) -> None:
    """Refuse a sum of metrics that has no direction, or whose peak is not the best value."""
    if len(directions) > 1:
        problem = "higher is better for one of them, lower for another"
        raise _bad_metric(settings.metric, problem, "name one of them")
    if settings.mode == "capacity" and lower_is_better:
        problem = "lower is better, and capacity looks for a peak"
        raise _bad_metric(settings.metric, problem, "name a rate")


def _bad_metric(name: str, problem: str, remedy: str) -> InputError:
    return InputError(problem, remedy, setting="metric", subject=name)
