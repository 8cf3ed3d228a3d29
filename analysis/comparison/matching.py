"""Matching: which runs of several sides did the same work under the same conditions, and where the others differ."""

import difflib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analysis.comparison.trials import Statistics, Trial, check_prefix, statistics
from analysis.log.plan_order import kind_of
from analysis.summary.run_summary import Summary
from replayer.schema import TIERS, Conditions, to_plain
from tracegen.errors import InputError

LABEL: Final = 24  # characters of a side's name
_TIERS: Final = tuple(f"usable_bytes.{tier}" for tier in TIERS)
_PLANNED_BY: Final = (
    *("model", "bytes_per_token", "usable_bytes", "headroom", "arrangement", "promote", "lookup"),
    *("decode", "users", "part", "cycles", "ranks", "order", "placement"),
)
"""Conditions that a plan follows from, with the trace."""
_ORDERED_BY: Final = (
    *("pace", "speedup", "token_ms", "prefill_tok_s", "workers", "request_depth", "max_concurrent_allocs"),
    *("window_ops", "window_bytes"),
)
"""The load, which a plan follows from, too, unless it was made in the order of the trace."""

Sides = Mapping[str, Sequence[Trial]]
ConditionTexts = dict[str, str]
"""The conditions of a run by name, as JSON; the tiers' sizes one by one: usable_bytes.cpu."""
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A trace's fingerprint, and conditions without the varied ones."""


@dataclass(frozen=True)
class Configuration:
    """A trace under conditions, replayed on every side.

    Attributes:
        name: what tells it from the other configurations.
        trace: the trace's fingerprint.
        conditions: as the first side's first run has them.
        users: how many users were replayed; None where run.json does not say.
        cut: whether runs were cut in time: each is judged over its own window, by what moved inside it.
        same_plan: whether one plan was executed on all sides; else it follows from what is varied that plans differ.
        summaries: the trials' metrics by side.
    """

    name: str
    trace: str
    conditions: Conditions
    users: int | None
    cut: bool
    same_plan: bool
    summaries: dict[str, list[Summary]]

    @property
    def same_tiers(self) -> bool:
        """Whether all sides had equal tiers, filled by one rule: only then a tier's rate is the system's alone."""
        every = [one.provenance.conditions for side in self.summaries.values() for one in side]
        return len({(one.usable_bytes, one.arrangement, one.promote) for one in every}) == 1

    @property
    def recomputes_unequally(self) -> bool:
        """Whether one side's misses cost it more tokens to compute than another's, by more than a hundredth."""
        counts = [[one.metrics.get("recomputed_tokens") or 0 for one in side] for side in self.summaries.values()]
        sums = [sum(of_side) / len(of_side) for of_side in counts]
        return max(sums) - min(sums) > max(sums) / 100

    @property
    def cpu_bytes(self) -> set[int | None]:
        """Usable bytes of the cpu tier on the sides: one number, unless it is varied; None: unlimited."""
        every = [one.provenance.conditions for side in self.summaries.values() for one in side]
        return {one.usable_bytes.cpu for one in every}

    @property
    def cpu_gib(self) -> float | None:
        """Size asked for of the cpu tier, the headroom included; None where it is unlimited, or varied."""
        sizes, headroom = self.cpu_bytes, float(self.conditions.headroom or 1)
        return round((sizes.pop() or 0) / 2**30 / headroom, 3) if len(sizes) == 1 and None not in sizes else None

    def values(self, side: str, metric: str) -> list[float | None]:
        """A metric of each trial."""
        return [summary.numbers.get(metric) for summary in self.summaries[side]]

    def statistics(self, side: str, metric: str) -> Statistics:
        """The statistics of them."""
        return statistics(self.values(side, metric))


_SINCE_2: Final = ("order", "placement", "ops", "drain_s", "io_engine")
"""Conditions that runs of format 1 did not record."""


def conditions_of(trial: Trial) -> ConditionTexts:
    """Return a run's conditions as JSON by name, the tiers' sizes one by one: usable_bytes.cpu."""
    named = to_plain(trial.run.conditions)
    sizes = named.pop("usable_bytes")
    named |= {f"usable_bytes.{tier}": size for tier, size in sizes.items()}
    absent = {name for name in _SINCE_2 if named[name] is None} if trial.run.infos[0].run_version == 1 else ()
    return {name: json.dumps(value, sort_keys=True) for name, value in named.items() if name not in absent}


def check_varied(vary: Iterable[str], sides: Sides) -> None:
    """Every name of `--vary` is one of the runs' conditions.

    Raises:
        InputError: one is not; the nearest known one is named.
    """
    known = {name for trials in sides.values() for trial in trials for name in conditions_of(trial)} | {"usable_bytes"}
    for name in vary:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"name one of {', '.join(sorted(known))}."
            raise InputError(f"--vary {name} is no condition of these runs; {hint}")


