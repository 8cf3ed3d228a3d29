"""Validating a package, offline: each thing that is wrong in one sentence that names it."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from analysis.submission.against_traces import compared
from analysis.submission.begin import description, unfilled
from analysis.submission.package import digest, submission_yaml
from analysis.submission.package_tree import DIVISIONS, Package, model_folder, number, ranks_of, read_json
from analysis.submission.rules import SEED
from analysis.submission.sampled import apart, sampled
from analysis.submission.summary_json import Trial, claims, open_trial, place_of, unlike
from analysis.submission.system import one_system
from analysis.submission.traces import check_given
from replayer.schema import to_plain
from tracegen.errors import InputError

Found = Iterator[str]

REQUIRED: Final = (
    "clients", "deployment", "solution.submission_name", "solution.friendly_description", "solution.nodes",
    "solution.usable_capacity_tib", "solution.architecture.product_API", "solution.architecture.benchmark_API",
)  # fmt: skip
SAID: Final = (
    "executed_ops", "executed_fingerprint", "clock.zero_ns", "warmup", "window", "started", "machine.host",
    "machine.cpu", "machine.packages", "machine.code_sha256", "machine.core_sha256", "payload_nonce",
    "plan.plan_fingerprint", "trace.counts",
)  # fmt: skip
CLIENT: Final = ("chassis", "networking", "drives", "operating_system", "quantity")


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        problems: what is wrong with the package; nothing: it is valid.
        trials: by option, as far as they can be opened.
        untied: options of OPEN whose traces can be made of nothing, with the reason.
    """

    problems: list[str]
    trials: dict[str, list[Trial]]
    untied: dict[str, str]


def validate(package: Package, given: Mapping[str, Path] | None = None) -> Verdict:
    """Look at every file, row and metric of a package.

    Args:
        package: to be validated.
        given: traces of OPEN by option, where a reviewer has them.

    Raises:
        InputError: a trace is given for what is no option of OPEN.
    """
    check_given(given or {}, package)
    if irregular := [*package.irregular()]:
        return Verdict(irregular, {}, {})
    found = [*_files(package), *_tree(package), *_complete(package), *_described(package)]
    trials: dict[str, list[Trial]] = {}
    paths = [(option, path) for option, all_of in package.options.items() for path in all_of]
    for option, path in tqdm(paths, "checking", unit="trial", delay=1, disable=None, leave=False):
        try:
            opened = open_trial(path)
            trials.setdefault(option, []).append(opened)
        except InputError as error:
            found.append(str(error).replace(f"{package.top}/", ""))
    for known in package.about.rules.options:
        for check in CHECKS if known.name in trials else ():
            found += check(package, trials[known.name])
    if trials:
        found += [
            *one_system(package, trials),
            *apart([trial for all_of in trials.values() for trial in all_of]),
            *_pauses(package, trials),
            *_claimed(package, trials),
        ]
    more, untied = compared(package, trials, given or {})
    return Verdict(list(dict.fromkeys([*found, *more])), trials, untied)


def notes(package: Package, untied: Mapping[str, str]) -> list[str]:
    """What a valid package does not prove, and what keeps it from being a submission."""
    loose = [
        f"nothing ties the rows of {option} to its trace ({why}): a reviewer who has it passes --trace {option}=FILE"
        for option, why in untied.items()
    ]
    return [*loose, *left(package)]


def left(package: Package) -> list[str]:
    """What keeps a valid package from being a submission."""
    if package.about.rules.submittable:
        return []
    empty = unfilled(description(package.description))
    return [
        f"its scale is {package.about.scale}: it shows that everything works, and is not to be submitted",
        *(
            [f"{len(empty)} fields of {package.description.name} are empty, which a submission must fill in"]
            if empty
            else []
        ),
    ]


def _files(package: Package) -> Found:
    """Every file as listed, and none that is not."""
    listed = read_json(package.manifest).get("files")
    if not isinstance(listed, dict):
        yield "manifest.json lists no files"
        return
    there = {path.relative_to(package.top).as_posix(): path for path in package.files()}
    for name, wanted in listed.items():
        if name not in there:
            yield f"{name} is missing, though manifest.json lists it"
        elif digest(there[name]) != wanted:
            yield f"{name} was changed: its size or sha256 is not that of manifest.json"
    for name in there.keys() - listed.keys():
        yield f"{name} is not listed in manifest.json"


