"""Trials: valid runs of one configuration."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.doubts.predictions import identify_profile
from analysis.runs.opening import open_run
from analysis.runs.run import Run
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import CHECKPOINT_OPS, Machine, RunInfo
from tracegen.errors import InputError
from tracegen.progress import Advance


@dataclass(frozen=True)
class Trial:
    """A valid run and its summary.

    Attributes:
        run: the opened run directory.
        summary: the metrics of all that the run executed.
    """

    run: Run
    summary: Summary

    @property
    def origin(self) -> Any:
        """Place and time of the run, equal for copies; its path if run.json lacks them."""
        return self.summary.provenance.origin or self.run.path.resolve()

    @property
    def machine(self) -> tuple[str, ...]:
        """Host, processor, cores and the device of the nvme tier, as far as they are known.

        The machine of a prediction is its profile.
        """
        info = self.run.infos[0]
        if info.prediction is not None:
            return (identify_profile(info.prediction),)
        machine = info.machine or Machine()
        parts = (machine.host, machine.cpu, machine.cores, info.device)
        return tuple(str(part) for part in parts if part is not None)


def load_sets(
    systems: Mapping[str, Sequence[Path]], advance: Advance = lambda _runs: None
) -> tuple[dict[str, list[Trial]], dict[Path, str]]:
    """Load the trials of several systems; like `load_trials`."""
    trials: dict[str, list[Trial]] = {}
    left_out: dict[Path, str] = {}
    for system, runs in systems.items():
        trials[system], reasons = load_trials(runs, advance)
        left_out |= reasons
    return trials, left_out


def load_trials(
    runs: Sequence[Path],
    advance: Advance = lambda _runs: None,
    accepted: Collection[str] = (),
) -> tuple[list[Trial], dict[Path, str]]:
    """Load runs as trials, and leave out those that are not valid.

    Args:
        runs: run directories of one set.
        advance: takes the number of runs read since its last call.
        accepted: kinds of doubt for which a run is not left out, though it is not valid.

    Returns:
        The trials, and by path why a run was left out.

    Raises:
        InputError: a path is not a run directory or is named twice, a run is a copy of another, or
            no valid run is left.
    """
    trials: list[Trial] = []
    left_out: dict[Path, str] = {}
    resolved: set[Path] = set()
    origins: dict[Any, Path] = {}
    for path in runs:
        if path.resolve() in resolved:
            raise InputError(
                "named twice in one set, but is one trial",
                "name it once",
                subject=path,
            )
        resolved.add(path.resolve())
        trial, reason = _load_trial(path, accepted)
        advance(1)
        if trial is None:
            left_out[path] = reason
            continue
        trials.append(trial)
        first = origins.setdefault(trial.origin, path)
        if first != path:
            raise InputError(
                f"a copy of {first}, so the two are one trial",
                "name it once, or replay again",
                subject=path,
            )
    if not trials:
        path, reason = next(iter(left_out.items()))
        raise InputError(
            f"{reason}; no valid run is left in its set of {len(runs)}",
            "replay it again",
            subject=path,
        )
    return trials, left_out


def _load_trial(path: Path, accepted: Collection[str]) -> tuple[Trial | None, str]:
    """Load a run; return None and the reason if it is not valid."""
    run = open_run(path)
    try:
        summary = summarise(path)
    except InputError as error:  # the log is missing or damaged
        return None, _strip_path(error, path)
    fault = find_fault(run, summary, accepted)
    return (None, fault) if fault else (Trial(run, summary), "")


def find_fault(run: Run, summary: Summary, accepted: Collection[str] = ()) -> str:
    """Return why a run is no trial; empty if it is one.

    Args:
        run: the opened run directory.
        summary: its summary.
        accepted: kinds of doubt for which a run is a trial, though it is not valid.
    """
    if any(doubt.invalidates and doubt.kind not in accepted for doubt in summary.doubts):
        return "; ".join(summary.findings)
    if any(info.executed_ops is None for info in run.infos):
        return "run.json does not say how many ops were executed"
    return ""


def _strip_path(error: InputError, path: Path) -> str:
    """Return what is wrong with a run, without the run's own path."""
    if error.subject is not None and str(error.subject) != str(path):
        return f"{error.subject}: {error.problem}"
    return error.problem.removeprefix(str(path)).lstrip(":/ ")


def check_common_plan(trials: Sequence[Trial]) -> None:
    """Check that the trials of one plan executed the same moves up to the end of the shortest.

    Raises:
        InputError: their plans differ before that.
    """
    for infos in itertools.zip_longest(*(trial.run.infos for trial in trials)):
        known = [info for info in infos if info is not None]
        least = min(info.executed_ops or 0 for info in known)
        if not _agree(known, least):
            raise InputError(
                f"{trials[0].run.path} and {trials[-1].run.path} have different plans within the"
                f" first {max(least, 1):,} ops, though trace and conditions are equal",
                "replay both with one release",
            )


def _agree(infos: Sequence[RunInfo], ops: int) -> bool:
    """Return whether runs executed the same first ops, by their fingerprints and checkpoints."""
    plans = {info.plan_fingerprint for info in infos}
    executed = {(info.executed_ops, info.executed_fingerprint) for info in infos}
    if len(executed) == 1 or (len(plans) == 1 and None not in plans):
        return True
    chains = [
        (() if info.plan is None else info.plan.plan_checkpoints or ())[: ops // CHECKPOINT_OPS] for info in infos
    ]
    return bool(chains[0]) and all(chain == chains[0] for chain in chains)
