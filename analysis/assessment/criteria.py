"""A run against the criteria that kv-cache.py judges by: a diagnostic, not part of a submission."""

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from analysis.assessment.other_tools import Reference, beside, number
from analysis.assessment.other_tools import lines as reference_lines
from analysis.metrics.catalogue import describe
from analysis.summary.run_summary import Metrics, Summary
from tracegen.errors import InputError, format_count

NOTE: Final = "A diagnostic by the criteria of kv-cache.py, not part of a submission."


@dataclass(frozen=True)
class Criterion:
    """A bound on one metric.

    Attributes:
        metric: its name in a summary, and for `--threshold`; the unit is its last part.
        threshold: in the metric's unit; None: the metric is reported, not judged.
        absent: why a run has no such number, so that the criterion does not apply.
    """

    metric: str
    threshold: float | None
    absent: str

    @property
    def relation(self) -> str:
        """How a value that meets the threshold compares with it."""
        return "<" if describe(self.metric).better == "lower" else ">"


PROFILES: Final[dict[str, tuple[Criterion, ...]]] = {
    "latency": (
        Criterion("nvme_write_p95_ms", 500.0, "nothing was written to nvme"),
        Criterion("nvme_read_p95_ms", 200.0, "nothing was read from nvme"),
        Criterion("cpu_write_p95_ms", 150.0, "nothing was written to cpu"),
        Criterion("cpu_read_p95_ms", 150.0, "nothing was read from cpu"),
        Criterion("hit_rate_reuse", 0.3, "nothing was read that a request had not written itself"),
    ),
    "throughput": (Criterion("wall_clock_tok_s", None, "it took no time"),),
}
"""kv-cache.py's criteria, with hit_rate_reuse for its hit rate; a new profile is one entry."""
_USUAL: Final = {criterion.metric: criterion.threshold for criteria in PROFILES.values() for criterion in criteria}


def criteria_of(profile: str, settings: Sequence[str]) -> tuple[Criterion, ...]:
    """A profile's criteria, their thresholds changed by NAME=VALUE settings.

    Raises:
        InputError: a setting names none of them, or its value cannot be a threshold.
    """
    criteria = {criterion.metric: criterion for criterion in PROFILES[profile]}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in criteria:
            near = difflib.get_close_matches(name, criteria, n=1)
            hint = f"did you mean {near[0]}?" if near else f"name one of {', '.join(criteria)}."
            raise InputError(f"--threshold {setting}: profile {profile} has no criterion {name!r}; {hint}")
        criteria[name] = replace(criteria[name], threshold=_threshold(setting, text, share=describe(name).is_share))
    return tuple(criteria.values())


def _threshold(setting: str, text: str, *, share: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (0 <= value <= 1 if share else 0 <= value < math.inf):
        wanted = "a share from 0 to 1" if share else "a number, 0 or more"
        raise InputError(f"--threshold {setting}: {text!r} is not {wanted}; write NAME=VALUE.")
    return value


def assess(metrics: Metrics, criteria: Sequence[Criterion]) -> list[dict[str, Any]]:
    """Each criterion with the run's value and its verdict: met, missed, not judged, or not applicable.

    What a run did not do is not applicable, and never met.
    """
    found = []
    for one in criteria:
        value = metrics[one.metric]
        if value is None:
            verdict = "not applicable"
        elif one.threshold is None:
            verdict = "not judged"
        else:
            met = value < one.threshold if one.relation == "<" else value > one.threshold
            verdict = "met" if met else "missed"
        reason = one.absent if verdict == "not applicable" else None
        bound = {"relation": one.relation, "threshold": one.threshold}
        found.append({"name": one.metric, "value": value, **bound, "verdict": verdict, "reason": reason})
    return found


def report(
    summary: Summary, profile: str, criteria: Sequence[Criterion], references: Sequence[Reference]
) -> dict[str, Any]:
    """A run's assessment as a machine reads it, other benchmarks' results beside it."""
    return {
        "run": summary.run,
        "valid": summary.is_valid,
        "findings": summary.findings,
        "profile": profile,
        "note": NOTE,
        "criteria": assess(summary.metrics, criteria),
        "references": [beside(summary, one) for one in references],
    }


def lines(reports: Sequence[dict[str, Any]]) -> list[str]:
    """Reports for people: what invalidates a run first, then a block for each run, then the references."""
    found = [f"NOT VALID: {one['run']}: {finding}." for one in reports for finding in one["findings"]]
    for one in reports:
        state = "" if one["valid"] else " (NOT VALID: these numbers may be wrong)"
        found += ["", f"{one['run']}: profile {one['profile']}{state}", *map(_line, one["criteria"])]
        found.append(f"  {_tally(one['criteria'])}")
    found += ["", NOTE]
    for one in reports:
        for other in one["references"]:
            found += ["", *reference_lines(one["run"], other)]
    return found[not found[0] :]


def _line(one: dict[str, Any]) -> str:
    bound = "" if one["threshold"] is None else f"{one['relation']} {one['threshold']:g}"
    if (usual := _USUAL[one["name"]]) not in (None, one["threshold"]):
        bound += f" (usually {usual:g})"
    why = f": {one['reason']}" if one["reason"] else ""
    return f"  {one['name']:20}{number(one['value']):>12}  {bound:24}{one['verdict']}{why}"


def _tally(found: list[dict[str, Any]]) -> str:
    verdicts = [one["verdict"] for one in found]
    judged = verdicts.count("met") + verdicts.count("missed")
    tally = (
        f"{verdicts.count('met')} of {format_count(judged, 'criterion', 'criteria')} met"
        if judged
        else "nothing was judged"
    )
    if rest := verdicts.count("not applicable"):
        tally += f", {rest} not applicable"
    open_ones = [one["name"] for one in found if one["verdict"] == "not judged"]
    return tally + (f"; judge by --threshold {open_ones[0]}=VALUE." if open_ones else ".")
