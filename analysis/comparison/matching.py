"""Matching: runs of several systems that did the same work under the same conditions."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analysis.comparison.conditions import (
    LEADERS,
    Systems,
    check_varied,
    conditions_of,
    drop_followers,
    find_differing,
    format_condition,
    is_varied,
)
from analysis.comparison.intervals import Statistics, summarise_metric
from analysis.comparison.trials import Trial, check_common_plan
from analysis.runs.plan_order import kind_of
from analysis.summary.run_summary import Summary
from replayer.schema import CONDITION_GROUPS, TIERS, Conditions
from tracegen.errors import InputError

LABEL: Final = 24
"""Most characters of a name that a system is given."""
_TIERS: Final = tuple(f"usable_bytes.{tier}" for tier in TIERS)

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A trace's fingerprint, and the conditions except the varied ones."""
Groups = dict[str, dict[Key, list[Trial]]]
"""Trials by system and configuration."""


@dataclass(frozen=True)
class Configuration:
    """A trace and conditions that were replayed on every system.

    Attributes:
        name: what distinguishes it from the other configurations.
        trace: the trace's fingerprint.
        conditions: those of the first system's first run.
        users: number of users replayed; None if run.json does not say.
        cut: whether runs were cut.
        same_plan: whether all systems executed one plan; otherwise the plans differ because of the
            varied conditions.
        trials: the trials by system.
    """

    name: str
    trace: str
    conditions: Conditions
    users: int | None
    cut: bool
    same_plan: bool
    trials: dict[str, list[Trial]]

    @property
    def summaries(self) -> dict[str, list[Summary]]:
        """The summaries of the trials by system."""
        return {system: [trial.summary for trial in own] for system, own in self.trials.items()}

    def values(self, system: str, metric: str) -> list[float | None]:
        """Return a metric of each trial of a system."""
        return [summary.numbers.get(metric) for summary in self.summaries[system]]

    def statistics(self, system: str, metric: str) -> Statistics:
        """Return the statistics of a metric over the trials of a system."""
        return summarise_metric(metric, self.summaries[system])


def match_configurations(
    systems: Systems,
    vary: Sequence[str] = (),
) -> tuple[list[Configuration], list[str]]:
    """Find the configurations that every system has.

    Args:
        systems: trials by system.
        vary: conditions that differ between systems on purpose.

    Returns:
        The configurations, and for each run without a match why it has none.

    Raises:
        InputError: no configuration is on every system, or one system mixes what is varied.
    """
    check_varied(vary, systems)
    groups = {system: group_trials(trials, vary) for system, trials in systems.items()}
    first = next(iter(groups.values()))
    common = [key for key in first if all(key in group for group in groups.values())]
    strays = [
        (system, key)
        for system, group in groups.items()
        for key in group
        if any(key not in other for other in groups.values())
    ]
    if not common:
        raise _no_match(groups, *strays[0])
    for key in common:
        for system, group in groups.items():
            _check_unmixed(system, group[key])
        _check_tiers([trial for group in groups.values() for trial in group[key]], vary)
    matched = [
        make_configuration(name, {system: group[key] for system, group in groups.items()})
        for name, key in zip(name_configurations(common, first), common, strict=True)
    ]
    return matched, [explain_stray(groups, system, key) for system, key in strays]


def match_workloads(systems: Systems, vary: Sequence[str]) -> list[Configuration]:
    """Make a configuration of each system, which replayed a workload of its own.

    Raises:
        InputError: the runs of a system are no trials of each other.
    """
    check_varied(vary, systems)
    for system, trials in systems.items():
        groups = group_trials(trials)
        if len(groups) > 1:
            unlike = "traces" if len({trace for trace, _ in groups}) > 1 else "conditions"
            problem = f"{system} mixes runs with different {unlike}"
            remedy = "give each its own set of runs"
            raise InputError(problem, remedy, subject="workload", setting="by")
    return [make_configuration(system, {system: own}) for system, own in systems.items()]


def group_trials(trials: Iterable[Trial], vary: Sequence[str] = ()) -> dict[Key, list[Trial]]:
    """Group trials by trace and conditions, except the varied ones."""
    groups: dict[Key, list[Trial]] = {}
    for trial in trials:
        fixed = sorted((name, text) for name, text in conditions_of(trial).items() if not is_varied(name, vary))
        groups.setdefault((str(trial.run.trace_fingerprint), tuple(fixed)), []).append(trial)
    return groups


def make_configuration(name: str, systems: Systems) -> Configuration:
    """Make a configuration of its trials.

    Raises:
        InputError: their plans should be equal, but differ before the end of the shortest run.
    """
    trials = [trial for runs in systems.values() for trial in runs]
    differing = find_differing(*map(conditions_of, trials))
    orders = {kind_of(info.conditions) for trial in trials for info in trial.run.infos}
    plan, load = CONDITION_GROUPS["plan"], CONDITION_GROUPS["load"]
    planned_by = plan if orders == {"trace"} else (*plan, *load)
    is_planned_apart = any(is_varied(condition, planned_by) for condition in differing)
    same_plan = "live" not in orders and not is_planned_apart
    if same_plan:
        check_common_plan(trials)
    first = trials[0].run
    return Configuration(
        name,
        trace=str(first.trace_fingerprint),
        conditions=first.conditions,
        users=first.users,
        cut=any(trial.summary.provenance.is_cut for trial in trials),
        same_plan=same_plan,
        trials={system: list(runs) for system, runs in systems.items()},
    )


