"""Validation of a package, offline: one sentence for each problem."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from analysis.submission.begin import NAME, Environment, list_empty, read_description
from analysis.submission.claims import PackagedTrial, Trials, compute_claims, find_differences, open_trial, select_model
from analysis.submission.package import check_files
from analysis.submission.package_tree import Package, name_model_folder, read_json
from analysis.submission.rules import DIVISIONS
from analysis.submission.trial_checks import check_pauses, check_runs, check_system, check_work, compare_with_traces
from tracegen.errors import InputError, format_count
from tracegen.progress import Progress, ignore_progress
from views.answer import Answer, DoubtLine

Problems = Iterator[str]

# What to do about a problem, by the part of the package that it is in.
_REMEDIES: Final = {
    "files": "copy the package again, or make it again from its replays",
    "description": "edit system.yaml and package again",
    "runs": "replay the trial, and package again",
    "claims": "package again",
    "rows": "copy the run again, or replay it",
}


@dataclass(frozen=True)
class PackageVerdict:
    """Result of a validation.

    Attributes:
        package: the package.
        problems: its problems; it is valid if there are none.
        trials: the trials that can be opened, by option.
        untied: options of OPEN whose traces cannot be generated, with the reason.
    """

    package: Package
    problems: list[DoubtLine]
    trials: Trials
    untied: Mapping[str, str]


def validate(package: Package, progress: Progress = ignore_progress) -> PackageVerdict:
    """Check every file, row and metric of a package."""
    if irregular := [*package.find_irregular()]:  # a pipe would be read for ever
        return PackageVerdict(package, _make_problems("files", irregular), {}, {})
    trials, runs = _open_trials(package, progress)
    right = dict(trials)
    for option, opened in trials.items():
        other_work = [*check_work(package, opened)]
        runs += [*check_runs(opened), *other_work]
        if other_work:  # its plan could be of any size
            del right[option]
    rows, untied = compare_with_traces(package, right, progress)
    problems = {
        "files": [*_check_complete(package), *_check_names(package), *check_files(package)],
        "description": [*_check_description(package), *_check_environment(package, trials)],
        "runs": [*runs, *check_system(trials), *check_pauses(package, trials)],
        "claims": _check_claims(package, trials),
        "rows": rows,
    }
    made = [problem for part, texts in problems.items() for problem in _make_problems(part, texts)]
    return PackageVerdict(package, made, trials, untied)


def _make_problems(part: str, texts: Iterable[str]) -> list[DoubtLine]:
    return [
        DoubtLine(headline=part, text=text, advice=_REMEDIES[part], invalidates=True) for text in dict.fromkeys(texts)
    ]


def answer_verdict(verdict: PackageVerdict) -> Answer:
    """Make the answer of a validation."""
    submission = verdict.package.submission
    is_valid, is_submittable = not verdict.problems, submission.rules.submittable
    name = f"{verdict.package.top}, system {submission.system}"
    sentence = f"{name}: {format_count(len(verdict.problems), 'problem')}."
    notes: list[DoubtLine] = []
    if is_valid:
        options = format_count(len(verdict.trials), "option")
        trials = format_count(sum(map(len, verdict.trials.values())), "trial")
        sentence = f"{name}: {options}, {trials}; every file, row and metric is as claimed."
        notes = _list_notes(verdict)
    return Answer(
        title=name,
        state="VALID" if is_valid else "NOT VALID",
        tone="good" if is_valid else "bad",
        sentence=sentence,
        doubts=[*verdict.problems, *notes],
        data={"system": submission.system, "valid": is_valid, "submittable": is_valid and is_submittable},
    )


def _list_notes(verdict: PackageVerdict) -> list[DoubtLine]:
    """Say what a reviewer must know of a valid package."""
    submission = verdict.package.submission
    notes = []
    for option, reason in verdict.untied.items():
        text = f"nothing ties the rows of {option} to its trace ({reason})"
        advice = "a reviewer who has the trace can pass it to `analysis check TRIAL --trace FILE`"
        notes.append(DoubtLine(headline="no trace", text=text, advice=advice))
    if not submission.rules.submittable:
        text = f"its scale is {submission.scale}, which only tests the procedure"
        notes.append(DoubtLine(headline="rehearsal", text=text, advice="do not submit it"))
    return notes


def _open_trials(package: Package, progress: Progress) -> tuple[dict[str, list[PackagedTrial]], list[str]]:
    """Open the trials of a package; return them, and a problem for each that cannot be opened."""
    trials: dict[str, list[PackagedTrial]] = {}
    problems = []
    known = {option.name for option in package.submission.rules.options}
    paths = [(option, path) for option, found in package.options.items() if option in known for path in found]
    with progress("checking", "trial", len(paths)) as advance:
        for option, path in paths:
            try:
                trials.setdefault(option, []).append(open_trial(path))
            except InputError as error:
                problems.append(_phrase(error, package))
            advance(1)
    return trials, problems


def _phrase(error: InputError, package: Package) -> str:
    """Phrase an error as a problem of a package, with paths below its directory."""
    text = error.problem if error.subject is None else f"{error.subject}: {error.problem}"
    return text.replace(f"{package.top}/", "")


def _check_names(package: Package) -> Problems:
    """Check that names agree with directories."""
    submission = package.submission
    top = package.top.resolve()
    names = {"organisation": top.name, "division": top.parent.name, "system": package.results.name}
    if top.parent.name not in DIVISIONS:  # a copy outside MLPerf's tree
        del names["division"]
    for name, directory in names.items():
        if directory != submission.names[name]:
            yield f"manifest.json names the {name} {submission.names[name]}, but its directory is {directory}"


def _check_complete(package: Package) -> Problems:
    """Check that the package has every option and trial, with equal numbers of ranks."""
    rules = package.submission.rules
    titles = {option.name: option.title for option in rules.options}
    for option in package.options.keys() - titles.keys():
        yield f"{option} is not an option of the rules"
    for option, title in titles.items():
        paths = package.options.get(option, [])
        required = rules.trials if package.submission.is_closed else max(len(paths), 1)
        wanted = [f"trial_{number}" for number in range(1, required + 1)]
        if sorted(path.name for path in paths) != sorted(wanted):
            has = ", ".join(path.name for path in paths) or "no trial"
            yield f"{option} ({title}) has {has}; it must have {', '.join(wanted)}"


def _check_description(package: Package) -> Problems:
    """Check the fields of the system's description."""
    system = package.submission.system
    try:
        described = read_description(package.description)
    except InputError as error:
        yield _phrase(error, package)
        return
    name = f"systems/{system}.yaml"
    if described[NAME] != system:
        yield f"{name}: solution.submission_name is {described[NAME]}, but the package's system is {system}"
    if package.submission.rules.submittable:
        for dotted in list_empty(described):
            yield f"{name}: {dotted} is not filled in"


def _check_environment(package: Package, trials: Trials) -> Problems:
    """Check the host."""
    try:
        environment: Environment = read_json(package.results / "environment.json", Environment)
    except InputError as error:
        yield _phrase(error, package)
        return
    hosts = {info.machine.host for opened in trials.values() for trial in opened for info in trial.infos}
    if hosts and environment.host not in hosts:
        yield f"environment.json is from {environment.host}, but the runs are from {', '.join(map(str, hosts))}"


def _check_claims(package: Package, trials: Trials) -> Problems:
    """Check that each summary.json agrees with its logs."""
    for run in package.runs:
        path = run / "summary.json"
        own = select_model(run, trials)
        try:
            claimed: object = read_json(path)
        except InputError as error:
            yield _phrase(error, package)
            continue
        computed = json.loads(json.dumps(compute_claims(package.submission, own)))
        for difference in find_differences(claimed, computed):
            yield f"{path.relative_to(package.top)}: {difference}"
        for option, (first, *_) in own.items():
            model, folder = name_model_folder(first.run.conditions.model), run.parents[1].name
            if model != folder:
                yield f"{option} is in the directory of model {folder}, but its model is {model}"
