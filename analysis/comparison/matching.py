"""Matching: runs of several systems that did the same work under the same conditions."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from analysis.comparison.trials import (
    LEADERS,
    ConditionTexts,
    Systems,
    Trial,
    check_common_plan,
    check_varied,
    describe_condition,
    describe_differing,
    drop_followers,
    find_differing,
    is_varied,
    name_condition,
)
from analysis.runs.plan_order import kind_of
from analysis.runs.run import Run
from replayer.schema import CONDITION_GROUPS, TIERS
from tracegen.errors import InputError

# Most characters of a name that a system is given.
LABEL: Final = 24
_TIERS: Final = tuple(f"usable_bytes.{tier}" for tier in TIERS)
_NO_TIERS: Final = [(name, "0") for name in _TIERS]

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A trace's fingerprint, and the conditions except the varied ones."""
Groups = dict[str, dict[Key, list[Trial]]]
"""Trials by system and configuration."""


@dataclass(frozen=True)
class Configuration:
    """A trace and conditions that were replayed on every system.

    Attributes:
        name: what distinguishes it from the other configurations.
        same_plan: whether all systems executed one plan; otherwise the plans differ because of the
            varied conditions.
        trials: the trials by system.
    """

    name: str
    same_plan: bool
    trials: dict[str, list[Trial]]

    @property
    def first(self) -> Run:
        """The first run of the first system, whose trace and load are those of all."""
        return next(iter(self.trials.values()))[0].run

    @property
    def cut(self) -> bool:
        """Whether runs were cut."""
        return any(trial.summary.cut is not None for trial in chain(*self.trials.values()))


def match_configurations(systems: Systems, vary: Sequence[str] = ()) -> tuple[list[Configuration], list[str]]:
    """Find the configurations that every system has.

    Args:
        systems: trials by system, of one system or two.
        vary: conditions that differ between systems on purpose.

    Returns:
        The configurations, and for each run without a match why it has none.

    Raises:
        InputError: no configuration is on every system, or one system mixes what is varied.
    """
    check_varied(vary, systems)
    groups = {system: group_trials(trials, vary) for system, trials in systems.items()}
    common, unmatched = find_common(groups)
    matched = []
    for key, name in name_configurations(common, next(iter(groups.values()))).items():
        trials = {system: group[key] for system, group in groups.items()}
        for system, own in trials.items():
            _check_unmixed(system, own)
        every = [*chain(*trials.values())]
        _check_tiers(every, vary)
        matched.append(Configuration(name, _have_same_plan(every), trials))
    return matched, unmatched


def find_common(groups: Groups, remedy: str = "") -> tuple[list[Key], list[str]]:
    """Return the keys that all groups have, and for each other one why it matches nothing.

    Args:
        groups: of one system or two.
        remedy: what to do if there is no common key; empty for what the first difference suggests.

    Raises:
        InputError: there is no common key.
    """
    first = next(iter(groups.values()))
    common = [key for key in first if all(key in group for group in groups.values())]
    strays = [_explain_stray(groups, own, key) for own, group in groups.items() for key in group if key not in common]
    if not common:
        problem, advice = strays[0]
        raise InputError(problem, remedy or advice)
    return common, [problem for problem, _ in strays]


def group_trials(trials: Iterable[Trial], vary: Sequence[str] = ()) -> dict[Key, list[Trial]]:
    """Group trials by trace and conditions, except the varied ones."""
    groups: dict[Key, list[Trial]] = {}
    for trial in trials:
        fixed = sorted((name, text) for name, text in trial.conditions.items() if not is_varied(name, vary))
        groups.setdefault((str(trial.run.trace_fingerprint), tuple(fixed)), []).append(trial)
    return groups


def _have_same_plan(trials: Sequence[Trial]) -> bool:
    """Return whether trials executed one plan.

    Raises:
        InputError: their plans should be equal, but differ before the end of the shortest run.
    """
    differing = find_differing(*(trial.conditions for trial in trials))
    orders = {kind_of(info.conditions) for trial in trials for info in trial.run.infos}
    plan, load = CONDITION_GROUPS["plan"], CONDITION_GROUPS["load"]
    # Orders but that of the trace depend on the load.
    planned_by = plan if orders == {"trace"} else (*plan, *load)
    # Objects placed live go where the devices were faster, so that plans of trials differ, too.
    if "live" in orders or any(is_varied(condition, planned_by) for condition in differing):
        return False
    check_common_plan(trials)  # equal conditions do not prove it: releases may plan differently
    return True


