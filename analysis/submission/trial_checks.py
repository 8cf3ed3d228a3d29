"""Checks of trials: validity, conditions, one system, and rows against traces made again."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as pq
import tomli_w

from analysis.doubts.against_trace import Plans, run_child
from analysis.submission.claims import PackagedTrial, Trials
from analysis.submission.package_tree import Package, list_ranks
from analysis.submission.rules import SEED, Option, find_pin
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import RunInfo, Storage, TraceInfo, to_plain
from tracegen.errors import InputError
from tracegen.progress import Progress

PATIENCE_S: Final = 600  # a recorded recipe may ask for a trace of any size
Problems = Iterator[str]

# Kinds of doubts about runs that do not measure the system, not even in OPEN.
_NO_SYSTEM: Final = ("emulated tier", "throttled tier", "verification off")


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
    """Report other traces, plans and conditions: CLOSED fixes most of them, OPEN has those of the first trial."""
    option, submission = trials[0].path.parent.name, package.submission
    for trial in trials:
        for rank, (info, first) in enumerate(zip(trial.infos, trials[0].infos, strict=False)):
            actual, required = _list_work(info), _list_work(first)
            source = "the first trial has"
            if submission.is_closed:
                source = "CLOSED fixes"
                kept = {name: required[name] for name in ("ranks", "plan_fingerprint")}
                pin = find_pin(submission.scale, option, rank)
                pinned = {"trace_fingerprint": pin} if pin else {}  # more ranks than CLOSED has traces for
                required = submission.rules.find_option(option).closed | kept | pinned
            for name in sorted({*actual, *required}):
                if actual.get(name, ...) != required.get(name, ...):
                    ran = f"{trial.name}/rank_{rank} ran with {name} = {_quote(actual, name)}"
                    yield f"{ran}; {source} {_quote(required, name)}"


def _list_work(info: RunInfo) -> dict[str, Any]:
    fingerprints = {"trace_fingerprint": info.trace.fingerprint, "plan_fingerprint": info.plan_fingerprint}
    return to_plain(info.conditions) | fingerprints


def _quote(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "nothing"


def check_system(trials: Trials) -> Problems:
    """Report runs of several systems or releases, and trials that are copies of others."""
    opened = [trial for of_option in trials.values() for trial in of_option]
    for summary in add_shared_doubts([trial.summary for trial in opened]) if opened else ():
        for doubt in summary.doubts:
            if doubt.kind in ("copies", "unlike machines"):
                yield f"trials are not separate replays on one system: {doubt.text}"
    systems = dict.fromkeys(_describe_system(info) for trial in opened for info in trial.infos)
    if len(systems) > 1:
        yield f"runs have different processors, devices below the cache or releases of this tool: {'; '.join(systems)}"


def _describe_system(info: RunInfo) -> str:
    machine, storage = info.machine, info.machine.storage or Storage()
    return f"{machine.cpu}, {storage.device_model}, release {(machine.packages or {}).get('kv-tier-bench')}"


def check_pauses(package: Package, trials: Trials) -> Problems:
    """Check the pauses of CLOSED between replays of different options, by the runs' clocks."""
    if not package.submission.is_closed:
        return
    required_s = package.submission.rules.pause_s
    spans = [
        (*trial.span_ns, option) for option, opened in trials.items() for trial in opened if trial.span_ns is not None
    ]
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        pause_s = (start - end) / 1e9
        if before != after and pause_s < required_s:
            pause = f"{after} began {pause_s:.0f} s after the end of {before}"
            yield f"{pause}; the rules require {required_s:g} s"


class _UntiedError(InputError):
    """A trace of OPEN that cannot be generated, so that nothing ties the rows to it."""


def make_trace(package: Package, option: Option, rank: int, info: TraceInfo, folder: Path) -> Path:
    """Make the trace of a rank again: the pinned one in CLOSED, that of the recorded recipe in OPEN.

    Raises:
        InputError: it cannot be generated; in OPEN an _UntiedError.
    """
    path = folder / f"{option.name}-{rank}-{info.fingerprint[:12]}.parquet"
    if path.exists():
        return path
    if package.submission.is_closed:
        settings = [word for setting in package.submission.rules.settings for word in ("--set", setting)]
        return generate(path, option.recipe, "--users", option.users, "--seed", SEED + rank, *settings)
    if not info.recipe or info.part is not None:
        raise _UntiedError("no recipe of the whole trace is recorded")
    recipe = path.with_suffix(".toml")
    recipe.write_text(tomli_w.dumps(_leave_out_nulls(info.recipe)), encoding="utf-8")
    try:
        return generate(path, recipe)
    except InputError as error:  # e.g. its source is a file of its author
        raise _UntiedError(error.problem) from None


def generate(path: Path, *words: object) -> Path:
    """Generate a trace in a process of its own."""
    subject = f"{path.stem}: its trace"
    run_child("tracegen", "generate", *words, "-o", path, subject=subject, timeout_s=PATIENCE_S)
    return path


def _leave_out_nulls(table: Any) -> Any:
    """Leave out the nulls of a recipe: TOML has none, and they mean the default."""
    if not isinstance(table, dict):
        return table
    return {name: _leave_out_nulls(value) for name, value in table.items() if value is not None}


def compare_with_traces(package: Package, trials: Trials, progress: Progress) -> tuple[list[str], dict[str, str]]:
    """Compare the rows of a package with the plans of its traces.

    The trials are those that did the work of the rules: others are reported already, and their plans could be
    of any size.

    Returns:
        The problems; and the options whose traces cannot be generated, with the reason.
    """
    # Runs of one plan come after one another, as it is made once for them.
    runs = [
        (package.submission.rules.find_option(option), number, trial, rank)
        for option, opened in trials.items()
        for number, ranks in enumerate(zip(*(trial.run.ranks for trial in opened), strict=False))
        for trial, rank in zip(opened, ranks, strict=True)
    ]
    problems = list[str]()
    untied: dict[str, str] = {}
    with (
        TemporaryDirectory(prefix="analysis-validate-") as folder,
        progress("planning again", "run", len(runs)) as advance,
    ):
        plans = Plans(Path(folder))
        for option, number, trial, rank in runs:
            try:
                trace = make_trace(package, option, number, rank.info.trace, Path(folder))
                for doubt in plans.find_deviations(trace, rank.path, rank.info):
                    problems.append(f"{trial.name} does not follow its trace: {doubt.text}")
            except _UntiedError as error:
                untied[option.name] = error.problem
            except InputError as error:
                problems.append(f"{option.name}, rank {number}: cannot plan again: {error.problem}")
            advance(1)
    return [problem.replace(f"{package.top}/", "") for problem in problems], untied
