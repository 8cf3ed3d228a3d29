"""Checks of a package's files: manifest, names, completeness, description."""

from collections.abc import Iterator
from typing import Any, Final

from analysis.submission.begin import find_empty_fields, read_description
from analysis.submission.package import digest_file, render_submission_yaml
from analysis.submission.package_tree import (
    DIVISIONS,
    Package,
    list_ranks,
    parse_number,
    read_json,
)
from analysis.submission.rules import Option
from tracegen.errors import InputError

Problems = Iterator[str]

REQUIRED: Final = (
    "clients",
    "deployment",
    "solution.submission_name",
    "solution.friendly_description",
    "solution.nodes",
    "solution.usable_capacity_tib",
    "solution.architecture.product_API",
    "solution.architecture.benchmark_API",
)
"""Fields that the description of a system must have."""
CLIENT: Final = ("chassis", "networking", "drives", "operating_system", "quantity")
"""Fields that the description of each client must have."""


def check_package(package: Package) -> Problems:
    """Report everything that is wrong with the files of a package; open no run."""
    yield from check_files(package)
    yield from _check_names(package)
    yield from _check_complete(package)
    yield from _check_description(package)


def phrase_problem(error: InputError, package: Package) -> str:
    """Phrase an error as a problem of a package, with paths below its directory."""
    text = error.problem if error.subject is None else f"{error.subject}: {error.problem}"
    return text.replace(f"{package.top}/", "")


def check_files(package: Package) -> Problems:
    """Report files that are missing, changed or not listed in the manifest."""
    listed = read_json(package.manifest).get("files")
    if not isinstance(listed, dict):
        yield "manifest.json lists no files"
        return
    files = {path.relative_to(package.top).as_posix(): path for path in package.list_files()}
    for name, digest in listed.items():
        if name not in files:
            yield f"{name} is missing, though manifest.json lists it"
        elif digest_file(files[name]) != digest:
            yield f"{name} was changed: its size or sha256 differs from manifest.json"
    for name in files.keys() - listed.keys():
        yield f"{name} is not listed in manifest.json"


def _check_names(package: Package) -> Problems:
    """Check that names agree with directories, and that the files next to the runs exist."""
    submission = package.submission
    top = package.top.resolve()
    names = {
        "organisation": (top.name, submission.organisation),
        "division": (top.parent.name, submission.division),
        "system": (package.results.name, submission.system),
    }
    for field, (directory, name) in names.items():
        is_copy = field == "division" and directory not in DIVISIONS  # kept outside MLPerf's tree
        if directory != name and not is_copy:
            yield f"manifest.json names the {field} {name}, but its directory is {directory}"
    try:
        text = (package.top / "submission.yaml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = None
    if text != render_submission_yaml(submission):
        yield "submission.yaml is missing, or is not that of this organisation and division"
    for name in ("report.html", "environment.json"):
        if not (package.results / name).exists():
            yield f"{name} is missing"


def _check_complete(package: Package) -> Problems:
    """Check that the package has every option and trial, with equal numbers of ranks."""
    rules = package.submission.rules
    for option in rules.options:
        yield from _check_trials(package, option)
    for surplus in package.options.keys() - {option.name for option in rules.options}:
        yield f"{surplus} is not an option of the rules"
    sizes = {len(list_ranks(trial)) for trials in package.options.values() for trial in trials}
    if len(sizes) > 1:
        counts = ", ".join(map(str, sorted(sizes)))
        yield f"trials have different numbers of ranks ({counts}): a rank is missing or was added"


def _check_trials(package: Package, option: Option) -> Problems:
    if option.name not in package.options:
        yield f"{option.name} ({option.title}) is missing"
        return
    numbers = [parse_number(trial) for trial in package.options[option.name]]
    required = max([*numbers, 1])
    if package.submission.is_closed:
        required = package.submission.rules.trials
    for trial in sorted({*range(1, required + 1), *numbers}):
        if trial not in numbers:
            yield f"trial {trial} of {option.name} is missing"
        elif not 1 <= trial <= required or numbers.count(trial) > 1:
            yield f"trial {trial} of {option.name} is surplus: {required} trials are required"


def _check_description(package: Package) -> Problems:
    """Check the fields of the system's description."""
    name = f"systems/{package.submission.system}.yaml"
    try:
        described = read_description(package.description)["system_under_test"]
    except InputError as error:
        yield phrase_problem(error, package)
        return
    for dotted in REQUIRED:
        if not _has_field(described, dotted):
            yield f"{name} lacks {dotted}"
    system = package.submission.system
    named = (described.get("solution") or {}).get("submission_name")
    if named != system:
        yield f"{name}: solution.submission_name is {named}, but the package's system is {system}"
    if not _are_clients(described.get("clients")):
        yield f"{name} must describe clients, each with {', '.join(CLIENT)}"
    if package.submission.rules.submittable:
        for dotted in find_empty_fields(described):
            yield f"{name}: {dotted} is not filled in"


def _has_field(table: Any, dotted: str) -> bool:
    for key in dotted.split("."):
        if not isinstance(table, dict) or key not in table:
            return False
        table = table[key]
    return True


def _are_clients(clients: Any) -> bool:
    if not isinstance(clients, list) or not clients:
        return False
    return all(isinstance(client, dict) and client.keys() >= {*CLIENT} for client in clients)