def _tree(package: Package) -> Found:
    """Whose it is, and what stands beside the runs."""
    about = package.about
    places = {
        "organisation": (package.top.resolve().name, about.organisation),
        "division": (package.top.resolve().parent.name, about.division),
        "system": (package.results.name, about.system),
    }
    for what, (directory, named) in places.items():
        if directory != named and (what != "division" or directory in DIVISIONS):
            yield f"manifest.json names the {what} {named}, its directory {directory}"
    try:
        same = (package.top / "submission.yaml").read_text(encoding="utf-8") == submission_yaml(about)
    except (OSError, ValueError):
        same = False
    if not same:
        yield "submission.yaml is missing, or not that of this organisation and division"
    for name in ("report.html", "environment.json"):
        if not (package.results / name).exists():
            yield f"{name} is missing"


def _complete(package: Package) -> Found:
    """Every option, every trial, as many ranks in each."""
    rules = package.about.rules
    for option in rules.options:
        if option.name not in package.options:
            yield f"{option.name} ({option.title}) is missing"
            continue
        numbers = [number(trial) for trial in package.options[option.name]]
        wanted = rules.trials if package.about.division == "closed" else max([*numbers, 1])
        for trial in sorted({*range(1, wanted + 1), *numbers}):
            if trial not in numbers:
                yield f"trial {trial} of {option.name} is missing"
            elif not 1 <= trial <= wanted or numbers.count(trial) > 1:
                yield f"trial {trial} of {option.name} is one too many: {wanted} are asked for"
    for surplus in package.options.keys() - {option.name for option in rules.options}:
        yield f"{surplus} is no option of these rules"
    sizes = {len(ranks_of(trial)) for trials in package.options.values() for trial in trials}
    if len(sizes) > 1:
        yield f"trials have unlike numbers of ranks ({', '.join(map(str, sorted(sizes)))}): one is missing, or added"


def _described(package: Package) -> Found:
    """The system's description."""
    name = f"systems/{package.about.system}.yaml"
    try:
        found = description(package.description)["system_under_test"]
    except InputError as error:
        yield str(error).replace(f"{package.top}/", "").removesuffix(".")
        return
    for dotted in REQUIRED:
        part: Any = found
        for key in dotted.split("."):
            part = part.get(key, ...) if isinstance(part, dict) else ...
        if part is ...:
            yield f"{name} lacks {dotted}"
    if (named := (found.get("solution") or {}).get("submission_name")) != package.about.system:
        yield f"{name}: solution.submission_name is {named}, the package is of {package.about.system}"
    clients = found.get("clients")
    if (
        not isinstance(clients, list)
        or not clients
        or not all(isinstance(one, dict) and one.keys() >= {*CLIENT} for one in clients)
    ):
        yield f"{name} must describe clients, each with {', '.join(CLIENT)}"
    if package.about.rules.submittable:
        for dotted in unfilled(found):
            yield f"{name}: {dotted} is not filled in"


def _valid(_package: Package, trials: Sequence[Trial]) -> Found:
    """No invalidating doubt; every row is looked at."""
    for trial in trials:
        for text in trial.summary.findings:
            short = text.replace(f"{trial.path}/", "").replace(str(trial.path), place_of(trial))
            yield f"{place_of(trial)} is not valid: {short}"


def _whole(_package: Package, trials: Sequence[Trial]) -> Found:
    """Each rank says all that a replay says: nothing stays unchecked because it was left out."""
    for trial in trials:
        for rank, info in enumerate(trial.infos):
            for dotted in SAID:
                part: Any = info
                for name in dotted.split("."):
                    part = getattr(part, name, None)
                if part is None:
                    yield f"{place_of(trial)}/rank_{rank}: run.json does not say {dotted}"
        for place in ranks_of(trial.path):
            yield from sampled(f"{place_of(trial)}/{place.name}", place / "device.parquet")


def _stand_ins(_package: Package, trials: Sequence[Trial]) -> Found:
    """What was measured is the system, in OPEN, too."""
    for trial in trials:
        for kind in ("emulated tier", "throttled tier", "verification off"):
            for doubt in trial.summary.doubts:
                if doubt.kind == kind:
                    yield f"{place_of(trial)} measured no system: {doubt.text}"


