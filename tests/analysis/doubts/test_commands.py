"""The exit codes of check, and where a summary names what makes a run invalid."""

import json
from pathlib import Path

import pytest

from tests.support.crafted_runs import clean
from tests.support.doubts import call

pytestmark = pytest.mark.usefixtures("latencies_once")


def test_the_exit_code_of_check_is_1_if_a_run_is_not_valid(tmp_path: Path) -> None:
    good, bad = clean(60), clean(60)
    bad.info["status"] = "incomplete"
    places = [good.save(tmp_path / "good"), bad.save(tmp_path / "bad")]
    call("check", places[0], places[0])
    told = json.loads(call("check", *places, "--json", code=1).stdout)
    assert [(one["run"], one["valid"]) for one in told] == [(str(places[0]), True), (str(places[1]), False)]
    flags = [doubt["invalidates"] for doubt in told[1]["doubts"]]
    assert flags == sorted(flags, reverse=True), "those that invalidate come first"
    done = call("check", places[0], tmp_path / "none", code=2)
    assert done.stdout == "", "nothing half-computed"
