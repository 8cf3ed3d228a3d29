"""That the runs of a package are of one system, made by one tool, each replayed anew."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from typing import Final

from analysis.submission.package_tree import Package, ranks_of, read_json
from analysis.submission.shared_times import copies
from analysis.submission.summary_json import Trial, place_of
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import Machine, code_digests
from tracegen.errors import InputError

Found = Iterator[str]
Trials = dict[str, list[Trial]]


def one_system(package: Package, trials: Trials) -> Found:
    """What is not of one system, one tool, or one replay."""
    yield from _together(trials)
    yield from _anew(trials)
    yield from _environment(package, trials)
    yield from _code(package, trials)


def _machines(trials: Trials) -> list[Machine]:
    return [info.machine or Machine() for all_of in trials.values() for trial in all_of for info in trial.infos]


def _together(trials: Trials) -> Found:
    """Trials are distinct, and of one system and one release."""
    every = [trial for all_of in trials.values() for trial in all_of]
    for doubts in (one.doubts for one in add_shared_doubts([trial.summary for trial in every])):
        for doubt in doubts:
            if doubt.kind in ("copies", "unlike machines"):
                yield f"trials are not of one system, each replayed anew: {doubt.text}"
    for name, value_of in _SYSTEM.items():
        if len(values := dict.fromkeys(str(value_of(machine)) for machine in _machines(trials))) > 1:
            yield f"runs have unlike {name}: {', '.join(values)}"


_SYSTEM: Final[dict[str, Callable[[Machine], object]]] = {
    "processors": lambda machine: machine.cpu,
    "devices below the cache": lambda machine: None if machine.storage is None else machine.storage.device_model,
    "releases of this tool": lambda machine: (machine.packages or {}).get("kv-tier-bench"),
}


def _anew(trials: Trials) -> Found:
    """Each rank of a trial has times of its own."""
    for all_of in trials.values():
        for rank in range(max(len(ranks_of(trial.path)) for trial in all_of)):
            places = [(trial, place) for trial in all_of for place in ranks_of(trial.path)[rank : rank + 1]]
            yield from copies([(f"{place_of(trial)}/{place.name}", place) for trial, place in places])


def _code(package: Package, trials: Trials) -> Found:
    """One tool made all of it: its modules everywhere, its compiled libraries on each host."""
    try:
        known = read_json(package.results / "environment.json")
        begun = {name: known[name] for name in ("host", "code_sha256", "core_sha256")}
    except (InputError, KeyError, TypeError):
        yield "environment.json does not say which code the submission was begun with"
        return
    machines = _machines(trials)
    codes = dict.fromkeys([str(begun["code_sha256"]), *(str(machine.code_sha256) for machine in machines)])
    if len(codes) > 1:
        yield f"the code of this tool is not the same in all runs and environment.json: {_digests(codes)}"
    cores: dict[str, dict[str, None]] = {str(begun["host"]): {str(begun["core_sha256"]): None}}
    for machine in machines:
        cores.setdefault(str(machine.host), {})[str(machine.core_sha256)] = None
    for host, digests in cores.items():
        if len(digests) > 1:
            yield f"the compiled code of this tool is not the same in all runs on {host}: {_digests(digests)}"
    own, here = code_digests()["code_sha256"], version("kv-tier-bench")
    if {(machine.packages or {}).get("kv-tier-bench") for machine in machines} == {here} and own not in codes:
        yield f"the runs name the code {_digests(codes)}, release {here} here is {own[:12]}…: one of them was changed"


def _digests(found: Iterable[str]) -> str:
    return ", ".join(f"{one[:12]}…" for one in found)


def _environment(package: Package, trials: Trials) -> Found:
    """Where it ran, and that results and cache were apart."""
    try:
        found = read_json(package.results / "environment.json")
        hosts = {machine.host for machine in _machines(trials)}
        if found["host"] not in hosts:
            yield f"environment.json is of {found['host']}, the runs are of {', '.join(sorted(map(str, hosts)))}"
        places = found["file_systems"]
        if (
            package.about.division == "closed"
            and package.about.rules.submittable
            and places["cache"] == places["results"]
        ):
            yield "environment.json: results and cache lay on one file system; the rules ask for two"
    except InputError as error:
        yield f"environment.json cannot be read: {str(error).removesuffix('.')}"
    except (KeyError, TypeError, AttributeError):
        yield "environment.json does not say host and file_systems"
