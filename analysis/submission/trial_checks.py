"""Checks of the trials of one option: validity, evidence, ranks, traces, conditions."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from analysis.submission.package_tree import Package, list_ranks, parse_number
from analysis.submission.rules import SEED
from analysis.submission.summary_json import PackagedTrial, name_trial
from replayer.schema import RunInfo, to_plain

Problems = Iterator[str]

RECORDED: Final = (
    "executed_ops",
    "executed_fingerprint",
    "clock.zero_ns",
    "warmup",
    "window",
    "started",
    "machine.host",
    "machine.cpu",
    "machine.packages",
    "machine.code_sha256",
    "machine.core_sha256",
    "payload_nonce",
    "plan.plan_fingerprint",
    "trace.counts",
)
"""Fields that this release writes to each run.json: other checks need them."""
_NO_SYSTEM: Final = ("emulated tier", "throttled tier", "verification off")
"""Kinds of doubts about runs that do not measure the system, not even in OPEN."""


def check_trials(package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Report everything that is wrong with the trials of an option.

    Args:
        package: the package.
        trials: the trials of one option of its rules, at least one.
    """
    for check in CHECKS:
        yield from check(package, trials)


def _check_valid(_package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Report invalidating doubts; every row was read for them."""
    for trial in trials:
        name = name_trial(trial)
        for text in trial.summary.findings:
            short = text.replace(f"{trial.path}/", "").replace(str(trial.path), name)
            yield f"{name} is not valid: {short}"


def _check_evidence(_package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Check that each rank has every field and file that a replay leaves."""
    for trial in trials:
        name = name_trial(trial)
        for rank, info in enumerate(trial.infos):
            for dotted in RECORDED:
                if not _is_recorded(info, dotted):
                    yield f"{name}/rank_{rank}: run.json lacks {dotted}"
        for place in list_ranks(trial.path):
            if not (place / "device.parquet").exists():
                run = f"{name}/{place.name}"
                yield f"{run} has no device.parquet, which records the work of the device"


def _is_recorded(info: RunInfo, dotted: str) -> bool:
    value: Any = info
    for name in dotted.split("."):
        value = getattr(value, name, None)
    return value is not None


def _check_system_measured(_package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Report predictions, and tiers that stand in for the system's; OPEN allows none either."""
    for trial in trials:
        if any(info.prediction is not None for info in trial.infos):
            yield f"{name_trial(trial)} did not measure the system: it was predicted"
        for kind in _NO_SYSTEM:
            for doubt in trial.summary.doubts:
                if doubt.kind == kind:
                    yield f"{name_trial(trial)} did not measure the system: {doubt.text}"


def _check_ranks(_package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Check that rank r is a client of its own, whose trace has the seed 42 + r."""
    for trial in trials:
        ranks = zip(list_ranks(trial.path), trial.infos, strict=False)
        for rank, (place, info) in enumerate(ranks):
            name = f"{name_trial(trial)}/{place.name}"
            if info.trace.seed != SEED + rank:
                yield f"{name} has a trace with the seed {info.trace.seed}, not {SEED + rank}"
            if (info.rank or 0) != rank:
                yield f"{name}: run.json says that it is rank {info.rank}"


def _check_traces(package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Check that CLOSED has the pinned traces, and OPEN one trace and plan per rank."""
    first = f"trial {parse_number(trials[0].path)}"
    for trial in trials:
        for rank, (info, other) in enumerate(zip(trial.infos, trials[0].infos, strict=False)):
            name = f"{name_trial(trial)}/rank_{rank}"
            fingerprint = info.trace.fingerprint
            if package.submission.is_closed:
                yield from _check_pin(package, trial, rank, name)
            elif fingerprint != other.trace.fingerprint:
                yield f"{name} replayed another trace ({fingerprint[:12]}…) than {first}"
            plan = info.plan_fingerprint
            if plan != other.plan_fingerprint:
                yield f"{name} followed another plan ({str(plan)[:12]}…) than {first}"


def _check_pin(package: Package, trial: PackagedTrial, rank: int, name: str) -> Problems:
    rules = package.submission.rules
    option = trial.path.parent.name
    fingerprint = trial.infos[rank].trace.fingerprint
    pin = rules.find_pin(option, rank)
    if pin is None:
        yield f"{name}: traces are pinned for {rules.ranks} ranks only; choose OPEN for more"
    elif fingerprint != pin:
        pinned = f"{pin[:12]}…, which {option} pins"
        yield f"{name} replayed the trace {fingerprint[:12]}…, not {pinned}"


def _check_conditions(package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Check that CLOSED has the conditions of the rules, and OPEN the same in all trials."""
    option = trials[0].path.parent.name
    required = package.submission.rules.find_option(option).closed
    source = "CLOSED fixes"
    if not package.submission.is_closed:
        required = to_plain(trials[0].infos[0].conditions)
        source = "the first trial has"
    for trial in trials:
        for rank, info in enumerate(trial.infos):
            run = f"{name_trial(trial)}/rank_{rank}"
            for name, actual, wanted in _find_unequal(to_plain(info.conditions), required):
                yield f"{run} ran with {name} = {actual}; {source} {wanted}"


def _find_unequal(
    conditions: Mapping[str, Any],
    required: Mapping[str, Any],
) -> Iterator[tuple[str, str, str]]:
    """Find conditions that differ; yield the name and both values as text."""
    for name in sorted((conditions.keys() | required.keys()) - {"ranks"}):
        if conditions.get(name, ...) != required.get(name, ...):
            yield name, _format_value(conditions, name), _format_value(required, name)


def _format_value(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "nothing"


CHECKS: Final[tuple[Callable[[Package, Sequence[PackagedTrial]], Problems], ...]] = (
    _check_valid,
    _check_evidence,
    _check_system_measured,
    _check_ranks,
    _check_traces,
    _check_conditions,
)
