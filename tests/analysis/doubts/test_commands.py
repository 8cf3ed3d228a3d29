"""The exit codes of check, and where a summary names what makes a run invalid."""

import json
from pathlib import Path

import pytest

from analysis.summary.summary import summarise
from tests.support.crafted_runs import clean
from tests.support.doubts import call, counted, put

pytestmark = pytest.mark.usefixtures("latencies_once")


def test_the_exit_code_of_check_is_1_if_a_run_is_not_valid(tmp_path: Path) -> None:
    good, bad = clean(60), clean(60)
    bad.info["status"] = "incomplete"
    places = [good.save(tmp_path / "good"), bad.save(tmp_path / "bad")]
    call("check", places[0], places[0])
    told = json.loads(call("check", *places, "--json", code=1).stdout)
    assert [(one["run"], one["valid"]) for one in told] == [(str(places[0]), True), (str(places[1]), False)]
    (one,) = [doubt for doubt in told[1]["doubts"] if doubt["invalidates"]]
    assert set(one) == {"kind", "text", "advice", "invalidates"}
    done = call("check", places[0], tmp_path / "none", code=2)
    assert done.stdout == "", "nothing half-computed"


def test_invalidating_doubts_come_first(tmp_path: Path) -> None:
    run = clean(60)
    counted(run, read=0.1)
    put(run.info, "executed_ops", 5)
    flags = [doubt["invalidates"] for doubt in summarise(run.save(tmp_path / "run")).to_json()["doubts"]]
    assert flags == sorted(flags, reverse=True)
    assert flags.count(True) > 1
    assert flags.count(False) > 1
