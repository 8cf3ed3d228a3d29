"""The assess command as a user types it."""

import json
import shutil
from pathlib import Path

from analysis.summary.run_summary import Summary
from tests.analysis.assessment.assessing import GOOD, call
from tests.support.command_line import Run


def test_a_run_is_assessed_as_text_and_json(replay: Path, ours: Summary) -> None:
    shown = call(replay).stdout.splitlines()
    assert shown[0] == f"{replay}: profile latency"
    assert [line.split()[0] for line in shown[1:6]] == list(GOOD)
    assert shown[6].strip().endswith("of 5 criteria met.")
    assert shown[-1] == "A diagnostic by the criteria of kv-cache.py, not part of a submission."
    found = json.loads(call(replay, "--json").stdout)
    assert found["valid"] is True
    assert "not part of a submission" in found["note"]
    assert {one["name"]: one["value"] for one in found["criteria"]} == {name: ours.metrics[name] for name in GOOD}
    both = json.loads(call(replay, replay, "--json", "--profile", "throughput").stdout)
    assert [one["criteria"][0]["value"] for one in both] == [ours.metrics["wall_clock_tok_s"]] * 2


def test_a_missed_criterion_is_not_an_error(replay: Path) -> None:
    shown = call(replay, "--threshold", "nvme_read_p95_ms=0").stdout
    assert "< 0 (usually 200)       missed" in shown
    assert "4 of 5 criteria met." in shown
    shown = call(replay, "--profile", "throughput").stdout
    assert "nothing was judged; give a threshold for wall_clock_tok_s to judge it." in shown


def test_an_invalid_run_is_named_first(replay: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(replay, tmp_path / "copy"))
    info = json.loads((copy / "run.json").read_text()) | {"status": "incomplete", "reason": "interrupted"}
    (copy / "run.json").write_text(json.dumps(info))
    shown = call(replay, copy).stdout.splitlines()
    assert shown[0].startswith(f"NOT VALID: {copy}: ")
    assert "interrupted" in shown[0]
    assert f"{copy}: profile latency (NOT VALID: these numbers may be wrong)" in shown
    assert f"{replay}: profile latency" in shown
    found = json.loads(call(copy, "--json").stdout)
    assert (found["valid"], len(found["findings"])) == (False, 1)


def test_the_command_as_typed(run: Run, replay: Path) -> None:
    assert "criteria met." in run("analysis", "assess", replay).stdout
    done = run("analysis", "assess", replay, "--threshold", "nvme_read=1", ok=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean nvme_read_p95_ms?" in done.stderr
