"""Trials, which are valid runs, and their conditions: which differ, may differ, and how they are shown."""

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import CHECKPOINT_OPS, Conditions, to_plain
from tracegen.errors import InputError
from tracegen.progress import Advance
from tracegen.typed_files import suggest
from views.numbers import format_value


@dataclass(frozen=True, eq=False)
class Trial:
    """A valid run and its summary.

    Attributes:
        run: the opened run directory.
        summary: the metrics of all that the run executed.
    """

    run: Run
    summary: Summary

    @cached_property
    def conditions(self) -> "ConditionTexts":
        """The run's conditions as `write_conditions` writes them."""
        return write_conditions(self.run.conditions)

    @property
    def origin(self) -> Any:
        """Place and time of the run, equal for copies; its path if run.json lacks them."""
        return self.summary.origin or self.run.path.resolve()

    @property
    def machine(self) -> tuple[str, ...]:
        """Host, processor, cores and drive as far as they are known; of a prediction its profile."""
        return tuple(str(part) for part in astuple(self.summary.machine) if part is not None)


Systems = Mapping[str, Sequence[Trial]]
"""Trials by the name of their system."""
ConditionTexts = dict[str, str]
"""The conditions of a run by name, as JSON; each tier's size separately: usable_bytes.cpu."""


def write_conditions(conditions: Conditions) -> ConditionTexts:
    """Write conditions as JSON by name; each tier's size, as requested, separately: usable_bytes.cpu."""
    named = to_plain(conditions)
    for tier, size in named.pop("usable_bytes").items():
        # The headroom is taken off memory only: files need none.
        share = 1.0 if tier == "nvme" else float(named.get("headroom") or 1)
        named[f"usable_bytes.{tier}"] = size and round(size / share)
    return {name: json.dumps(value, sort_keys=True) for name, value in named.items()}


def check_varied(vary: Iterable[str], systems: Systems) -> None:
    """Check that each varied name is a condition of the runs.

    Raises:
        InputError: one is not; the nearest known name is suggested.
    """
    known = {name for own in systems.values() for trial in own for name in trial.conditions} | {"usable_bytes"}
    for name in vary:
        if name not in known:
            remedy = suggest(name, sorted(known))
            raise InputError("not a condition of these runs", remedy, subject=name, setting="vary")


LEADERS: Final = {
    "drain_s": "duration_s",
    "rules": "arrangement",
    "direct": "usable_bytes.nvme",
    "io_engine": "usable_bytes.nvme",
    "gpu_device": "usable_bytes.gpu",
    "gpu_read": "usable_bytes.gpu",
}
"""Conditions that follow from another condition unless they are set; both may vary together.

Conditions of a tier are null in runs without that tier; in all others they must be equal
(`_check_tiers`).
"""


def is_varied(name: str, vary: Iterable[str]) -> bool:
    """Return whether a condition may differ; `usable_bytes` means the sizes of all tiers."""
    names = (name, LEADERS[name]) if name in LEADERS else (name,)
    return any(each == varied or each.startswith(f"{varied}.") for varied in vary for each in names)


def find_differing(*runs: ConditionTexts) -> list[str]:
    """Return the names of the conditions that are not the same in all runs."""
    names = dict.fromkeys(itertools.chain(*runs))
    return [name for name in names if len({conditions.get(name) for conditions in runs}) > 1]


def drop_followers(names: list[str]) -> list[str]:
    """Return names of conditions without those that follow from another one among them."""
    return [name for name in names if LEADERS.get(name) not in names]


def describe_condition(name: str, text: str | None) -> str:
    """Describe a condition's value, given as JSON; None if the run did not record it."""
    if text is None:
        return "not recorded"
    if name.startswith("usable_bytes."):
        return "unlimited" if text == "null" else format_value(int(text) / 2**30, "GiB")
    if name == "order" and text != "null":
        order = json.loads(text)
        words = (order.get(field) for field in ("kind", "name"))
        return " ".join(str(word) for word in words if word is not None)
    return _describe_throttle(text) if name == "throttle" else text.strip('"')


def describe_differing(names: Iterable[str], runs: Mapping[str, ConditionTexts]) -> list[str]:
    """Describe conditions with the value of each system, as "workers 8 (a) against 16 (b)"."""
    texts = []
    for name in names:
        values = (f"{describe_condition(name, run.get(name))} ({system})" for system, run in runs.items())
        label = name.replace("usable_bytes.", "size of ").replace("_", " ")
        texts.append(f"{label} {' against '.join(values)}")
    return texts


