"""Checks of trials: validity, traces, conditions, and that all are replays on one system."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow.parquet as pq

from analysis.submission.claims import PackagedTrial, Trials
from analysis.submission.package_tree import Package, list_ranks
from analysis.submission.rules import find_pin
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import Machine, to_plain

Problems = Iterator[str]

_NO_SYSTEM: Final = ("emulated tier", "throttled tier", "verification off")
"""Kinds of doubts about runs that do not measure the system, not even in OPEN."""


def check_runs(trials: Sequence[PackagedTrial]) -> Problems:
    """Report runs of an option that are not valid, not complete, or did not measure the system."""
    for trial in trials:
        for text in trial.summary.findings:  # every row was read for them
            short = text.replace(f"{trial.path}/", "").replace(str(trial.path), trial.name)
            yield f"{trial.name} is not valid: {short}"
        if any(info.prediction is not None for info in trial.infos):
            yield f"{trial.name} did not measure the system: it was predicted"
        for doubt in trial.summary.doubts:
            if doubt.kind in _NO_SYSTEM:
                yield f"{trial.name} did not measure the system: {doubt.text}"
        for place in list_ranks(trial.path):
            counters = place / "device.parquet"
            if not counters.exists() or not pq.read_metadata(counters).num_rows:
                yield f"{trial.name}/{place.name} has no samples in device.parquet, which records the device's work"


def check_work(package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Report other work: CLOSED pins a trace for each rank, OPEN has one for all trials."""
    for trial in trials:
        option = trial.path.parent.name
        for rank, (info, first) in enumerate(zip(trial.infos, trials[0].infos, strict=False)):
            name = f"{trial.name}/rank_{rank}"
            wanted: str | None = first.trace.fingerprint
            if package.submission.is_closed:
                wanted = find_pin(package.submission.scale, option, rank)
            if wanted is None:
                yield f"{name}: no trace is pinned for this rank; choose OPEN for more ranks"
            elif info.trace.fingerprint != wanted:
                replayed = f"{name} replayed the trace {info.trace.fingerprint[:12]}…"
                yield f"{replayed}, not {wanted[:12]}…, which {option} requires"
            if info.plan_fingerprint != first.plan_fingerprint:
                yield f"{name} followed another plan ({str(info.plan_fingerprint)[:12]}…) than the first trial"


def check_conditions(package: Package, trials: Sequence[PackagedTrial]) -> Problems:
    """Check that CLOSED has the conditions of the rules, and OPEN the same in all trials."""
    option = trials[0].path.parent.name
    first = to_plain(trials[0].infos[0].conditions)
    required, source = first, "the first trial has"
    if package.submission.is_closed:
        fixed = package.submission.rules.find_option(option).closed
        required, source = fixed | {"ranks": first["ranks"]}, "CLOSED fixes"
    for trial in trials:
        for rank, info in enumerate(trial.infos):
            actual = to_plain(info.conditions)
            for name in sorted(actual.keys() | required.keys()):
                if actual.get(name, ...) != required.get(name, ...):
                    ran = f"{trial.name}/rank_{rank} ran with {name} = {_format_value(actual, name)}"
                    yield f"{ran}; {source} {_format_value(required, name)}"


def _format_value(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "nothing"


def check_system(trials: Trials) -> Problems:
    """Report runs of several systems or releases, and trials that are copies of others."""
    opened = [trial for of_option in trials.values() for trial in of_option]
    if not opened:
        return
    for summary in add_shared_doubts([trial.summary for trial in opened]):
        for doubt in summary.doubts:
            if doubt.kind in ("copies", "unlike machines"):
                yield f"trials are not separate replays on one system: {doubt.text}"
    machines = [info.machine or Machine() for trial in opened for info in trial.infos]
    for name, value_of in _SYSTEM.items():
        values = dict.fromkeys(str(value_of(machine)) for machine in machines)
        if len(values) > 1:
            yield f"runs have different {name}: {', '.join(values)}"


def _find_device(machine: Machine) -> object:
    return None if machine.storage is None else machine.storage.device_model


_SYSTEM: Final[dict[str, Callable[[Machine], object]]] = {
    "processors": lambda machine: machine.cpu,
    "devices below the cache": _find_device,
    "releases of this tool": lambda machine: (machine.packages or {}).get("kv-tier-bench"),
}


def check_pauses(package: Package, trials: Trials) -> Problems:
    """Check the pauses of CLOSED between replays of different options, by the runs' clocks."""
    spans = [
        (*trial.span_ns, option) for option, opened in trials.items() for trial in opened if trial.span_ns is not None
    ]
    required_s = package.submission.rules.pause_s if package.submission.is_closed else 0
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        pause_s = (start - end) / 1e9
        if before != after and pause_s < required_s:
            pause = f"{after} began {pause_s:.0f} s after the end of {before}"
            yield f"{pause}; the rules require {required_s:g} s"
