"""kv-cache.py's criteria, and the command that judges by them."""

import json
import shutil
from pathlib import Path

import pytest

from analysis.assessment.criteria import PROFILES, Criterion, criteria_of
from analysis.summary.run_summary import Summary
from tests.support.doubts import call
from tracegen.errors import InputError


@pytest.mark.parametrize("criterion", PROFILES["latency"], ids=lambda criterion: criterion.metric)
def test_thresholds_are_strict_bounds(criterion: Criterion) -> None:
    bound = criterion.threshold or 0.0
    better = bound + 0.01 if criterion.metric == "hit_rate" else bound - 0.1
    assert [criterion.judge(value) for value in (better, bound)] == ["met", "missed"]
    assert criterion.judge(None) == f"not applicable: {criterion.absent}"


def test_throughput_is_judged_only_with_a_threshold() -> None:
    (usual,) = PROFILES["throughput"]
    (asked,) = criteria_of("throughput", ["wall_clock_tok_s=1", "wall_clock_tok_s=999"])
    assert usual.judge(1000.0) == "not judged"
    assert [asked.judge(value) for value in (1000.0, 999.0)] == ["met", "missed"]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("nvme_raed_p95_ms=1", "did you mean nvme_read_p95_ms?"),
        ("=1", "one of nvme_write_p95_ms"),
        ("nvme_read_p95_ms=nan", "'nan' is not a number"),
        ("hit_rate=30", "'30' is not a share from 0 to 1"),
    ],
)
def test_settings_that_are_no_thresholds_are_refused(setting: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        criteria_of("latency", [setting])


def test_a_run_is_assessed(replay: Path, ours: Summary) -> None:
    found = json.loads(call("assess", replay, "--json").stdout)
    assert (found["valid"], found["predicted"]) == (True, False)
    rows = found["tables"][0]["rows"]
    names = [criterion.metric for criterion in PROFILES["latency"]]
    assert {row["criterion"]: row["value"] for row in rows} == {name: ours.metrics[name] for name in names}
    both = json.loads(call("assess", replay, replay, "--json", "--profile", "throughput").stdout)
    assert [one["tables"][0]["rows"][0]["value"] for one in both] == [ours.metrics["wall_clock_tok_s"]] * 2


def test_a_missed_criterion_is_not_an_error(replay: Path) -> None:
    found = json.loads(call("assess", replay, "--threshold", "nvme_read_p95_ms=0", "--json").stdout)
    row = found["tables"][0]["rows"][1]
    assert (row["must be"], row["usually"], row["verdict"]) == ("< 0", "< 200", "missed")


def test_an_invalid_run_is_called_so(replay: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(replay, tmp_path / "copy"))
    info = json.loads((copy / "run.json").read_text()) | {"status": "incomplete", "reason": "interrupted"}
    (copy / "run.json").write_text(json.dumps(info))
    found = json.loads(call("assess", copy, "--json").stdout)
    assert (found["state"], found["valid"], len(found["doubts"])) == ("NOT VALID", False, 1)