def name_condition(name: str, text: str | None) -> str:
    """Format a condition with its name; a model or an arrangement says what it is."""
    value = describe_condition(name, text)
    label = name.removeprefix("usable_bytes.").replace("_", " ")
    return value if name in ("model", "arrangement") else f"{label} {value}"


def _describe_throttle(text: str) -> str:
    """Describe the limits of tiers, given as JSON."""
    limits = [
        f"{tier} {', '.join(f'{format_value(value, _LIMITS.get(key, key))}' for key, value in limit.items() if value)}"
        for tier, limit in (json.loads(text) or {}).items()
    ]
    return "; ".join(limits) or "none"


_LIMITS: Final = {"mib_s": "MiB/s", "latency_us": "µs"}


def load_sets(
    systems: Mapping[str, Sequence[Path]], advance: Advance = lambda _runs: None, accepted: Collection[str] = ()
) -> tuple[dict[str, list[Trial]], dict[Path, str]]:
    """Load the runs of several systems as trials, and leave out those that are not valid.

    Args:
        systems: run directories by the name of their system.
        advance: takes the number of runs read since its last call.
        accepted: kinds of doubt for which a run is not left out, though it is not valid.

    Returns:
        The trials by system, and by path why a run was left out.

    Raises:
        InputError: a path is not a run directory or is named twice in one system, a run is a copy
            of another, or no valid run of a system is left.
    """
    trials: dict[str, list[Trial]] = {}
    left_out: dict[Path, str] = {}
    for system, runs in systems.items():
        check_named_once(runs)
        trials[system] = []
        origins: dict[Any, Path] = {}  # a copied directory would count as a trial that always agrees
        for path in runs:
            run = open_run(path)
            try:
                trial = Trial(run, summarise(path))
                reason = find_fault(run, trial.summary, accepted)
            except InputError as error:  # the log is missing or damaged
                reason = str(error).rstrip(".")
            advance(1)
            if reason:
                left_out[path] = reason
                continue
            trials[system].append(trial)
            first = origins.setdefault(trial.origin, path)
            if first != path:
                problem = f"a copy of {first}, so the two are one trial"
                raise InputError(problem, "name it once, or replay again", subject=path)
        if not trials[system]:
            problem = f"{left_out[runs[0]]}; no valid run is left in its set of {len(runs)}"
            raise InputError(problem, "replay it again", subject=runs[0])
    return trials, left_out


def check_named_once(paths: Sequence[Path]) -> None:
    """Check that no path is named twice.

    Raises:
        InputError: one is, so that one trial would count as two.
    """
    resolved = [path.resolve() for path in paths]
    for number, path in enumerate(paths):
        if resolved[number] in resolved[:number]:
            raise InputError("named twice", "name it once", subject=path)


def find_fault(run: Run, summary: Summary, accepted: Collection[str] = ()) -> str:
    """Return why a run is no trial; empty if it is one.

    Args:
        run: the opened run directory.
        summary: its summary.
        accepted: kinds of doubt for which a run is a trial, though it is not valid.
    """
    # A replay of a memory is no measurement of a drive, but tests a prediction.
    if any(doubt.invalidates and doubt.kind not in accepted for doubt in summary.doubts):
        return "; ".join(summary.findings)
    if any(info.executed_ops is None for info in run.infos):
        return "run.json does not say how many ops were executed"
    return ""


def check_common_plan(trials: Sequence[Trial]) -> None:
    """Check that the trials of one plan executed the same moves up to the end of the shortest.

    Raises:
        InputError: their plans differ before that.
    """
    for infos in itertools.zip_longest(*(trial.run.infos for trial in trials)):
        known = [info for info in infos if info is not None]
        least = min(info.executed_ops or 0 for info in known)
        plans = {info.plan_fingerprint for info in known}
        executed = {(info.executed_ops, info.executed_fingerprint) for info in known}
        # Checkpoints within the shortest run prove that the plans agree so far; none proves nothing.
        checkpoints = [(info.plan.plan_checkpoints or ()) if info.plan else () for info in known]
        chains = {chain[: least // CHECKPOINT_OPS] for chain in checkpoints}
        is_one_plan = len(plans) == 1 and None not in plans
        if len(executed) > 1 and not is_one_plan and (len(chains) > 1 or () in chains):
            raise InputError(
                f"{trials[0].run.path} and {trials[-1].run.path} have different plans within the"
                f" first {max(least, 1):,} ops, though trace and conditions are equal",
                "replay both with one release",
            )
