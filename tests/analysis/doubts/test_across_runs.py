"""Doubts about several runs together: trials that disagree, copies, unlike machines."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.runs.run import Doubt
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.run_summary import Summary
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.summaries import MACHINE, summary_of

pytestmark = pytest.mark.usefixtures("latencies_once")


def kinds(*summaries: Summary) -> list[list[str]]:
    """Return the kinds of the doubts that each summary has next to the others."""
    return [[doubt.kind for doubt in summary.doubts] for summary in add_shared_doubts([*summaries])]


def test_trials_that_disagree() -> None:
    """Of one machine and one configuration, however far each of them came in its window."""
    own = Doubt("short run", "2 s are too short", "replay minutes")
    first, second = add_shared_doubts([summary_of(doubts=[own]), summary_of(wall_clock_tok_s=107.5, executed_ops=6)])
    assert first.doubts == (own, *second.doubts)
    (doubt,) = second.doubts
    assert doubt.kind == "trials disagree"
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=107.2)) == [[], []]
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=500.0, conditions={"model": "n"})) == [[], []]
    assert kinds(summary_of(), summary_of(wall_clock_tok_s=None)) == [[], []]
    assert kinds(summary_of()) == [[]]


def test_systems_that_the_user_names_are_no_trials_of_each_other() -> None:
    summaries = [summary_of(run=str(i), wall_clock_tok_s=speed) for i, speed in enumerate((100.0, 200.0))]
    assert any(doubt.kind == "trials disagree" for doubt in add_shared_doubts(summaries)[0].doubts)
    assert not any(one.doubts for one in add_shared_doubts(summaries, ["old", "new"]))


def test_copies_are_not_trials() -> None:
    """What began at one nanosecond on one host is one run."""
    assert kinds(*[summary_of(zero_ns=[5])] * 2, summary_of(zero_ns=[6])) == [["copies"], ["copies"], []]
    assert kinds(summary_of(zero_ns=[5]), summary_of(zero_ns=[5], machine=replace(MACHINE, host="h2"))) == [[], []]
    assert kinds(*[summary_of(zero_ns=[5, None])] * 2) == [[], []]


def test_runs_on_unlike_machines_are_not_trials() -> None:
    other = summary_of(machine=replace(MACHINE, device="/dev/b"), wall_clock_tok_s=500.0)
    assert kinds(summary_of(), other) == [["unlike machines"]] * 2
    assert kinds(summary_of(), summary_of(machine=replace(MACHINE, host="h2"))) == [[], []]


def test_unequal_work_of_one_trace_is_named(tmp_path: Path) -> None:
    one, other = clean(), clean(cpu_objects=30, nvme_objects=400)
    places = [one.save(tmp_path / "one"), other.save(tmp_path / "other")]
    assert one.info["trace"]["fingerprint"] == other.info["trace"]["fingerprint"]
    assert "different work" in call("summary", *places).stdout
    rows = clean(nvme_objects=400)
    rows.info["conditions"] = one.info["conditions"]
    assert "plan_fingerprint" in call("summary", places[0], rows.save(tmp_path / "alike")).stdout