def _ranks(_package: Package, trials: Sequence[Trial]) -> Found:
    """Each a client of its own, with its own trace: seed 42 + rank."""
    for trial in trials:
        for place, (rank, info) in zip(ranks_of(trial.path), enumerate(trial.infos), strict=False):
            seed = info.trace.seed
            if seed != SEED + rank:
                yield f"{place_of(trial)}/{place.name} has a trace of seed {seed}, not {SEED + rank}"
            if (info.rank or 0) != rank:
                yield f"{place_of(trial)}/{place.name} says that it is rank {info.rank}"


def _traces(package: Package, trials: Sequence[Trial]) -> Found:
    """In CLOSED the pinned traces; in OPEN one per rank, in all trials."""
    option = trials[0].path.parent.name
    for trial in trials:
        for rank, (info, first) in enumerate(zip(trial.infos, trials[0].infos, strict=False)):
            has, planned = info.trace.fingerprint, info.plan_fingerprint
            wanted = package.about.rules.pinned(option, rank)
            where = f"{place_of(trial)}/rank_{rank}"
            if package.about.division == "closed" and wanted is None:
                yield f"{where}: traces are pinned for {package.about.rules.ranks} ranks only; choose OPEN for more"
            elif package.about.division == "closed" and has != wanted:
                yield f"{where} replayed the trace {has[:12]}…, not {str(wanted)[:12]}…, which {option} pins"
            elif has != first.trace.fingerprint:
                yield f"{where} replayed another trace ({has[:12]}…) than trial {number(trials[0].path)}"
            if planned != first.plan_fingerprint:
                yield f"{where} followed another plan ({str(planned)[:12]}…) than trial {number(trials[0].path)}"


def _conditions(package: Package, trials: Sequence[Trial]) -> Found:
    """In CLOSED those of the rules; in OPEN the same in all trials."""
    closed = package.about.division == "closed"
    fixed = package.about.rules.option(trials[0].path.parent.name).closed
    for trial in trials:
        wanted = fixed if closed else to_plain(trials[0].infos[0].conditions)
        for rank, info in enumerate(trial.infos):
            has = to_plain(info.conditions)
            for name in sorted((has.keys() | wanted.keys()) - {"ranks"}):
                if has.get(name, ...) != wanted.get(name, ...):
                    why = (
                        f"CLOSED fixes {_shown(wanted, name)}"
                        if closed
                        else f"the first trial has {_shown(wanted, name)}"
                    )
                    yield f"{place_of(trial)}/rank_{rank} ran with {name} = {_shown(has, name)}; {why}"


def _shown(values: dict[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "nothing"


def _pauses(package: Package, trials: dict[str, list[Trial]]) -> Found:
    """Between options, as far as the runs' clocks say."""
    spans = {}
    for option, all_of in trials.items():
        begins = [zero for trial in all_of for zero in trial.summary.provenance.zero_ns if zero is not None]
        ends = [end for trial in all_of for end in trial.summary.provenance.ended_ns if end is not None]
        if begins and ends:
            spans[option] = (min(begins), max(ends))
    ordered = sorted(spans.items(), key=lambda one: one[1])
    asked_s = package.about.rules.pause_s if package.about.division == "closed" else 0
    for (before, (_, end)), (after, (start, _)) in itertools.pairwise(ordered):
        rested_s = (start - end) / 1e9
        if rested_s < asked_s:
            yield f"{after} began {rested_s:.0f} s after {before} had ended; the rules ask for {asked_s:g} s"


def _claimed(package: Package, trials: dict[str, list[Trial]]) -> Found:
    """summary.json says what the logs say."""
    for run in package.runs:
        name = (run / "summary.json").relative_to(package.top).as_posix()
        try:
            claimed = read_json(run / "summary.json")
        except InputError as error:
            yield f"{name} cannot be read: {str(error).removesuffix('.')}"
            continue
        known = {option.name for option in package.about.rules.options}
        own = {option: trials[option] for option in sorted(known & trials.keys()) if (run / option).exists()}
        computed = json.loads(json.dumps(claims(package.about, own))) if own else {}
        for place, says, logs in unlike(claimed, computed):
            yield f"{name}: {place} is {says}, its logs say {logs}"
        for option, (first, *_) in own.items():
            if (model := model_folder(first.run.conditions.model)) != run.parents[1].name:
                yield f"{option} lies under the model {run.parents[1].name}, but is of {model}"


CHECKS: Final[tuple[Callable[[Package, Sequence[Trial]], Found], ...]] = (
    _valid, _whole, _stand_ins, _ranks, _traces, _conditions,
)  # fmt: skip