def _no_match(groups: Groups, system: str, key: Key) -> InputError:
    """Make the error of a run that no other system matches."""
    run = groups[system][key][0].run.path
    other, near = find_nearest(groups, system, key)
    if near is None:
        unlike = next(iter(groups[other].values()))[0].run.path
        return InputError(
            f"{run} and {unlike} replayed different traces",
            "replay one trace on both, or show the workloads next to each other with `by=workload`",
        )
    names = drop_followers(find_differing(dict(key[1]), dict(near[1])))
    settings = " ".join(f"`vary={name}`" for name in names)
    return InputError(
        f"{run} ({system}) and {groups[other][near][0].run.path} ({other}) ran under different"
        f" conditions: {describe_differences(key, near)}",
        f"pass {settings} if that is on purpose, or replay one like the other",
    )


def explain_stray(groups: Groups, system: str, key: Key) -> str:
    """Return why the runs of a system match those of no other."""
    runs = ", ".join(str(trial.run.path) for trial in groups[system][key])
    other, near = find_nearest(groups, system, key)
    why = "no run of its trace" if near is None else describe_differences(key, near)
    return f"{runs} ({system}) matches nothing: {other} has {why}"


def find_nearest(groups: Groups, system: str, key: Key) -> tuple[str, Key | None]:
    """Return a system that lacks a configuration, and its most similar one of the same trace."""
    other = next(name for name, group in groups.items() if name != system and key not in group)
    same_trace = [candidate for candidate in groups[other] if candidate[0] == key[0]]

    def count_differences(candidate: Key) -> int:
        return len(find_differing(dict(key[1]), dict(candidate[1])))

    return other, min(same_trace, key=count_differences, default=None)


def describe_differences(key: Key, other: Key) -> str:
    """Describe the conditions that differ, with both values of each."""
    values = dict(key[1])
    others = dict(other[1])
    return ", ".join(
        f"{name} ({format_condition(name, values.get(name))} against {format_condition(name, others.get(name))})"
        for name in drop_followers(find_differing(values, others))
    )


def _check_unmixed(system: str, trials: Sequence[Trial]) -> None:
    for name in find_differing(*map(conditions_of, trials)):
        values = {format_condition(name, conditions_of(trial).get(name)) for trial in trials}
        raise InputError(
            f"{system} mixes runs with {name} {' and '.join(sorted(values))}",
            "give each value its own set of runs",
            subject=name,
            setting="vary",
        )


def _check_tiers(trials: Sequence[Trial], vary: Sequence[str]) -> None:
    """Check that the conditions of a tier are the same in all runs that have the tier."""
    conditions = [conditions_of(trial) for trial in trials]
    for name, leader in LEADERS.items():
        if not leader.startswith("usable_bytes.") or name in vary:
            continue
        with_tier = [run for run in conditions if run.get(leader) != "0"]
        if name in find_differing(*with_tier):
            values = dict.fromkeys(format_condition(name, run.get(name)) for run in with_tier)
            raise InputError(
                f"these runs have {name} {' and '.join(values)}",
                f"pass `vary={name}` if that is on purpose",
            )


def name_configurations(keys: Sequence[Key], groups: Mapping[Key, Sequence[Trial]]) -> list[str]:
    """Name configurations by what distinguishes them; a single one by its main conditions."""
    main = {"model", *_TIERS, "workers", "pace"}
    shown = main if len(keys) == 1 else _choose_distinguishing(keys)
    if "model" in shown:
        shown.discard("bytes_per_token")
    has_traces = len({key[0] for key in keys}) > 1
    names = []
    for key in keys:
        info = groups[key][0].run.infos[0]
        parts = [f"{Path(info.trace.path or 'trace').stem} {key[0][:8]}"] if has_traces else []
        headroom = dict(key[1]).get("headroom")
        for name, text in key[1]:
            is_absent_tier = len(keys) == 1 and name in _TIERS and text == "0"
            if name in shown and not is_absent_tier:
                label = "" if name == "model" else f"{name.removeprefix('usable_bytes.')} "
                parts.append(label + format_condition(name, text, headroom=headroom))
        names.append(", ".join(parts))
    return names


def _choose_distinguishing(keys: Sequence[Key]) -> set[str]:
    """Return the conditions that differ, without those that only follow from others.

    An engine's rules follow from its name.
    """
    differing = find_differing(*(dict(key[1]) for key in keys))
    leading = set(drop_followers(differing))
    told_apart = {(key[0], *(pair for pair in key[1] if pair[0] in leading)) for key in keys}
    return leading if len(told_apart) == len(keys) else set(differing)


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
    top = os.path.commonpath([folder for own in parents for folder in own])
    stems = [_find_stem([run.name for run in runs]) for runs in sets]
    folders = [os.path.relpath(os.path.commonpath(own), top) for own in parents]
    values = [name.partition("=")[2] or name for name in folders]
    return next(filter(_are_names, (stems, folders, values)), None)


def _are_names(names: Sequence[str]) -> bool:
    """Return whether names are short, and distinguish what they name."""
    distinct = {*names} - {"", "."}
    return len(distinct) == len(names) and max(map(len, names)) <= LABEL


def _find_stem(names: list[str]) -> str:
    """Return what names begin with, without a number that they share in part.

    The stem of run-11 and run-12 is run.
    """
    stem = os.path.commonprefix(names)  # noqa: RUF071 (names are no paths)
    if all(name == stem for name in names):
        return stem
    if any(name[len(stem) :][:1].isdigit() for name in names):
        stem = stem.rstrip("0123456789")
    return stem.rstrip("-_. ")