_LEADER: Final = {
    "drain_s": "duration_s",
    "direct": "usable_bytes.nvme",
    "io_engine": "usable_bytes.nvme",
    "gpu_device": "usable_bytes.gpu",
    "gpu_read": "usable_bytes.gpu",
}
"""Conditions that follow from another, unless they are set: where that one is varied, so may they.

Those of a tier are null where there is no such tier; where there is, they must be equal (`_check_tiers`).
"""


def is_varied(name: str, vary: Iterable[str]) -> bool:
    """Whether a condition may differ: `usable_bytes` stands for those of all tiers."""
    names = (name, *([_LEADER[name]] if name in _LEADER else []))
    return any(each == one or each.startswith(f"{one}.") for one in vary for each in names)


def match(sides: Sides, vary: Sequence[str] = ()) -> tuple[list[Configuration], list[str]]:
    """The configurations that every side has, and of each other one why it has no match.

    Args:
        sides: trials by side.
        vary: conditions that differ between sides on purpose.

    Raises:
        InputError: no configuration is on every side, or a side mixes what is varied.
    """
    check_varied(vary, sides)
    groups = {side: grouped(trials, vary) for side, trials in sides.items()}
    common = [key for key in next(iter(groups.values())) if all(key in found for found in groups.values())]
    strays = [
        (side, key)
        for side, found in groups.items()
        for key in found
        if any(key not in other for other in groups.values())
    ]
    if not common:
        raise InputError(_no_match(groups, *strays[0]))
    for key in common:
        for side, found in groups.items():
            _check_unmixed(side, found[key])
        _check_tiers([trial for found in groups.values() for trial in found[key]], vary)
    names = _names(common, next(iter(groups.values())))
    matched = [
        configuration(name, {side: found[key] for side, found in groups.items()})
        for name, key in zip(names, common, strict=True)
    ]
    return matched, [_unmatched(groups, side, key) for side, key in strays]


def grouped(trials: Iterable[Trial], vary: Sequence[str] = ()) -> dict[Key, list[Trial]]:
    """Trials of one configuration together: of one trace, under the same conditions but for the varied ones."""
    found: dict[Key, list[Trial]] = {}
    for trial in trials:
        kept = ((name, value) for name, value in conditions_of(trial).items() if not is_varied(name, vary))
        found.setdefault((str(trial.run.trace_fingerprint), tuple(sorted(kept))), []).append(trial)
    return found


def configuration(name: str, sides: Sides) -> Configuration:
    """Trials by side as a configuration.

    Raises:
        InputError: their plans part before the end of the shortest of them.
    """
    trials = [trial for side in sides.values() for trial in side]
    unlike = differing(*map(conditions_of, trials))
    orders = {kind_of(info.conditions) for trial in trials for info in trial.run.infos}
    planned_by = _PLANNED_BY if orders == {"trace"} else (*_PLANNED_BY, *_ORDERED_BY)
    same_plan = "live" not in orders and not any(is_varied(name, planned_by) for name in unlike)
    if same_plan:
        check_prefix(trials)
    first = trials[0].run
    return Configuration(
        name,
        trace=str(first.trace_fingerprint),
        conditions=first.conditions,
        users=first.users,
        cut=any(trial.summary.provenance.is_cut for trial in trials),
        same_plan=same_plan,
        summaries={side: [trial.summary for trial in found] for side, found in sides.items()},
    )


def differing(*conditions: ConditionTexts) -> list[str]:
    """Names of conditions that are not the same in all."""
    names = dict.fromkeys(name for one in conditions for name in one)
    return [name for name in names if len({one.get(name) for one in conditions}) > 1]


def _no_match(groups: dict[str, dict[Key, list[Trial]]], side: str, key: Key) -> str:
    run, (other, near) = groups[side][key][0].run.path, _nearest(groups, side, key)
    if near is None:
        against = next(iter(groups[other].values()))[0].run.path
        return (
            f"{run} and {against} replayed unlike traces; replay one trace on both, or put the workloads side by side"
            " with --by workload."
        )
    flags = " ".join(f"--vary {name}" for name in leading(differing(dict(key[1]), dict(near[1]))))
    return (
        f"{run} ({side}) and {groups[other][near][0].run.path} ({other}) ran under unlike conditions:"
        f" {_differences(key, near)}; pass {flags} where that is on purpose, or replay one as the other."
    )


def _unmatched(groups: dict[str, dict[Key, list[Trial]]], side: str, key: Key) -> str:
    runs = ", ".join(str(trial.run.path) for trial in groups[side][key])
    other, near = _nearest(groups, side, key)
    why = f"{other} has no run of its trace" if near is None else f"{other} has {_differences(key, near)}"
    return f"{runs} ({side}) matches nothing: {why}"


