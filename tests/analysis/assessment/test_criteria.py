"""kv-cache.py's criteria."""

from typing import Any

import pytest

from analysis.assessment.criteria import PROFILES, criteria_of, judge_criteria
from analysis.summary.run_summary import Summary
from tests.analysis.assessment.assessing import GOOD
from tracegen.errors import InputError


def verdicts(summary: dict[str, Any], profile: str = "latency", *settings: str) -> dict[str, str]:
    return {one.name: one.verdict for one in judge_criteria(summary, criteria_of(profile, settings))}


def test_thresholds_are_strict_bounds() -> None:
    assert set(verdicts(GOOD).values()) == {"met"}
    at = {"nvme_write_p95_ms": 500, "nvme_read_p95_ms": 200, "cpu_write_p95_ms": 150, "cpu_read_p95_ms": 150}
    at |= {"hit_rate": 0.3}
    assert set(verdicts(at).values()) == {"missed"}
    for name in GOOD:
        assert [key for key, verdict in verdicts(GOOD | {name: at[name]}).items() if verdict == "missed"] == [name]


@pytest.mark.parametrize("name", GOOD)
def test_a_criterion_without_a_value_is_never_met(name: str) -> None:
    found = {one.name: one for one in judge_criteria(GOOD | {name: None}, criteria_of("latency", []))}
    assert found[name].verdict == "not applicable"
    assert (found[name].reason or "").startswith("nothing was ")
    assert [one.verdict for other, one in found.items() if other != name] == ["met"] * 4


def test_throughput_is_judged_only_with_a_threshold() -> None:
    summary = {"wall_clock_tok_s": 1000.0}
    assert verdicts(summary, "throughput") == {"wall_clock_tok_s": "not judged"}
    assert verdicts(summary, "throughput", "wall_clock_tok_s=999") == {"wall_clock_tok_s": "met"}
    assert verdicts(summary, "throughput", "wall_clock_tok_s=1000") == {"wall_clock_tok_s": "missed"}
    assert verdicts({"wall_clock_tok_s": None}, "throughput") == {"wall_clock_tok_s": "not applicable"}


def test_the_last_of_several_thresholds_counts() -> None:
    assert verdicts(GOOD, "latency", "nvme_read_p95_ms=1", "nvme_read_p95_ms=1e3")["nvme_read_p95_ms"] == "met"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("nvme_raed_p95_ms=1", "did you mean nvme_read_p95_ms?"),
        ("wall_clock_tok_s=1", "name one of nvme_write_p95_ms"),
        ("=1", "name one of"),
        ("", "name one of"),
        ("nvme_read_p95_ms", "'' is not a number, 0 or more"),
        ("nvme_read_p95_ms=fast", "'fast' is not a number"),
        ("nvme_read_p95_ms=nan", "'nan' is not a number"),
        ("nvme_read_p95_ms=inf", "'inf' is not a number"),
        ("nvme_read_p95_ms=-1", "'-1' is not a number"),
        ("hit_rate=30", "'30' is not a share from 0 to 1"),
    ],
)
def test_impossible_thresholds_are_refused(setting: str, reason: str) -> None:
    with pytest.raises(InputError) as error:
        criteria_of("latency", [setting])
    assert reason in str(error.value)
    assert (error.value.subject, error.value.setting) == (setting, "thresholds")


def test_every_criterion_is_a_metric_of_a_summary(ours: Summary) -> None:
    assert {criterion.metric for criteria in PROFILES.values() for criterion in criteria} <= set(ours.metrics)
