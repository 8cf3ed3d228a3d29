"""Packaging: a submission's directory to MLPerf's tree, with summary.json, the report and a manifest."""

import hashlib
import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import gather
from analysis.runs.opening import open_run
from analysis.submission.begin import description, write
from analysis.submission.package_tree import (
    SCHEMA,
    About,
    Package,
    about_of,
    model_folder,
    number,
    opened_as,
    read_json,
)
from analysis.submission.summary_json import Trial, claims, open_trial
from replayer.schema import RunInfo
from tracegen.errors import InputError

_LOG: Final = ("run.json", "device.parquet")


def package(work: Path, results: Path) -> Package:
    """Make the package of a submission whose replays are all complete; one made before from it is replaced.

    Raises:
        InputError: replays are missing, or a package is in the way that was not made so.
    """
    about = about_of(work / "submission.json")
    runs = _replays(work, about)
    made = Package(results / about.division / about.organisation, about)
    _check_replaceable(made, runs)
    for needed in (work / "environment.json", *(_log(trial) for trials in runs.values() for trial in trials)):
        if not needed.exists():
            raise InputError(f"{needed} is missing, which a package holds; make the submission anew.")
    partial = made.results.with_name(f".{about.system}.partial")
    if partial.exists():
        shutil.rmtree(partial)  # what a package cut short left: its name is ours
    description(work / "system.yaml")
    try:
        _fill(partial, runs, work)
        _place(partial, made, work)
    except OSError as error:
        raise InputError(f"{error.filename or made.top}: {error.strerror}; choose another --results.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
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
    trials = read_json(work / "submission.json").get("trials")
    if type(trials) is not int or trials < 1:
        raise InputError(f"{work}/submission.json says no number of trials; `analysis submission begin` writes it.")
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


def _check_replaceable(made: Package, replays: dict[str, list[Path]]) -> None:
    """What is there must be a package of these replays that nobody has changed."""
    if not made.results.exists():
        return
    known = read_json(made.manifest).get("files") if made.manifest.exists() else None
    if not isinstance(known, dict):
        raise InputError(f"{made.results} is no package that was made here; move it away, or name another --results.")
    for path in made.files():
        name = path.relative_to(made.top).as_posix()
        if known.get(name) != digest(path):
            where = (
                "fill in system.yaml in the submission's own directory" if path == made.description else "move it away"
            )
            raise InputError(f"{path} is not as it was packaged; {where}, or name another --results.")
    here = {digest(one)["sha256"] for trials in replays.values() for trial in trials for one in trial.rglob("run.json")}
    if other := next(
        (name for name, one in known.items() if name.endswith("run.json") and one["sha256"] not in here), None
    ):
        raise InputError(f"{made.top / other} is of other replays than these; move it away, or name another --results.")


def _fill(place: Path, replays: dict[str, list[Path]], work: Path) -> None:
    """Copy what was measured into a tree of MLPerf's form."""
    infos = {path: _info(path) for paths in replays.values() for path in paths}
    starts: dict[str, str] = {}
    for info in infos.values():
        model, began = info.conditions.model, str(info.started)
        starts[model] = min(began, starts.get(model, began))
    for option, trials in replays.items():
        for trial in trials:
            model = infos[trial].conditions.model
            time = datetime.fromisoformat(starts[model]).strftime("%Y%m%d_%H%M%S")
            target = place / "kv_cache" / model_folder(model) / "run" / time / option
            _copy_run(trial, target / trial.name)
            shutil.copyfile(_log(trial), target / _log(trial).name)
    shutil.copyfile(work / "environment.json", place / "environment.json")


def _log(trial: Path) -> Path:
    return trial.with_name(f"log-{trial.name}.txt")


def _info(trial: Path) -> RunInfo:
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
    text = submission_yaml(made.about)
    write(partial / "manifest.json", _manifest(partial, made, work, text))
    made.description.parent.mkdir(parents=True, exist_ok=True)
    write(made.description, (work / "system.yaml").read_text(encoding="utf-8"))
    write(made.top / "submission.yaml", text)
    if made.results.exists():
        shutil.rmtree(made.results)  # every file of it was made by us, is unchanged, and is in the new one
    partial.rename(made.results)


def _manifest(partial: Path, made: Package, work: Path, text: str) -> str:
    """Every file under the name that it is going to have."""
    files = (path for path in partial.rglob("*") if not path.is_dir())
    listed = {f"results/{made.about.system}/{path.relative_to(partial).as_posix()}": digest(path) for path in files}
    listed[made.description.relative_to(made.top).as_posix()] = digest(work / "system.yaml")
    listed["submission.yaml"] = {"bytes": len(text.encode()), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps({"schema": SCHEMA, **vars(made.about), "files": dict(sorted(listed.items()))}, indent=1) + "\n"