def _nearest(groups: dict[str, dict[Key, list[Trial]]], side: str, key: Key) -> tuple[str, Key | None]:
    """A side that lacks a configuration, and the one of its trace that it has which differs least."""
    other = next(label for label, found in groups.items() if label != side and key not in found)
    alike = [one for one in groups[other] if one[0] == key[0]]
    return other, min(alike, key=lambda one: len(differing(dict(key[1]), dict(one[1]))), default=None)


def _differences(one: Key, other: Key) -> str:
    values, others = dict(one[1]), dict(other[1])
    return ", ".join(
        f"{name} ({shown(name, values.get(name))} against {shown(name, others.get(name))})"
        for name in leading(differing(values, others))
    )


def leading(names: list[str]) -> list[str]:
    """Without those that follow from another one among them."""
    return [name for name in names if _LEADER.get(name) not in names]


def _check_unmixed(side: str, trials: Sequence[Trial]) -> None:
    for name in differing(*map(conditions_of, trials)):
        values = sorted({shown(name, conditions_of(trial).get(name)) for trial in trials})
        raise InputError(
            f"--vary {name}: {side} mixes runs with {' and '.join(values)} of it; give each a set of its own."
        )


def _check_tiers(trials: Sequence[Trial], vary: Sequence[str]) -> None:
    """What is said of a tier is the same wherever there is one, unless it is varied itself."""
    conditions = [conditions_of(trial) for trial in trials]
    for name, leader in _LEADER.items():
        if not leader.startswith("usable_bytes.") or name in vary:
            continue
        having = [one for one in conditions if one.get(leader) != "0"]
        if name in differing(*having):
            values = " and ".join(dict.fromkeys(shown(name, one.get(name)) for one in having))
            raise InputError(f"these runs have {values} for {name}; pass --vary {name} where that is on purpose.")


def _names(keys: Sequence[Key], groups: Mapping[Key, Sequence[Trial]]) -> list[str]:
    """What tells configurations apart: trace, model, conditions; of a single one what matters most."""
    alone = {"model", *_TIERS, "workers", "pace"}
    unlike = set(differing(*(dict(key[1]) for key in keys))) if len(keys) > 1 else alone
    unlike -= {"bytes_per_token"} if "model" in unlike else set()
    several = len({key[0] for key in keys}) > 1
    names = []
    for key in keys:
        info = groups[key][0].run.infos[0]
        parts = [f"{Path(info.trace.path or 'trace').stem} {key[0][:8]}"] if several else []
        for name, value in key[1]:
            if name in unlike and not (len(keys) == 1 and name in _TIERS and value == "0"):
                label = "" if name == "model" else f"{name.removeprefix('usable_bytes.')} "
                parts.append(f"{label}{shown(name, value, headroom=dict(key[1]).get('headroom'))}")
        names.append(", ".join(parts))
    return names


def shown(name: str, value: str | None, headroom: str | None = None) -> str:
    """A condition's value for people; of a tier the size that was asked for, where the headroom is known."""
    if value is None:
        return "not recorded"
    if name.startswith("usable_bytes."):
        share = float(json.loads(headroom or "null") or 1) if name != "usable_bytes.nvme" else 1.0
        return "unlimited" if value == "null" else f"{int(value) / 2**30 / share:.3g} GiB"
    if name == "order" and value != "null":
        order = json.loads(value)
        return " ".join(str(order[part]) for part in ("kind", "name") if order.get(part) is not None)
    return value.strip('"')


def labels(sides: Sequence[Sequence[Path]]) -> list[str]:
    """A short name per side that tells it from the others: what its runs, else its folders, have in common; A, B, …."""
    absolute = [[path.absolute() for path in runs] for runs in sides]
    top = _common_folder(run.parent for runs in absolute for run in runs)
    stems = [_stem([run.name for run in runs]) for runs in absolute]
    folders = [str(_common_folder(run.parent for run in runs).relative_to(top)) for runs in absolute]
    for names in (stems, folders):
        if len(set(names)) == len(names) and not {"", "."} & set(names) and max(map(len, names)) <= LABEL:
            return names
    return [f"{'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[i % 26]}{i // 26 or ''}" for i in range(len(sides))]


def _stem(names: Sequence[str]) -> str:
    """run-11, run-12: run."""
    common = names[0]
    for name in names[1:]:
        common = "".join(
            a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(common, name, strict=False))
        )
    rests = [name[len(common) :] for name in names]
    if any(rest[:1].isdigit() for rest in rests):
        common = common.rstrip("0123456789")
    return common.rstrip("-_. ") if any(rests) else common


def _common_folder(folders: Iterable[Path]) -> Path:
    first, *others = folders
    return next(one for one in (first, *first.parents) if all(other.is_relative_to(one) for other in others))
