"""Packaging: a submission's directory to MLPerf's tree, with summary.json, the report and a manifest."""

import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from analysis.log import Targets
from analysis.report import export
from analysis.report.gather import gather
from analysis.runs import Info, open_run
from analysis.submission.about import description, write
from analysis.submission.claims import Trial, claims, open_trial
from analysis.submission.layout import SCHEMA, About, Package, about_of, number, opened_as
from tracegen.schema import InputError

_LOG: Final = ("run.json", "device.parquet")


def package(work: Path, results: Path) -> Package:
    """Make the package of a submission whose replays are all complete; one made before from it is replaced.

    Raises:
        InputError: replays are missing, or a package is in the way that was not made so.
    """
    about = about_of(work / "submission.json")
    runs = _replays(work, about)
    made = Package(results / about.division / about.organisation, about)
    _check_replaceable(made)
    partial = made.results.with_name(f".{about.system}.partial")
    if partial.exists():
        shutil.rmtree(partial)  # what a package cut short left: its name is ours
    description(work / "system.yaml")
    try:
        _fill(partial, runs, work)
        _place(partial, made, work)
    except OSError as error:
        raise InputError(f"{error.filename or made.top}: {error.strerror}; choose another --results.") from None
    return made


def digest(path: Path) -> dict[str, Any]:
    """Size and sha256 of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def submission_yaml(about: About) -> str:
    """What stands above all systems of an organisation."""
    return yaml.safe_dump(
        {"schema": SCHEMA, "organisation": about.organisation, "division": about.division, "benchmark": "kv_cache"}
    )


def summaries(runs: Path, about: About, opened: dict[str, list[Trial]]) -> str:
    """summary.json of a model's directory.

    Args:
        runs: the directory.
        about: whose.
        opened: trials by option.
    """
    return (
        json.dumps(claims(about, {name: opened[name] for name in sorted(opened) if (runs / name).exists()}), indent=1)
        + "\n"
    )


def _replays(work: Path, about: About) -> dict[str, list[Path]]:
    """The run directories of each option's trials.

    Raises:
        InputError: one is missing or not complete.
    """
    trials = json.loads((work / "submission.json").read_text())["trials"]
    found: dict[str, list[Path]] = {}
    for option in about.rules.options:
        for trial in range(1, trials + 1):
            place = work / "replays" / option.name / f"trial_{trial}"
            if not place.exists():
                raise InputError(f"{place} is missing; make the submission again, which replays what is missing.")
            if (run := open_run(place)).status != "complete":
                raise InputError(f"{place} is {run.status}; make the submission again, which replays it.")
            found.setdefault(option.name, []).append(place)
    return found


def _check_replaceable(made: Package) -> None:
    if not made.results.exists():
        return
    known = json.loads(made.manifest.read_text())["files"] if made.manifest.exists() else {}
    for path in made.files():
        name = path.relative_to(made.top).as_posix()
        if path.is_relative_to(made.results) and known.get(name) != digest(path):
            raise InputError(f"{path} is not as it was packaged; move {made.results} away, or name another --results.")


def _fill(place: Path, replays: dict[str, list[Path]], work: Path) -> None:
    """Copy what was measured into a tree of MLPerf's form."""
    infos = {path: _info(path) for paths in replays.values() for path in paths}
    starts: dict[str, str] = {}
    for info in infos.values():
        model, began = info["conditions"]["model"], str(info.get("started"))
        starts[model] = min(began, starts.get(model, began))
    for option, trials in replays.items():
        for trial in trials:
            model = infos[trial]["conditions"]["model"]
            time = datetime.fromisoformat(starts[model]).strftime("%Y%m%d_%H%M%S")
            target = place / "kv_cache" / model / "run" / time / option
            _copy_run(trial, target / trial.name)
            shutil.copyfile(trial.with_name(f"log-{trial.name}.txt"), target / f"log-{trial.name}.txt")
    shutil.copyfile(work / "environment.json", place / "environment.json")


def _info(trial: Path) -> Info:
    return open_run(trial).infos[0]


def _copy_run(source: Path, target: Path) -> None:
    """A run's files: one process becomes the only rank."""
    ranks = sorted(source.glob("rank_*"), key=number)
    if ranks:
        target.mkdir(parents=True)
        shutil.copyfile(source / "run.json", target / "run.json")
    for rank, place in enumerate(ranks or [source]):
        own = target / f"rank_{rank}"
        (own / "moves").mkdir(parents=True)
        for file in (*(place / name for name in _LOG), *sorted((place / "moves").glob("part-*.parquet"))):
            if file.exists():
                shutil.copyfile(file, own / file.relative_to(place))


def _place(partial: Path, made: Package, work: Path) -> None:
    """Judge what was copied, list every file of it, and put it in its place."""
    staged = Package(
        partial.parent.parent, About(made.about.organisation, partial.name, made.about.division, made.about.scale)
    )
    opened = {option: [open_trial(trial) for trial in trials] for option, trials in staged.options.items()}
    for run in staged.runs:
        write(run / "summary.json", summaries(run, made.about, opened))
    every = [trial for trials in staged.options.values() for trial in trials]
    names = [f"{trial.parent.name}/{trial.name}" for trial in every]
    report = gather([opened_as(trial) for trial in every], Targets(), names=names)
    (partial / "report.html").write_bytes(export.as_html(report))
    made.description.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(work / "system.yaml", made.description)
    write(made.top / "submission.yaml", submission_yaml(made.about))
    if made.results.exists():
        shutil.rmtree(made.results)  # every file of it was made by us and is unchanged
    partial.rename(made.results)
    listed = {path.relative_to(made.top).as_posix(): digest(path) for path in made.files()}
    manifest = {"schema": SCHEMA, **vars(made.about), "files": dict(sorted(listed.items()))}
    write(made.manifest, json.dumps(manifest, indent=1) + "\n")
