"""Checks that the runs of a package are separate replays on one system with one tool."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow.parquet as pq

from analysis.doubts.integrity import explain_unreadable
from analysis.log.log import scan
from analysis.submission.package_tree import Package, list_ranks, read_json
from analysis.submission.summary_json import PackagedTrial, name_trial
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import Machine, counters, parts
from tracegen.errors import InputError

Problems = Iterator[str]
Trials = dict[str, list[PackagedTrial]]

MOST_SHARED: Final = 0.01
"""Largest share of equal times; real trials shared none of 4,251 starts."""
SAMPLE_ROWS: Final = 1 << 20  # rows of a log that are compared

NamedRun = tuple[str, Path]


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


@dataclass(frozen=True)
class _Times:
    """Times of a run.

    Attributes:
        name: name of the run, for messages.
        starts: position, seq and start_ns of moves with I/O.
        samples: times at which the device was sampled.
    """

    name: str
    starts: pl.DataFrame
    samples: frozenset[int]


def find_copies(runs: Sequence[NamedRun]) -> Iterator[str]:
    """Report runs of one plan that share times.

    Args:
        runs: names for messages, and run directories.
    """
    rows = [_count_rows(place) for _, place in runs]
    every = -(-max(rows, default=1) // SAMPLE_ROWS)
    times = []
    for name, place in runs:
        times.append(_Times(name, _read_starts(place, every), _read_sample_times(place)))
    for one, other in combinations(times, 2):
        equal = _share_equal(one.starts.join(other.starts, on=("position", "seq"), suffix="_other"))
        if equal > MOST_SHARED:
            copy = f"{other.name} is a copy of {one.name}"
            yield f"{copy}: they share {equal:.0%} of their exact start times"
        if _are_equal_samples(one.samples, other.samples):
            copy = f"{other.name}/device.parquet is a copy of {one.name}'s"
            yield f"{copy}: they were sampled at the same nanoseconds"


def _count_rows(place: Path) -> int:
    return sum(pq.read_metadata(part.absolute()).num_rows for part in parts(place))


def _read_starts(place: Path, every: int) -> pl.DataFrame:
    """Read the starts of the moves with I/O of each `every`-th op."""
    has_io = pl.col("read_ns") + pl.col("write_ns") > 0
    with explain_unreadable(place):
        rows = scan(parts(place)).filter(has_io & (pl.col("position") % every == 0))
        return rows.select("position", "seq", "start_ns").collect(engine="streaming")


def _share_equal(both: pl.DataFrame) -> float:
    """Return the share of moves with equal starts."""
    equal = int((both["start_ns"] == both["start_ns_other"]).sum())
    return equal / both.height if equal > 1 else 0.0


def _read_sample_times(place: Path) -> frozenset[int]:
    path = counters(place)
    if path is None:
        return frozenset()
    return frozenset(pl.read_parquet(path, columns=["time_ns"])["time_ns"])


def _are_equal_samples(times: frozenset[int], others: frozenset[int]) -> bool:
    equal = len(times & others)
    least = min(len(times), len(others))
    return bool(least) and equal > MOST_SHARED * least and (equal > 1 or equal == least)


def check_separation(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    """Report trials that overlap in time or share a payload, and ranks that ran one by one."""
    yield from _check_times(trials)
    yield from _check_payloads(trials)


def _check_times(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    spans = []
    for trial in trials:
        name = name_trial(trial)
        provenance = trial.summary.provenance
        starts = [zero_ns for zero_ns in provenance.zero_ns if zero_ns is not None]
        ends = [end_ns for end_ns in provenance.ended_ns if end_ns is not None]
        if starts and ends:
            spans.append((min(starts), max(ends), name))
            if max(starts) >= min(ends):
                reason = "one began after another ended"
                yield f"the ranks of {name} did not run at the same time: {reason}"
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        if start < end:
            yield f"{after} began before {before} ended"


def _check_payloads(trials: Sequence[PackagedTrial]) -> Iterator[str]:
    first_of: dict[tuple[int, object], str] = {}
    for trial in trials:
        name = name_trial(trial)
        for rank, info in enumerate(trial.infos):
            if info.payload_nonce is None:
                continue
            first = first_of.setdefault((rank, info.payload_nonce), name)
            if first != name:
                run = f"{name}/rank_{rank}"
                yield f"{run} wrote the payload of {first}: their payload_nonce is the same"
