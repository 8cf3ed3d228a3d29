"""The sides of a report: which of its systems belong together, by labels, folders or drives."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.comparison.compare import LOAD, list_differing
from analysis.comparison.matching import group_trials
from analysis.comparison.trials import Trial
from analysis.report.labels import name_systems
from analysis.summary.run_summary import Summary


@dataclass(frozen=True)
class Member:
    """A run of a report.

    Attributes:
        path: its directory.
        system: the system that it is a trial of.
        label: the name that the user gave; None without one.
        summary: its summary.
        trial: the run as a trial; None if it is not valid.
    """

    path: Path
    system: str
    label: str | None
    summary: Summary
    trial: Trial | None


def group_sides(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Group runs into sides: by labels, by folders (of two sweeps), by drives, or by systems.

    Folders or drives are sides if that gives configurations that two of them have in common.
    """
    systems = _group(members, [member.system for member in members])
    labels = [member.label for member in members if member.label]
    if len(labels) == len(members) and len(set(labels)) > 1:
        return _group(members, labels)
    top = _find_top([member.path for member in members])
    folders = {run.path: run.path.absolute().relative_to(top).parts[0] for run in members}
    drives = {run.path: _identify_drive(run.summary) for run in members}
    for keys, has_varied in ((folders, True), (drives, False)):
        merged = _merge(members, keys)
        if 1 < len(merged) < len(systems) and _is_matched(merged, has_varied=has_varied):
            facts = [([run.path for run in side], side[0].summary) for side in merged]
            return dict(zip(name_systems(facts, [None] * len(merged)), merged, strict=True))
    return systems


def _group(members: Sequence[Member], names: Sequence[str]) -> dict[str, list[Member]]:
    grouped: dict[str, list[Member]] = {}
    for name, member in zip(names, members, strict=True):
        grouped.setdefault(name, []).append(member)
    return grouped


def _identify_drive(summary: Summary) -> Hashable:
    storage = summary.provenance.storage
    return summary.provenance.machine, storage and storage.device_model


def _find_top(paths: Sequence[Path]) -> Path:
    """Return the folder that contains all runs."""
    first, *others = (path.absolute() for path in paths)
    holds = (all(other.is_relative_to(folder) for other in others) for folder in first.parents)
    return next(folder for folder, is_common in zip(first.parents, holds, strict=True) if is_common)


def _merge(members: Sequence[Member], keys: Mapping[Path, Hashable]) -> list[list[Member]]:
    """Merge runs that have a key or a system in common, in the order of their first runs."""
    merged: list[tuple[set[Hashable], list[Member]]] = []
    for member in members:
        own: set[Hashable] = {("key", keys[member.path]), ("system", member.system)}
        near = [side for side in merged if side[0] & own]
        marks = own.union(*(marks for marks, _ in near))
        runs = [run for _, side in near for run in side]
        merged = [side for side in merged if side not in near]
        merged.append((marks, [*runs, member]))
    order = {member.path: place for place, member in enumerate(members)}
    sides = [sorted(side, key=lambda run: order[run.path]) for _, side in merged]
    return sorted(sides, key=lambda side: order[side[0].path])


def _is_matched(sides: Sequence[Sequence[Member]], *, has_varied: bool) -> bool:
    """Return whether the first side has a configuration in common with another.

    Args:
        sides: the runs of each side.
        has_varied: whether conditions of the system, though not of the load, may differ.
    """
    first, *others = ([member.trial for member in side if member.trial] for side in sides)
    return any(first and other and _have_common(first, other, has_varied) for other in others)


def _have_common(side: Sequence[Trial], other: Sequence[Trial], has_varied: bool) -> bool:
    vary = list_differing([side, other]) if has_varied else []
    is_one_load = LOAD.isdisjoint(vary)
    return is_one_load and not group_trials(side, vary).keys().isdisjoint(group_trials(other, vary))
