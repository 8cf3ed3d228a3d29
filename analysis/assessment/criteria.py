"""Assessment of runs by the criteria of kv-cache.py: a diagnostic, not part of a submission."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from analysis.metrics.catalogue import describe
from analysis.summary.across_runs import list_doubt_lines
from analysis.summary.run_summary import Summary
from tracegen.errors import InputError, format_count
from tracegen.typed_files import suggest
from views.answer import Answer, Cell, Column, Table

NOTE: Final = "a diagnostic by the criteria of kv-cache.py, not part of a submission"


@dataclass(frozen=True)
class Criterion:
    """A bound on one metric.

    Attributes:
        metric: its name in a summary and for thresholds; the unit is its last part.
        threshold: in the metric's unit; None if the metric is reported, not judged.
        absent: why a run may lack the metric, so that the criterion does not apply.
    """

    metric: str
    threshold: float | None
    absent: str

    @property
    def bound(self) -> str:
        """The comparison that a value must pass to meet the threshold."""
        relation = "<" if describe(self.metric).better == "lower" else ">"
        return "" if self.threshold is None else f"{relation} {self.threshold:g}"

    def judge(self, value: float | None) -> str:
        """Say what becomes of the criterion with a value: met, missed, not judged or not applicable."""
        if value is None:
            return f"not applicable: {self.absent}"
        if self.threshold is None:
            return "not judged"
        is_lower_better = describe(self.metric).better == "lower"
        is_met = value < self.threshold if is_lower_better else value > self.threshold
        return "met" if is_met else "missed"


# kv-cache.py's criteria, its hit rate without decode reads; a new profile is one entry.
PROFILES: Final[dict[str, tuple[Criterion, ...]]] = {
    "latency": (
        Criterion("nvme_write_p95_ms", 500.0, "nothing was written to nvme"),
        Criterion("nvme_read_p95_ms", 200.0, "nothing was read from nvme"),
        Criterion("cpu_write_p95_ms", 150.0, "nothing was written to cpu"),
        Criterion("cpu_read_p95_ms", 150.0, "nothing was read from cpu"),
        Criterion("hit_rate", 0.3, "nothing was read by a prefill"),
    ),
    "throughput": (Criterion("wall_clock_tok_s", None, "it took no time"),),
}


def criteria_of(profile: str, settings: Sequence[str]) -> tuple[Criterion, ...]:
    """Return a profile's criteria, with thresholds replaced by NAME=VALUE settings.

    Raises:
        InputError: a setting names no criterion, or its value cannot be a threshold.
    """
    criteria = {criterion.metric: criterion for criterion in PROFILES[profile]}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in criteria:
            problem = f"profile {profile} has no criterion {name!r}"
            raise InputError(problem, suggest(name, criteria), subject=setting, setting="thresholds")
        criteria[name] = replace(criteria[name], threshold=_threshold(setting, text, share=describe(name).is_share))
    return tuple(criteria.values())


def _threshold(setting: str, text: str, *, share: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 <= value <= 1 if share else 0 <= value < math.inf):
        expected = "a share from 0 to 1" if share else "a number, 0 or more"
        problem = f"{text!r} is not {expected}"
        raise InputError(problem, "write NAME=VALUE", subject=setting, setting="thresholds")
    return value


def assess(summary: Summary, profile: str, criteria: Sequence[Criterion]) -> Answer:
    """Judge a run by a profile's criteria."""
    table = _tabulate(summary, profile, criteria)
    predicted = summary.prediction is not None
    doubts = [doubt for doubt in list_doubt_lines([summary.run], [summary]) if doubt.invalidates]
    return Answer(
        title=f"{summary.run}: profile {profile}" + (", PREDICTED: no machine was measured" if predicted else ""),
        subject=[NOTE],
        state="" if summary.is_valid else "NOT VALID",
        tone="plain" if summary.is_valid else "bad",
        sentence=_count_verdicts(criteria, [str(row[-1]) for row in table.rows]),
        tables=[table],
        doubts=doubts,
        data={"run": summary.run, "valid": summary.is_valid, "predicted": predicted},
    )


def _tabulate(summary: Summary, profile: str, criteria: Sequence[Criterion]) -> Table:
    """Make the table of the criteria, with the usual bounds beside those asked for."""
    rows = list[list[Cell]]()
    for criterion, usual in zip(criteria, PROFILES[profile], strict=True):
        value = summary.metrics[criterion.metric]
        rows.append([criterion.metric, value, criterion.bound, usual.bound, criterion.judge(value)])
    columns = [Column(name) for name in ("criterion", "value", "must be", "usually", "verdict")]
    return Table(name="criteria", title=f"Criteria of profile {profile}", columns=columns, rows=rows)


def _count_verdicts(criteria: Sequence[Criterion], verdicts: Sequence[str]) -> str:
    met, missed, unjudged = (verdicts.count(verdict) for verdict in ("met", "missed", "not judged"))
    text = "nothing was judged"
    if met + missed:
        text = f"{met} of {format_count(met + missed, 'criterion', 'criteria')} met"
    if absent := len(verdicts) - met - missed - unjudged:
        text += f", {absent} not applicable"
    if unjudged:
        text += f"; give a threshold for {criteria[verdicts.index('not judged')].metric} to judge it"
    return f"{text}."
