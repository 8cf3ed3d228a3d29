"""Sides of a report: by labels, folders, drives, or systems."""

from dataclasses import replace
from pathlib import Path

from analysis.comparison.trials import load_trials
from analysis.report.systems import Subject, group_sides
from replayer.schema import Storage
from tests.analysis.comparison.crafting import CPU, Craft


def member(path: Path, system: str, label: str | None = None, drive: str = "") -> Subject:
    ((trial,), _) = load_trials([path])
    provenance = trial.summary.provenance
    storage = Storage(device_model=drive) if drive else None
    summary = replace(trial.summary, provenance=replace(provenance, storage=storage))
    return Subject(trial.run, summary, path.name, system, label)


def grid(craft: Craft, side: str, **info: object) -> list[Subject]:
    """Make the runs of a sweep: with and without a CPU tier, two trials each."""
    return [
        member(craft(f"{side}/cpu={cpu}/trial_{n}", conditions=own, plan=f"p{cpu}", **info), f"{side} {cpu}")
        for cpu, own in ((0, {}), (4, CPU))
        for n in (1, 2)
    ]


def names_of(members: list[Subject]) -> dict[str, int]:
    return {name: len(own) for name, own in group_sides(members).items()}


def test_the_folders_of_two_sweeps_are_sides(craft: Craft) -> None:
    assert names_of([*grid(craft, "old"), *grid(craft, "new")]) == {"old": 4, "new": 4}


def test_the_cases_of_one_sweep_are_systems(craft: Craft) -> None:
    assert names_of(grid(craft, "old")) == {"old 0": 2, "old 4": 2}


def test_folders_of_other_loads_are_not_sides(craft: Craft) -> None:
    """Every run of one folder has 4 users and every run of the other 8: nothing is in common."""
    few = grid(craft, "few")
    many = [
        member(craft(f"many/cpu={n}", conditions={"users": 8} | own), f"many {n}") for n, own in enumerate(({}, CPU))
    ]
    assert names_of([*few, *many]) == {"few 0": 2, "few 4": 2, "many 0": 1, "many 1": 1}


def test_labels_are_sides(craft: Craft) -> None:
    runs = [craft(f"run{n}") for n in range(4)]
    labels = ["before", "before", "after", "after"]
    members = [member(run, label, label) for run, label in zip(runs, labels, strict=True)]
    assert names_of(members) == {"before": 2, "after": 2}
    members[0] = replace(members[0], label=None, system="other")
    assert names_of(members) == {"other": 1, "before": 1, "after": 2}


def test_drives_are_sides_if_one_folder_has_all_runs(craft: Craft) -> None:
    members = [
        member(craft(f"run-{name}-{cpu}", conditions=own, plan=f"p{cpu}"), f"{name} {cpu}", drive=name)
        for name in ("Acme 1", "Acme 2")
        for cpu, own in ((0, {}), (4, CPU))
    ]
    assert names_of(members) == {"run-Acme 1": 2, "run-Acme 2": 2}
