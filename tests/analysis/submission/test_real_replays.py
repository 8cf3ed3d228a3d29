"""A submission of real replays, from its sweep to its verdict."""

import json
from pathlib import Path

import pytest

from analysis.submission import begin as beginning
from analysis.submission import package as packaging
from analysis.submission import rules as ruling
from analysis.submission.package_tree import Begun
from analysis.submission.rules import RULES, Option, Rules
from tests.analysis.submission.hand_made.changes import ONE
from tests.support.command_line import Run
from tests.support.doubts import call
from tests.support.run_json import run_json
from tests.support.submissions import trial_of
from tracegen.schema import Trace

GRID = """
[[case]]
name = "option_1"
recipe = "mlperf_option_1"
model = "tiny-1b"
cpu_mem_gb = 1
duration = 1
[case.set]
users = 3
duration_s = 4
"personas.coding.weight" = 0
"personas.document.weight" = 0
"personas.chatbot.context" = [256, 512]
"""


@pytest.mark.usefixtures("charts_that_draw_nothing")
def test_a_submission_from_its_replays_to_its_verdict(run: Run, tmp_path: Path) -> None:
    """Runs of the replayer have the conditions of CLOSED."""
    option = Option("option_1", "real", "tiny-1b", 24576, users=3, cpu_bytes=858993459, allocs=16, duration_s=1)
    work, results, replays = tmp_path / "work", tmp_path / "results", tmp_path / "work" / "replays"
    with pytest.MonkeyPatch.context() as patch:
        changed = ("duration_s=4", "personas.coding.weight=0", "personas.document.weight=0")
        changed = (*changed, "personas.chatbot.context=[256, 512]")
        patch.setitem(RULES, "real", Rules((option,), 1, pause_s=0, submittable=False, settings=changed))
        (tmp_path / "cache").mkdir()
        names = {"organisation": "acme", "system": "box", "division": "closed", "scale": "real"}
        beginning.begin(work, Begun(**names, trials=1), tmp_path / "cache", results)
        (tmp_path / "grid.toml").write_text(GRID)
        places = ["--cache-dir", tmp_path / "cache", "-o", replays]
        run("replayer", "sweep", tmp_path / "grid.toml", "--trials", 1, *places)
        made = [Trace(path).metadata.fingerprint for path in sorted((replays / "traces").glob("*.parquet"))]
        patch.setattr(ruling, "read_pins", lambda: {"real": {"option_1": made}})
        one, *_ = [path.parent for path in replays.glob("option_1/trial_1/**/moves")]
        if not run_json(one)["conditions"]["direct"]:
            pytest.skip("this disk refuses O_DIRECT")
        package = packaging.make_package(work, results)
        (told,) = json.loads(call("submission", "validate", package.top, "--json").stdout)
        assert (told["valid"], told["submittable"]) == (True, False)
    assert b"<html" in (package.results / "report.html").read_bytes()
    assert (trial_of(package, ONE).with_name("log-trial_1.txt")).read_text().startswith("$ ")
    assert list((tmp_path / "cache").iterdir()) == []
