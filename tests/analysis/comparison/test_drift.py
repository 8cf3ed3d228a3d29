"""Machines that were busy, and trials that were not interleaved: what a verdict then says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison import trials as trials_module
from analysis.comparison.sentences import describe_comparison
from analysis.runs.run import Doubt
from analysis.summary.run_summary import MachineName, Summary
from tests.analysis.comparison.crafting import Craft, compare, three

BUSY = Doubt("busy machine", "others kept 1.5 of 2 cores busy", "replay where nothing else runs")
FAST = (2.0, 2.02, 1.98)


@pytest.fixture
def disturb(craft: Craft, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that compares "new" with "old", with disturbed trials and given starts."""

    def run(busy: set[str], starts: dict[str, tuple[int, int, int]], hosts: dict[str, str] | None = None) -> str:
        summarise = trials_module.summarise

        def change(path: Path) -> Summary:
            summary = summarise(path)
            system, _, trial = path.name.partition("-")
            place = starts[system][int(trial)]
            machine = MachineName((hosts or {}).get(system, "h"), "cpu", 2, "/dev/a")
            doubts = (BUSY,) if path.name in busy else ()
            return replace(summary, doubts=doubts, zero_ns=[place], machine=machine)

        monkeypatch.setattr(trials_module, "summarise", change)
        return describe_comparison(compare({"new": three(craft, "new", FAST), "old": three(craft, "old")}))

    return run


APART = {"new": (1, 2, 3), "old": (4, 5, 6)}
MIXED = {"new": (1, 4, 5), "old": (2, 3, 6)}


def test_interleaved_trials_on_a_quiet_machine_need_no_remark(disturb: Any) -> None:
    text = disturb(set(), MIXED)
    assert text.startswith("new is better than old: ")
    assert "interleaved" not in text
    assert "busy" not in text


def test_systems_measured_one_after_the_other_are_qualified(disturb: Any) -> None:
    text = disturb(set(), APART)
    assert text.startswith("new is better than old: ")
    assert "the trials were not interleaved, so a drift of the machine counts as a difference" in text


def test_two_machines_cannot_be_interleaved(disturb: Any) -> None:
    assert "interleaved" not in disturb(set(), APART, {"new": "x", "old": "y"})


def test_one_side_on_a_busy_machine_withholds_the_verdict_and_is_named(disturb: Any) -> None:
    text = disturb({"new-0", "new-1"}, MIXED)
    assert text.startswith(
        "new against old, no verdict (the machine was busy with other work in 2 of 3 trials of new, less so for the other)"
    )
    assert "better" not in text


def test_both_sides_on_a_busy_machine_qualify_it(disturb: Any) -> None:
    text = disturb({"new-0", "new-1", "old-1", "old-2"}, MIXED)
    assert text.startswith("new is better than old: ")
    assert "the machine was busy with other work on both sides" in text


def test_one_busy_trial_of_three_is_not_a_side(disturb: Any) -> None:
    assert "busy" not in disturb({"new-0"}, MIXED)
