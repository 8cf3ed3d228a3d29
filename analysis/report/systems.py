"""The systems of a report: which runs belong together, by labels, folders or drives, and their names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Final

import polars as pl

from analysis.comparison.compare import LOAD, list_differing
from analysis.comparison.matching import find_path_names, group_trials
from analysis.comparison.trials import Trial, find_fault, name_condition, write_conditions
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS
from tracegen.errors import InputError, escape_controls, quote_value

LONGEST: Final = 28
"""Most characters of a name; legends have no room for more."""
_UNTOLD: Final = re.compile(r"((run|trial|replay|test|out|output|result|bench)s?)?[-_. ]*\d*|.*=.*", re.IGNORECASE)
"""Names of directories that say nothing about a system, and names of a sweep's cases."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that neither XML nor a line of text may hold; undecodable bytes are surrogates."""


@dataclass(frozen=True, eq=False)
class Subject(Trial):
    """A run in a report, valid or not.

    Attributes:
        name: short and unique.
        system: name of its configuration on its machine, which trials share.
        label: the name that the user gave its system; None without one.
        tables: the tables of TABLES by name; empty if the whole run is warm-up.
        moments: the end of the warm-up and the cut, in s since the first move after the warm-up.
    """

    name: str = ""
    system: str = ""
    label: str | None = None
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    moments: dict[str, float] = field(default_factory=dict)

    @property
    def is_trial(self) -> bool:
        """Whether it may be compared."""
        return not find_fault(self.run, self.summary)

    @property
    def drive(self) -> str | None:
        """The model of its drive; None if it is not known."""
        storage = self.summary.provenance.storage
        return None if storage is None else storage.device_model


def check_text(text: str, setting: str) -> None:
    """Check that a text can stand on one line of a page and in a chart.

    Raises:
        InputError: it has control characters, which no chart can hold.
    """
    if _CONTROL.search(text):
        problem, remedy = "has a control character or a line break", "leave it out"
        raise InputError(problem, remedy, subject=quote_value(text), setting=setting)


def parse_label(text: str) -> tuple[str, str]:
    """Split NAME=DIRECTORY.

    Raises:
        InputError: it has another form, or the name is too long or has control characters.
    """
    name, _, place = text.partition("=")
    name = name.strip()
    if not (name and place):
        raise InputError("not NAME=DIR", "write `label=old=runs/old`", subject=text, setting="label")
    check_text(name, "label")
    if len(name) > LONGEST:
        problem = f"the name has {len(name)} characters, and charts have room for {LONGEST}"
        raise InputError(problem, "shorten it", subject=text, setting="label")
    return name, place


def assign_labels(paths: Sequence[Path], labels: Sequence[tuple[str, str]]) -> list[str | None]:
    """Return the label of each run: that of its directory, of a folder above, or of a pattern.

    Raises:
        InputError: a label names no run, or a run has two.
    """
    assigned: dict[Path, str] = {}
    for name, place in labels:
        folder, subject = Path(place).resolve(), f"{name}={place}"
        own = [path for path in paths if path.resolve().is_relative_to(folder) or fnmatch(str(path), place)]
        if not own:
            problem, remedy = "no run of this report is there", "name its runs as arguments, too"
            raise InputError(problem, remedy, subject=subject, setting="label")
        for path in own:
            if assigned.setdefault(path, name) != name:
                problem = f"{path} is called {assigned[path]}, too"
                raise InputError(problem, "give it one name", subject=subject, setting="label")
    return [assigned.get(path) for path in paths]


def group_runs(runs: Sequence[Subject], names: Sequence[str]) -> dict[str, list[Subject]]:
    """Group runs by the name of each, in the order of their first runs."""
    grouped: dict[str, list[Subject]] = {}
    for name, run in zip(names, runs, strict=True):
        grouped.setdefault(name, []).append(run)
    return grouped


def name_runs(runs: Sequence[Subject]) -> list[str]:
    """Return the name of each run's system: a label, or what tells its configuration apart.

    With a time limit each trial executes as many ops as it can.
    """
    keys = []
    for run in runs:
        provenance = run.summary.provenance
        ops = provenance.executed_ops if provenance.conditions.span.duration_s is None else None
        keys.append(str((run.label, provenance.configuration, ops, provenance.machine, run.drive)))
    groups = group_runs(runs, keys)
    named = dict(zip(groups, name_groups([*groups.values()]), strict=True))
    return [named[key] for key in keys]


