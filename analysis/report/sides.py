"""The runs of a report, and its sides: which belong together, by labels, folders or drives."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from analysis.comparison.compare import LOAD, list_differing
from analysis.comparison.matching import group_trials
from analysis.comparison.trials import Trial, find_fault
from analysis.report.labels import name_systems
from analysis.runs.run import Run
from analysis.summary.run_summary import Summary


@dataclass(frozen=True, eq=False)
class Subject:
    """A run in a report.

    Attributes:
        path: its directory.
        run: its opened directory.
        summary: its summary.
        name: short and unique.
        system: name of its configuration on its machine, which trials share.
        label: the name that the user gave its system; None without one.
        tables: the tables of TABLES by name; empty if the whole run is warm-up.
        moments: the end of the warm-up and the cut, in s since the first move after the warm-up.
    """

    path: Path
    run: Run
    summary: Summary
    name: str = ""
    system: str = ""
    label: str | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)

    @property
    def trial(self) -> Trial | None:
        """The run as a trial; None if it is not valid."""
        is_faulty = find_fault(self.run, self.summary)
        return None if is_faulty else Trial(self.run, self.summary)

    def without_tables(self) -> "Subject":
        """Return the run as if all of it were warm-up, so that no chart shows it."""
        return replace(self, tables={})


def group_sides(runs: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Group runs into sides: by labels, by folders (of two sweeps), by drives, or by systems.

    Folders or drives are sides if that gives configurations that two of them have in common.
    """
    systems = _group(runs, [run.system for run in runs])
    labels = [run.label for run in runs if run.label]
    if len(labels) == len(runs) and len(set(labels)) > 1:
        return _group(runs, labels)
    top = _find_top([run.path for run in runs])
    folders = {run: run.path.absolute().relative_to(top).parts[0] for run in runs}
    drives = {run: _identify_drive(run.summary) for run in runs}
    for keys, has_varied in ((folders, True), (drives, False)):
        merged = _merge(runs, keys)
        if 1 < len(merged) < len(systems) and _is_matched(merged, has_varied=has_varied):
            facts = [([run.path for run in side], side[0].summary) for side in merged]
            return dict(zip(name_systems(facts, [None] * len(merged)), merged, strict=True))
    return systems


def _group(runs: Sequence[Subject], names: Sequence[str]) -> dict[str, list[Subject]]:
    grouped: dict[str, list[Subject]] = {}
    for name, run in zip(names, runs, strict=True):
        grouped.setdefault(name, []).append(run)
    return grouped


def _identify_drive(summary: Summary) -> Hashable:
    storage = summary.provenance.storage
    return summary.provenance.machine, storage and storage.device_model


def _find_top(paths: Sequence[Path]) -> Path:
    """Return the folder that contains all runs."""
    first, *others = (path.absolute() for path in paths)
    common = (top for top in first.parents if all(other.is_relative_to(top) for other in others))
    return next(common)


def _merge(runs: Sequence[Subject], keys: Mapping[Subject, Hashable]) -> list[list[Subject]]:
    """Merge runs that have a key or a system in common, in the order of their first runs."""
    merged: list[tuple[set[Hashable], list[Subject]]] = []
    for run in runs:
        own: set[Hashable] = {("key", keys[run]), ("system", run.system)}
        near = [side for side in merged if side[0] & own]
        marks = own.union(*(marks for marks, _ in near))
        joined = [other for _, side in near for other in side]
        merged = [side for side in merged if side not in near]
        merged.append((marks, [*joined, run]))
    order = {run: place for place, run in enumerate(runs)}
    sides = [sorted(side, key=order.__getitem__) for _, side in merged]
    return sorted(sides, key=lambda side: order[side[0]])


def _is_matched(sides: Sequence[Sequence[Subject]], *, has_varied: bool) -> bool:
    """Return whether the first side has a configuration in common with another.

    Args:
        sides: the runs of each side.
        has_varied: whether conditions of the system, though not of the load, may differ.
    """
    first, *others = ([run.trial for run in side if run.trial] for side in sides)
    return any(first and other and _have_common(first, other, has_varied) for other in others)


def _have_common(side: Sequence[Trial], other: Sequence[Trial], has_varied: bool) -> bool:
    vary = list_differing([side, other]) if has_varied else []
    is_one_load = LOAD.isdisjoint(vary)
    return is_one_load and not group_trials(side, vary).keys().isdisjoint(group_trials(other, vary))