def _explain_stray(groups: Groups, system: str, key: Key) -> tuple[str, str]:
    """Return why the runs of a system match none of the other's, and what to do."""
    runs = ", ".join(str(trial.run.path) for trial in groups[system][key])
    other = next(name for name in groups if name != system)
    start = f"{runs} ({system}) matches nothing of {other}:"
    values = dict(key[1])
    # The other group that differs the least is the one that was meant.
    near = min(
        (dict(own[1]) for own in groups[other] if own[0] == key[0]),
        key=lambda own: len(find_differing(values, own)),
        default=None,
    )
    if near is None:
        return f"{start} no run of its trace", "replay one trace on both"
    names = drop_followers(find_differing(values, near))
    settings = " ".join(f"`vary={name}`" for name in names)
    told = ", ".join(describe_differing(names, {system: values, other: near}))
    return f"{start} {told}", f"pass {settings} if that is on purpose, or replay one like the other"


def _check_unmixed(system: str, trials: Sequence[Trial]) -> None:
    conditions = [trial.conditions for trial in trials]
    for name in find_differing(*conditions):
        problem = f"{system} mixes runs with {_list_values(name, conditions)}"
        raise InputError(problem, "give each value its own set of runs", subject=name, setting="vary")


def _check_tiers(trials: Sequence[Trial], vary: Sequence[str]) -> None:
    """Check that the conditions of a tier are the same in all runs that have the tier."""
    conditions = [trial.conditions for trial in trials]
    for name, leader in LEADERS.items():
        with_tier = [run for run in conditions if run.get(leader) != "0"]
        if leader.startswith("usable_bytes.") and name not in vary and name in find_differing(*with_tier):
            problem = f"these runs have {_list_values(name, with_tier)}"
            raise InputError(problem, f"pass `vary={name}` if that is on purpose")


def _list_values(name: str, conditions: Sequence[ConditionTexts]) -> str:
    return f"{name} {' and '.join(sorted({describe_condition(name, run.get(name)) for run in conditions}))}"


def name_configurations(keys: Sequence[Key], groups: Mapping[Key, Sequence[Trial]]) -> dict[Key, str]:
    """Name configurations by what distinguishes them; a single one by its main conditions."""
    differing = find_differing(*({"trace": key[0]} | dict(key[1]) for key in keys))
    shown = drop_followers(differing)
    if len(keys) == 1:
        main = ("model", *_TIERS, "workers", "pace")
        shown = [name for name, text in keys[0][1] if name in main and (name, text) not in _NO_TIERS]
    names = {key: _name_key(key, groups, shown) for key in keys}
    if len({*names.values()}) < len(names):  # followers alone tell some apart
        return {key: _name_key(key, groups, differing) for key in keys}
    return names


def _name_key(key: Key, groups: Mapping[Key, Sequence[Trial]], shown: Collection[str]) -> str:
    trace, conditions = key
    parts = []
    if "trace" in shown:
        parts.append(f"{Path(groups[key][0].run.infos[0].trace.path or 'trace').stem} {trace[:8]}")
    # The bytes of a token follow from the model.
    hidden = "bytes_per_token" if "model" in shown else ""
    parts += [name_condition(name, text) for name, text in conditions if name in shown and name != hidden]
    return ", ".join(parts)


def name_sets(sets: Sequence[Sequence[Path]]) -> list[str]:
    """Return a short name for each set of runs that distinguishes it from the others.

    It is what their paths say, else the name of the first run of each, else a number.
    """
    firsts = [f"{runs[0].name} …" for runs in sets]
    numbers = [f"set {number}" for number in range(1, len(sets) + 1)]
    return find_path_names(sets) or (firsts if _are_names(firsts) else numbers)


def find_path_names(sets: Sequence[Sequence[Path]]) -> list[str] | None:
    """Find short names for sets of runs in their paths; None if these do not tell them apart.

    A name is what the names of its runs have in common, else of their folders, else the value in
    the names of cases of a sweep with one list, such as vllm of chat-engine=vllm.
    """
    parents = [[path.absolute().parent for path in runs] for runs in sets]
    top = os.path.commonpath([*chain(*parents)])
    stems = [_find_stem([run.name for run in runs]) for runs in sets]
    folders = [os.path.relpath(os.path.commonpath(own), top) for own in parents]
    values = [name.partition("=")[2] or name for name in folders]
    return next(filter(_are_names, (stems, folders, values)), None)


def _are_names(names: Sequence[str]) -> bool:
    """Return whether names are short, and distinguish what they name."""
    distinct = {*names} - {"", "."}
    return len(distinct) == len(names) and max(map(len, names)) <= LABEL


def _find_stem(names: list[str]) -> str:
    """Return what names begin with, without a number that they share in part: run of run-11 and run-12."""
    # run-11 and run-12 share a digit, which says nothing.
    stem = os.path.commonprefix(names)  # noqa: RUF071 (names are no paths)
    if {*names} != {stem}:
        if any(name[len(stem) :][:1].isdigit() for name in names):
            stem = stem.rstrip("0123456789")
        stem = stem.rstrip("-_. ")
    return stem
