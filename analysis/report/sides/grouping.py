"""The sides of a report: which of its systems belong together, by folders or by machines."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.comparison.matching import group_trials, name_sets
from analysis.comparison.trials import Trial
from analysis.report.sides.sides import LOAD, list_differing


@dataclass(frozen=True)
class Member:
    """A run of a report.

    Attributes:
        path: its directory.
        system: the system that it is a trial of.
        trial: the run as a trial; None if it is not valid.
    """

    path: Path
    system: str
    trial: Trial | None


def group_sides(members: Sequence[Member]) -> dict[str, list[Member]]:
    """Group runs into sides: by folders, such as those of two sweeps, by machines, or by systems.

    Folders or machines are sides if that gives configurations that two of them have in common.
    """
    top = _find_top([member.path for member in members])
    folders = {member.path: member.path.absolute().relative_to(top).parts[0] for member in members}
    machines = {member.path: member.trial.machine if member.trial else None for member in members}
    count = len({member.system for member in members})
    for keys, has_varied in ((folders, True), (machines, False)):
        merged = _merge(members, keys)
        if 1 < len(merged) < count and _is_matched(merged, has_varied=has_varied):
            names = name_sets([[member.path for member in side] for side in merged])
            return dict(zip(names, merged, strict=True))
    systems: dict[str, list[Member]] = {}
    for member in members:
        systems.setdefault(member.system, []).append(member)
    return systems


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
