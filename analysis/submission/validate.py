"""Validation of a package, offline: one sentence for each problem."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.submission.against_traces import compare_with_traces
from analysis.submission.begin import find_empty_fields, read_description
from analysis.submission.display import SILENT, Display
from analysis.submission.package_checks import check_package, phrase_problem
from analysis.submission.package_tree import Package, name_model_folder, read_json
from analysis.submission.summary_json import (
    PackagedTrial,
    compute_claims,
    find_differences,
    open_trial,
)
from analysis.submission.system import check_separation, check_system
from analysis.submission.traces import check_given_traces
from analysis.submission.trial_checks import check_trials
from tracegen.errors import InputError, format_count

Trials = dict[str, list[PackagedTrial]]
Problems = Iterator[str]


@dataclass(frozen=True)
class PackageVerdict:
    """Result of a validation.

    Attributes:
        problems: the problems of the package; it is valid if there are none.
        trials: the trials that can be opened, by option.
        untied: options of OPEN whose traces cannot be generated, with the reason.
    """

    problems: list[str]
    trials: Trials
    untied: dict[str, str]


def validate(
    package: Package,
    given: Mapping[str, Path] | None = None,
    display: Display = SILENT,
) -> PackageVerdict:
    """Check every file, row and metric of a package.

    Args:
        package: the package.
        given: traces of OPEN by option, if a reviewer has them.
        display: shows the progress.

    Raises:
        InputError: a trace is given for an option that is unknown or not of OPEN.
    """
    given = given or {}
    check_given_traces(given, package)
    irregular = [*package.find_irregular()]
    if irregular:
        return PackageVerdict(irregular, {}, {})
    trials, unreadable = _open_trials(package, display)
    problems = [*check_package(package), *unreadable]
    for option in package.submission.rules.options:
        if option.name in trials:
            problems += check_trials(package, trials[option.name])
    if trials:
        problems += check_system(package, trials)
        problems += check_separation([trial for opened in trials.values() for trial in opened])
        problems += _check_pauses(package, trials)
        problems += _check_claims(package, trials)
    deviations, untied = compare_with_traces(package, trials, given, display)
    return PackageVerdict(list(dict.fromkeys([*problems, *deviations])), trials, untied)


def list_obstacles(package: Package) -> list[str]:
    """List the reasons why a valid package may not be submitted."""
    submission = package.submission
    if submission.rules.submittable:
        return []
    scale = f"its scale is {submission.scale}"
    obstacles = [f"{scale}, which only tests the procedure: do not submit it"]
    empty = find_empty_fields(read_description(package.description))
    if empty:
        fields = format_count(len(empty), "field")
        obstacles.append(f"a submission must fill in {fields} of {package.description.name}")
    return obstacles


def _open_trials(package: Package, display: Display) -> tuple[Trials, list[str]]:
    """Open the trials of a package; return them, and a problem for each that cannot be opened."""
    trials: Trials = {}
    problems = []
    paths = [(option, path) for option, found in package.options.items() for path in found]
    with display.progress("checking", "trial", len(paths)) as advance:
        for option, path in paths:
            try:
                trial = open_trial(path)
                trials.setdefault(option, []).append(trial)
            except InputError as error:
                problems.append(phrase_problem(error, package))
            advance(1)
    return trials, problems


def _check_pauses(package: Package, trials: Trials) -> Problems:
    """Check the pauses between replays of different options, by the clocks of the runs."""
    spans = []
    for option, opened in trials.items():
        for source in (trial.summary.provenance for trial in opened):
            starts = [zero for zero in source.zero_ns if zero is not None]
            ends = [end for end in source.ended_ns if end is not None]
            if starts and ends:
                spans.append((min(starts), max(ends), option))
    required_s = package.submission.rules.pause_s if package.submission.is_closed else 0
    for (_, end, before), (start, _, after) in itertools.pairwise(sorted(spans)):
        pause_s = (start - end) / 1e9
        if before != after and pause_s < required_s:
            pause = f"{after} began {pause_s:.0f} s after the end of {before}"
            yield f"{pause}; the rules require {required_s:g} s"


def _check_claims(package: Package, trials: Trials) -> Problems:
    """Check that each summary.json agrees with its logs."""
    options = {option.name for option in package.submission.rules.options}
    for run in package.runs:
        path = run / "summary.json"
        name = path.relative_to(package.top).as_posix()
        try:
            claimed = read_json(path)
        except InputError as error:
            yield f"{name} cannot be read: {error.problem}"
            continue
        names = [option for option in sorted(options & trials.keys()) if (run / option).exists()]
        own = {option: trials[option] for option in names}
        computed = {}
        if own:
            computed = json.loads(json.dumps(compute_claims(package.submission, own)))
        for place, claim, logged in find_differences(claimed, computed):
            yield f"{name}: {place} is {claim}, but its logs give {logged}"
        for option, (first, *_) in own.items():
            folder = run.parents[1].name
            model = name_model_folder(first.run.conditions.model)
            if model != folder:
                yield f"{option} is in the directory of model {folder}, but its model is {model}"