def name_groups(groups: Sequence[Sequence[Subject]]) -> list[str]:
    """Return a short name for each group of runs that distinguishes it from the others.

    It is the label of its runs. Groups with one label are told apart by what differs between them,
    and groups without one by what their paths say, or by what differs.
    """
    names = [""] * len(groups)
    labels = [own[0].label for own in groups]
    for label in dict.fromkeys(labels):
        numbers = [number for number, each in enumerate(labels) if each == label]
        own = [groups[number] for number in numbers]
        for number, name in zip(numbers, _tell_apart(own, label), strict=True):
            names[number] = _shorten(escape_controls(name))  # paths may hold any byte
    return list(_number_equal(names))


def _tell_apart(groups: Sequence[Sequence[Subject]], label: str | None) -> list[str]:
    if label is not None and len(groups) == 1:
        return [label]
    paths = find_path_names([[run.run.path for run in own] for own in groups])
    differences = _find_differences([own[0].summary for own in groups])
    if label is not None:
        numbers = [str(number) for number in range(1, len(groups) + 1)]
        return [f"{label}, {each}" for each in differences or paths or numbers]
    if paths and not all(_UNTOLD.fullmatch(name) for name in paths):
        return paths
    return differences or paths or [own[0].run.path.name for own in groups]


def _find_differences(systems: Sequence[Summary]) -> list[str] | None:
    """Name systems by the fewest facts that tell them apart; None if no facts do."""
    facts = [_list_facts(summary) for summary in systems]
    names = dict.fromkeys(name for own in facts for name in own)
    columns = [[own.get(name, "") for own in facts] for name in names]
    differing = [column for column in columns if len(set(column)) > 1]
    # Three or more facts are tried only all at once: legends have no room, and subsets are many.
    for count in (1, 2, len(differing)):
        for chosen in combinations(differing, min(count, len(differing))):
            joined = [", ".join(filter(None, texts)) for texts in zip(*chosen, strict=True)]
            if len(set(joined)) == len(facts) > 1:
                return joined
    return None


def _list_facts(summary: Summary) -> dict[str, str]:
    """Return what may distinguish a system, in words, the most telling first."""
    provenance = summary.provenance
    storage, machine = provenance.storage, provenance.machine
    texts = write_conditions(provenance.conditions)
    sizes = [f"usable_bytes.{tier}" for tier in ("cpu", *TIERS)]
    return {
        "profile": summary.describe_profile(),
        "drive": "" if storage is None else storage.device_model or "",
        "device": "" if storage is None else storage.device or "",
        "file system": "" if storage is None else storage.filesystem or "",
        **{name: name_condition(name, texts[name], texts.get("headroom")) for name in dict.fromkeys((*sizes, *texts))},
        "cpu": machine.cpu or "",
        "host": machine.host or "",
    }


def _shorten(name: str) -> str:
    """Return a name of LONGEST characters at most, without its middle if it is longer."""
    half = (LONGEST - 1) // 2
    return name if len(name) <= LONGEST else f"{name[:half]}…{name[half + 1 - LONGEST :]}"


def _number_equal(names: Sequence[str]) -> Iterator[str]:
    """Yield names, with numbers after those that came before."""
    seen: set[str] = set()
    for name in names:
        free = name
        number = 2
        while free in seen:
            free, number = f"{name} ({number})", number + 1
        seen.add(free)
        yield free


def group_sides(runs: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Group runs into sides: by labels, by folders (of two sweeps), by drives, or by systems.

    Folders or drives are sides if that gives configurations that the first has in common with
    another, and if no system is in two of them.
    """
    systems = group_runs(runs, [run.system for run in runs])
    labels = [run.label for run in runs if run.label]
    if len(labels) == len(runs) and len(set(labels)) > 1:
        return group_runs(runs, labels)
    places = [run.run.path.absolute() for run in runs]
    top = next(top for top in places[0].parents if all(place.is_relative_to(top) for place in places))
    folders = [place.relative_to(top).parts[0] for place in places]
    drives = [str((run.summary.provenance.machine, run.drive)) for run in runs]
    for keys, has_varied in ((folders, True), (drives, False)):
        sides = [*group_runs(runs, keys).values()]
        is_split = sum(len({run.system for run in side}) for side in sides) > len(systems)
        if 1 < len(sides) < len(systems) and not is_split and _is_matched(sides, has_varied=has_varied):
            return dict(zip(name_groups(sides), sides, strict=True))
    return systems


def _is_matched(sides: Sequence[Sequence[Subject]], *, has_varied: bool) -> bool:
    """Return whether the first side has a configuration in common with another.

    Args:
        sides: the runs of each side.
        has_varied: whether conditions of the system, though not of the load, may differ.
    """
    # Sides whose runs never meet would replace systems that do by a comparison of nothing.
    first, *others = ([run for run in side if run.is_trial] for side in sides)
    for other in others:
        vary = list_differing([first, other]) if has_varied else []
        if LOAD.isdisjoint(vary) and not group_trials(first, vary).keys().isdisjoint(group_trials(other, vary)):
            return True
    return False
