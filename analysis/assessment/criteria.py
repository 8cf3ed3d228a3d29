"""Assessment of runs by the criteria of kv-cache.py: a diagnostic, not part of a submission."""

import difflib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from analysis.assessment.match import Match, compare_with, format_value
from analysis.assessment.match import render as render_match
from analysis.assessment.other_tools import Reference
from analysis.metrics.catalogue import describe
from analysis.summary.run_summary import Metrics, Summary
from tracegen.errors import InputError, format_count

NOTE: Final = "A diagnostic by the criteria of kv-cache.py, not part of a submission."


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
    def relation(self) -> str:
        """The comparison that a value must pass to meet the threshold."""
        return "<" if describe(self.metric).better == "lower" else ">"


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
"""kv-cache.py's criteria, its hit rate without decode reads; a new profile is one entry."""
_USUAL: Final = {criterion.metric: criterion.threshold for criteria in PROFILES.values() for criterion in criteria}

Outcome = Literal["met", "missed", "not judged", "not applicable"]


@dataclass(frozen=True)
class Judgement:
    """A criterion and the run's value.

    Attributes:
        name: the metric's name.
        value: the metric's value; None if the run has none.
        relation: how a value that meets the threshold compares with it.
        threshold: in the metric's unit; None if the metric is not judged.
        verdict: what became of the criterion.
        reason: why the criterion does not apply; None if it does.
    """

    name: str
    value: float | None
    relation: str
    threshold: float | None
    verdict: Outcome
    reason: str | None


@dataclass(frozen=True)
class Assessment:
    """The assessment of a run.

    Attributes:
        run: the run directory.
        valid: whether its numbers may be believed.
        predicted: whether it was predicted, so that no machine was judged.
        findings: why the run is not valid.
        profile: name of the criteria.
        note: what the assessment is good for.
        criteria: one judgement for each criterion.
        references: comparisons with results of other benchmarks.
    """

    run: str
    valid: bool
    predicted: bool
    findings: Sequence[str]
    profile: str
    note: str
    criteria: list[Judgement]
    references: list[Match]

    def to_json(self) -> dict[str, Any]:
        """Return the assessment as plain JSON."""
        return asdict(self)


def criteria_of(profile: str, settings: Sequence[str]) -> tuple[Criterion, ...]:
    """Return a profile's criteria, with thresholds replaced by NAME=VALUE settings.

    Raises:
        InputError: a setting names no criterion, or its value cannot be a threshold.
    """
    criteria = {criterion.metric: criterion for criterion in PROFILES[profile]}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in criteria:
            near = difflib.get_close_matches(name, criteria, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"name one of {', '.join(criteria)}"
            raise InputError(
                f"profile {profile} has no criterion {name!r}",
                remedy,
                subject=setting,
                setting="thresholds",
            )
        criteria[name] = replace(criteria[name], threshold=_threshold(setting, text, share=describe(name).is_share))
    return tuple(criteria.values())


def _threshold(setting: str, text: str, *, share: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 <= value <= 1 if share else 0 <= value < math.inf):
        expected = "a share from 0 to 1" if share else "a number, 0 or more"
        raise InputError(
            f"{text!r} is not {expected}",
            "write NAME=VALUE",
            subject=setting,
            setting="thresholds",
        )
    return value


def judge_criteria(metrics: Metrics, criteria: Sequence[Criterion]) -> list[Judgement]:
    """Judge a run's metrics by criteria; a criterion whose metric is None does not apply."""
    return [_judge(metrics[criterion.metric], criterion) for criterion in criteria]


def _judge(value: float | None, criterion: Criterion) -> Judgement:
    verdict: Outcome
    if value is None:
        verdict = "not applicable"
    elif criterion.threshold is None:
        verdict = "not judged"
    else:
        is_below = value < criterion.threshold
        is_above = value > criterion.threshold
        verdict = "met" if (is_below if criterion.relation == "<" else is_above) else "missed"
    return Judgement(
        name=criterion.metric,
        value=value,
        relation=criterion.relation,
        threshold=criterion.threshold,
        verdict=verdict,
        reason=criterion.absent if value is None else None,
    )


def assess(
    summary: Summary, profile: str, criteria: Sequence[Criterion], references: Sequence[Reference]
) -> Assessment:
    """Judge a run by a profile's criteria, and compare it with other benchmarks' results."""
    return Assessment(
        run=summary.run,
        valid=summary.is_valid,
        predicted=summary.prediction is not None,
        findings=summary.findings,
        profile=profile,
        note=NOTE,
        criteria=judge_criteria(summary.metrics, criteria),
        references=[compare_with(summary, reference) for reference in references],
    )


def render(assessments: Sequence[Assessment]) -> str:
    """Return assessments as text: first what invalidates runs, then each run, then the references."""
    lines = [f"NOT VALID: {one.run}: {finding}." for one in assessments for finding in one.findings]
    for one in assessments:
        state = ", PREDICTED: no machine was measured" if one.predicted else ""
        state += "" if one.valid else " (NOT VALID: these numbers may be wrong)"
        lines += ["", f"{one.run}: profile {one.profile}{state}"]
        lines += [*map(_render_judgement, one.criteria), f"  {_count_verdicts(one.criteria)}"]
    lines += ["", NOTE]
    for one in assessments:
        for match in one.references:
            lines += ["", *render_match(one.run, match)]
    return "\n".join(lines).removeprefix("\n")


def _render_judgement(judgement: Judgement) -> str:
    bound = ""
    if judgement.threshold is not None:
        bound = f"{judgement.relation} {judgement.threshold:g}"
    usual = _USUAL[judgement.name]
    if usual not in (None, judgement.threshold):
        bound += f" (usually {usual:g})"
    reason = f": {judgement.reason}" if judgement.reason else ""
    value = format_value(judgement.value)
    return f"  {judgement.name:20}{value:>12}  {bound:24}{judgement.verdict}{reason}"


def _count_verdicts(judgements: Sequence[Judgement]) -> str:
    verdicts = [judgement.verdict for judgement in judgements]
    judged = verdicts.count("met") + verdicts.count("missed")
    text = "nothing was judged"
    if judged:
        text = f"{verdicts.count('met')} of {format_count(judged, 'criterion', 'criteria')} met"
    if absent := verdicts.count("not applicable"):
        text += f", {absent} not applicable"
    without_threshold = [one.name for one in judgements if one.verdict == "not judged"]
    if without_threshold:
        return f"{text}; give a threshold for {without_threshold[0]} to judge it."
    return f"{text}."
