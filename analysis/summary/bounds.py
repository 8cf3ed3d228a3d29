"""The interval of a prediction, from its bounds: the same run on a slower and a faster system."""

from collections.abc import Callable

from analysis.doubts.doubt import Doubt
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.run_summary import Interval, Metrics
from tracegen.errors import InputError

Measure = Callable[[Run], Metrics]
"""Computes the metrics of an opened run."""


def read_intervals(run: Run, metrics: Metrics, measure: Measure) -> tuple[dict[str, Interval], list[Doubt]]:
    """Read the bounds of a predicted run.

    Args:
        run: a predicted run.
        metrics: its metrics.
        measure: computes those of a bound.

    Returns:
        The least and the greatest value of each metric over the run and its bounds, empty without
        both bounds; and a doubt for each bound that cannot be used.
    """
    info = run.infos[0].prediction
    intervals: dict[str, Interval] = {}
    doubts = list[Doubt]()
    found = list[Metrics]()
    for bound in () if info is None else info.bounds or ():
        try:
            found.append(measure(_open_bound(run, bound)))
        except InputError as error:
            text = f"its interval is unknown: bounds/{bound}: {error.problem.removesuffix('.')}"
            doubts.append(Doubt("bounds", text, "copy the run again with its bounds, or predict it again"))
    if len(found) < 2 or doubts:
        return intervals, doubts
    for name, value in metrics.items():
        ends = [value, *(values.get(name) for values in found)]
        numbers = [end for end in ends if isinstance(end, int | float)]
        if len(numbers) == len(ends):
            intervals[name] = (min(numbers), max(numbers))
    return intervals, doubts


def _open_bound(run: Run, name: str) -> Run:
    """Open a bound of a predicted run.

    Raises:
        InputError: it is missing or damaged, did not end, or is not a bound of this run.
    """
    path = run.path / "bounds" / name
    bound = open_run(path)
    first, other = run.infos[0], bound.infos[0]
    ours, theirs = first.prediction, other.prediction
    is_same = ours is not None and theirs is not None and ours.profile_sha256 == theirs.profile_sha256
    is_own = is_same and theirs is not None and theirs.bound == name
    same_work = (first.trace.fingerprint, first.conditions) == (
        other.trace.fingerprint,
        other.conditions,
    )
    if not is_own or not same_work:
        raise InputError("it is not a bound of this run", "predict it again", subject=path)
    if bound.status != "complete" == run.status:
        raise InputError(f"it is {bound.status}", "predict it again", subject=path)
    return bound
