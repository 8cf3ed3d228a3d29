"""Checks of trials: validity, conditions, one system, and rows against traces made again."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow.parquet as pq
import tomli_w

from analysis.doubts import against_trace
from analysis.submission.claims import PackagedTrial, Trials
from analysis.submission.package_tree import Package, list_ranks
from analysis.submission.rules import SEED, Option, find_pin
from analysis.summary.across_runs import add_shared_doubts
from replayer.schema import Machine, TraceInfo, to_plain
from tracegen.errors import InputError
from tracegen.progress import Progress
from tracegen.schema import Trace

PATIENCE_S: Final = 600  # a recorded recipe may ask for a trace of any size
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
            for name in sorted({*actual, *required}):
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


class _UntiedError(InputError):
    """A trace of OPEN that cannot be generated, so that nothing ties the rows to it."""


@dataclass(frozen=True)
class _Traces:
    """The traces of a package, generated when they are asked for.

    Attributes:
        package: the package.
        given: files that a reviewer has, by option; `{rank}` in a name is the rank's number.
        folder: folder for generated traces.
    """

    package: Package
    given: Mapping[str, Path]
    folder: Path

    def open(self, option: Option, rank: int, info: TraceInfo) -> Trace:
        """Open the trace of a rank: the given one, or one that its recipe makes again.

        Raises:
            InputError: there is no recipe, or it needs a file.
        """
        if option.name in self.given:
            return Trace(str(self.given[option.name]).replace("{rank}", str(rank)))
        path = self.folder / f"{option.name}-{rank}-{info.fingerprint[:12]}.parquet"
        if path.exists():
            return Trace(path)
        if self.package.submission.is_closed:
            settings = [word for setting in self.package.submission.rules.settings for word in ("--set", setting)]
            return generate(path, option.recipe, "--users", option.users, "--seed", SEED + rank, *settings)
        if not info.recipe or info.part is not None:
            raise _UntiedError("no recipe of the whole trace is recorded")
        recipe = path.with_suffix(".toml")
        recipe.write_text(tomli_w.dumps(_leave_out_nulls(info.recipe)), encoding="utf-8")
        try:
            return generate(path, recipe)
        except InputError as error:
            raise _UntiedError(error.problem) from None


def generate(path: Path, *words: object) -> Trace:
    """Generate a trace in a process of its own."""
    subject = f"{path.stem}: its trace"
    against_trace.run_child("tracegen", "generate", *words, "-o", path, subject=subject, timeout_s=PATIENCE_S)
    return Trace(path)


def _leave_out_nulls(table: Any) -> Any:
    """Leave out the nulls of a recipe: TOML has none, and they mean the default."""
    if not isinstance(table, dict):
        return table
    return {name: _leave_out_nulls(value) for name, value in table.items() if value is not None}


def compare_with_traces(
    package: Package,
    trials: Trials,
    given: Mapping[str, Path],
    progress: Progress,
) -> tuple[list[str], dict[str, str]]:
    """Compare the rows of a package with the plans of its traces.

    Args:
        package: the package.
        trials: those of its trials that did the work of the rules, by option: others are reported already,
            and their plans could be of any size.
        given: traces of OPEN by option.
        progress: shows the work.

    Returns:
        The problems; and the options whose traces cannot be generated, with the reason.
    """
    plans = _group_by_plan(trials)
    problems = list[str]()
    untied: dict[str, str] = {}
    with (
        TemporaryDirectory(prefix="analysis-validate-") as folder,
        progress("planning again", "plan", len(plans)) as advance,
    ):
        traces = _Traces(package, given, Path(folder))
        for (option, rank, _), ranks in plans.items():
            info = next(iter(ranks.values())).infos[rank]
            try:
                trace = traces.open(package.submission.rules.find_option(option), rank, info.trace)
                problems += _check_plan(trace, ranks, traces.folder / "moves.parquet")
            except _UntiedError as error:
                untied[option] = error.problem
            except InputError as error:
                problems.append(f"{option}, rank {rank}: cannot plan again: {error.problem}")
            advance(1)
    return [problem.replace(f"{package.top}/", "") for problem in problems], untied


def _group_by_plan(trials: Trials) -> dict[tuple[str, int, str], dict[Path, PackagedTrial]]:
    """Group the run directories of all ranks by option, number and plan."""
    plans: dict[tuple[str, int, str], dict[Path, PackagedTrial]] = {}
    for option, opened in trials.items():
        for trial in opened:
            for number, (place, info) in enumerate(trial.run.info_of.items()):
                plan = against_trace.identify_plan(info) if against_trace.has_plan(info) else str(place)
                plans.setdefault((option, number, plan), {})[place] = trial
    return plans


def _check_plan(trace: Trace, ranks: dict[Path, PackagedTrial], moves: Path) -> Iterator[str]:
    """Report the ranks of a plan whose rows are not those of their trace."""
    infos = {place: trial.run.info_of[place] for place, trial in ranks.items()}
    first, info = next(iter(infos.items()))
    planned = against_trace.plan_anew(trace.path, first, info, moves)
    for place, trial in ranks.items():
        for doubt in against_trace.find_deviations(place, infos[place], planned):
            yield f"{trial.name} does not follow its trace: {doubt.text}"
    moves.unlink(missing_ok=True)


def check_given_traces(given: Mapping[str, Path], package: Package) -> None:
    """Refuse traces for unknown options, and for options whose traces are pinned.

    Raises:
        InputError: one is refused.
    """
    known = [option.name for option in package.submission.rules.options]
    for name in given.keys() - set(known):
        remedy = f"name one of {', '.join(known)}"
        raise InputError("unknown option", remedy, subject=f"{name}=…", setting="traces")
    if given and package.submission.is_closed:
        problem = "only packages of OPEN take traces, as the pinned traces of CLOSED are generated again"
        raise InputError(problem, "leave it out", setting="traces")
