"""Checks that the runs of a package are separate replays on one system with one tool."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Final

from analysis.submission.package_tree import Package, list_ranks, read_json
from analysis.submission.shared_times import find_copies
from analysis.submission.summary_json import PackagedTrial, name_trial
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import Machine, code_digests
from tracegen.errors import InputError

Problems = Iterator[str]
Trials = dict[str, list[PackagedTrial]]


def check_system(package: Package, trials: Trials) -> Problems:
    """Report runs of other systems, other code or copied logs.

    Args:
        package: the package.
        trials: its trials by option.
    """
    yield from _check_machines(trials)
    yield from _check_copies(trials)
    yield from _check_environment(package, trials)
    yield from _check_code(package, trials)


def _list_machines(trials: Trials) -> list[Machine]:
    infos = [info for opened in trials.values() for trial in opened for info in trial.infos]
    return [info.machine or Machine() for info in infos]


def _check_machines(trials: Trials) -> Problems:
    """Check that trials are distinct and share one system and one release."""
    summaries = [trial.summary for opened in trials.values() for trial in opened]
    for summary in add_shared_doubts(summaries):
        for doubt in summary.doubts:
            if doubt.kind in ("copies", "unlike machines"):
                yield f"trials are not separate replays on one system: {doubt.text}"
    for name, value_of in _SYSTEM.items():
        values = dict.fromkeys(str(value_of(machine)) for machine in _list_machines(trials))
        if len(values) > 1:
            yield f"runs have different {name}: {', '.join(values)}"


def _find_release(machine: Machine) -> str | None:
    return (machine.packages or {}).get("kv-tier-bench")


def _find_device(machine: Machine) -> str | None:
    return None if machine.storage is None else machine.storage.device_model


_SYSTEM: Final[dict[str, Callable[[Machine], object]]] = {
    "processors": lambda machine: machine.cpu,
    "devices below the cache": _find_device,
    "releases of this tool": _find_release,
}


def _check_copies(trials: Trials) -> Problems:
    """Check that each rank of each trial has its own times."""
    for opened in trials.values():
        ranks = [(trial, list_ranks(trial.path)) for trial in opened]
        for number in range(max(len(places) for _, places in ranks)):
            runs = [
                (f"{name_trial(trial)}/{places[number].name}", places[number])
                for trial, places in ranks
                if number < len(places)
            ]
            yield from find_copies(runs)


def _check_code(package: Package, trials: Trials) -> Problems:
    """Check that one tool made all runs: equal modules everywhere, equal libraries on each host."""
    try:
        environment = read_json(package.results / "environment.json")
        host, code, core = (environment[name] for name in ("host", "code_sha256", "core_sha256"))
    except (InputError, KeyError, TypeError):
        yield "environment.json does not record the code that began the submission"
        return
    machines = _list_machines(trials)
    codes = dict.fromkeys([str(code), *(str(machine.code_sha256) for machine in machines)])
    if len(codes) > 1:
        yield f"this tool's code differs between runs and environment.json: {_list_digests(codes)}"
    yield from _check_libraries(str(host), str(core), machines)
    own = code_digests()["code_sha256"]
    release = version("kv-tier-bench")
    if {_find_release(machine) for machine in machines} == {release} and own not in codes:
        here = f"release {release} here is {own[:12]}…: one of them was changed"
        yield f"the runs name the code {_list_digests(codes)}, but {here}"


def _check_libraries(host: str, core: str, machines: Iterable[Machine]) -> Problems:
    """Check that all runs on a host had the same compiled libraries."""
    cores: dict[str, dict[str, None]] = {host: {core: None}}
    for machine in machines:
        cores.setdefault(str(machine.host), {})[str(machine.core_sha256)] = None
    for name, digests in cores.items():
        if len(digests) > 1:
            differing = _list_digests(digests)
            yield f"this tool's compiled code differs between runs on {name}: {differing}"


def _list_digests(digests: Iterable[str]) -> str:
    return ", ".join(f"{digest[:12]}…" for digest in digests)


def _check_environment(package: Package, trials: Trials) -> Problems:
    """Check the host, and that results and cache are on different file systems."""
    try:
        environment = read_json(package.results / "environment.json")
        hosts = {machine.host for machine in _list_machines(trials)}
        if environment["host"] not in hosts:
            names = ", ".join(sorted(map(str, hosts)))
            yield f"environment.json is from {environment['host']}, but the runs are from {names}"
        places = environment["file_systems"]
        must_differ = package.submission.is_closed and package.submission.rules.submittable
        if must_differ and places["cache"] == places["results"]:
            problem = "results and cache were on one file system; the rules require two"
            yield f"environment.json: {problem}"
    except InputError as error:
        yield f"environment.json cannot be read: {error.problem}"
    except (KeyError, TypeError, AttributeError):
        yield "environment.json lacks host or file_systems"
