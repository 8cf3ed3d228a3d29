"""The exit codes of the submission commands."""

import json
from pathlib import Path

import pytest

from tests.support.doubts import call
from tests.support.submissions import Open

pytestmark = pytest.mark.usefixtures("tiny")


def test_exit_codes(fresh: Open, tmp_path: Path) -> None:
    package = fresh("alone")
    call("submission", "validate", package.top)
    (package.results / "report.html").write_text("")
    done = call("submission", "validate", package.top, code=1)
    said = done.stdout.splitlines()
    assert said == [
        "results/box/report.html was changed: its size or sha256 differs from manifest.json.",
        f"NOT VALID: {package.top}, system box: 1 problem.",
    ]
    (told,) = json.loads(call("submission", "validate", package.top, "--json", code=1).stdout)
    assert (told["valid"], told["submittable"], told["problems"]) == (False, False, [said[0].removesuffix(".")])
    for place in (tmp_path, tmp_path / "nowhere", package.top / "submission.yaml"):
        done = call("submission", "validate", place, code=2)
        assert f"{place}: no package: there is no results/*/manifest.json" in done.stderr
    package.manifest.write_text("{}")
    done = call("submission", "validate", package.top, code=2)
    assert "manifest.json: not a kv-tier-bench-submission/1 file" in done.stderr
