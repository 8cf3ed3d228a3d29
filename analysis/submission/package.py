"""Packaging: copies the replays of a submission into MLPerf's tree and adds claims and manifest."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from analysis.log.log import Targets
from analysis.report import export
from analysis.report.data import gather
from analysis.runs.opening import open_run
from analysis.submission.begin import read_description, write_file
from analysis.submission.package_tree import (
    SCHEMA,
    Package,
    Submission,
    find_run_directory,
    name_model_folder,
    parse_number,
    read_json,
    read_submission,
)
from analysis.submission.summary_json import PackagedTrial, compute_claims, open_trial
from replayer.schema import RunInfo
from tracegen.errors import InputError

_RANK_FILES: Final = ("run.json", "device.parquet")
_REPEAT: Final = "repeat the submission's command"


def make_package(work: Path, results: Path) -> Package:
    """Make the package of a submission whose replays are all complete.

    A package that was made from the same replays before is replaced.

    Args:
        work: the submission's directory.
        results: root of the tree of packages.

    Raises:
        InputError: replays are missing, or files that packaging did not make are in the way.
    """
    submission = read_submission(work / "submission.json")
    trials = _find_replays(work, submission)
    package = Package(results / submission.division / submission.organisation, submission)
    _check_replaceable(package, trials)
    _check_files(work, trials)
    partial = package.results.with_name(f".{submission.system}.partial")
    if partial.exists():
        shutil.rmtree(partial)  # left by packaging that was interrupted: nobody else uses this name
    read_description(work / "system.yaml")
    try:
        _copy_replays(partial, trials, work)
        _complete(partial, package, work)
    except OSError as error:
        raise InputError(
            str(error.strerror),
            "choose another `results`",
            subject=error.filename or package.top,
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return package


def digest_file(path: Path) -> dict[str, Any]:
    """Return the size (bytes) and the SHA-256 of a file."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": sha256}


def render_submission_yaml(submission: Submission) -> str:
    """Render submission.yaml, which all systems of an organisation share."""
    content = {
        "schema": SCHEMA,
        "organisation": submission.organisation,
        "division": submission.division,
        "benchmark": "kv_cache",
    }
    return yaml.safe_dump(content)


def render_summary_json(
    run: Path,
    submission: Submission,
    options: dict[str, list[PackagedTrial]],
) -> str:
    """Render summary.json of a model's directory.

    Args:
        run: the directory.
        submission: names and kind of the package.
        options: the trials of each option; those of other models are left out.
    """
    trials = {name: options[name] for name in sorted(options) if (run / name).exists()}
    return json.dumps(compute_claims(submission, trials), indent=1) + "\n"


def _find_replays(work: Path, submission: Submission) -> dict[str, list[Path]]:
    """Find the run directories of each option's trials.

    Raises:
        InputError: a trial is missing, not complete, or predicted.
    """
    count = read_json(work / "submission.json").get("trials")
    if type(count) is not int or count < 1:
        raise InputError(
            "the number of trials is missing",
            "run `analysis submission begin` again",
            subject=work / "submission.json",
        )
    trials: dict[str, list[Path]] = {}
    for option in submission.rules.options:
        for number in range(1, count + 1):
            trial = work / "replays" / option.name / f"trial_{number}"
            if not trial.exists():
                raise InputError("missing", f"{_REPEAT}, which replays it", subject=trial)
            run = open_run(trial)
            if any(info.prediction is not None for info in run.infos):
                raise InputError(
                    "predicted, but a submission is of measurements",
                    f"remove it; {_REPEAT}, which replays it",
                    subject=trial,
                )
            status = run.status
            if status != "complete":
                raise InputError(
                    f"not complete but {status}",
                    f"{_REPEAT}, which replays it",
                    subject=trial,
                )
            trials.setdefault(option.name, []).append(trial)
    return trials


def _check_files(work: Path, trials: dict[str, list[Path]]) -> None:
    """Check that the environment and the console log of each trial exist."""
    logs = (_console_log(trial) for paths in trials.values() for trial in paths)
    for path in (work / "environment.json", *logs):
        if not path.exists():
            raise InputError(
                "missing, but a package must contain it",
                "make the submission again",
                subject=path,
            )


def _check_replaceable(package: Package, trials: dict[str, list[Path]]) -> None:
    """Check that existing results are an unchanged package of these replays."""
    if not package.results.exists():
        return
    manifest = package.manifest
    known = read_json(manifest).get("files") if manifest.exists() else None
    if not isinstance(known, dict):
        raise InputError(
            "not a package that this tool made",
            "move it away, or choose another `results`",
            subject=package.results,
        )
    for path in package.list_files():
        if known.get(path.relative_to(package.top).as_posix()) != digest_file(path):
            remedy = "move it away"
            if path == package.description:
                remedy = "edit system.yaml in the submission's own directory"
            raise InputError(
                "changed since it was packaged",
                f"{remedy}, or choose another `results`",
                subject=path,
            )
    other = _find_other_replay(known, trials)
    if other is not None:
        raise InputError(
            "from other replays than this submission's",
            "move it away, or choose another `results`",
            subject=package.top / other,
        )


def _find_other_replay(known: dict[str, Any], trials: dict[str, list[Path]]) -> str | None:
    """Return the name of a run.json in the manifest that is not of these replays, or None."""
    places = [trial for paths in trials.values() for trial in paths]
    infos = [path for place in places for path in place.rglob("run.json")]
    digests = {digest_file(path)["sha256"] for path in infos}
    for name, entry in known.items():
        if name.endswith("run.json") and entry["sha256"] not in digests:
            return name
    return None


def _copy_replays(target: Path, trials: dict[str, list[Path]], work: Path) -> None:
    """Copy the replays and the environment into a tree of MLPerf's form."""
    infos = {path: _read_info(path) for paths in trials.values() for path in paths}
    starts: dict[str, str] = {}
    for info in infos.values():
        model = info.conditions.model
        started = str(info.started)
        starts[model] = min(started, starts.get(model, started))
    for option, paths in trials.items():
        for trial in paths:
            model = infos[trial].conditions.model
            time = datetime.fromisoformat(starts[model]).strftime("%Y%m%d_%H%M%S")
            place = target / "kv_cache" / name_model_folder(model) / "run" / time / option
            _copy_trial(trial, place / trial.name)
            shutil.copyfile(_console_log(trial), place / _console_log(trial).name)
    shutil.copyfile(work / "environment.json", target / "environment.json")


def _console_log(trial: Path) -> Path:
    return trial.with_name(f"log-{trial.name}.txt")


def _read_info(trial: Path) -> RunInfo:
    return open_run(trial).infos[0]


def _copy_trial(source: Path, target: Path) -> None:
    """Copy the files of a trial; the only process of a run becomes rank 0."""
    ranks = sorted(source.glob("rank_*"), key=parse_number)
    if ranks:
        target.mkdir(parents=True)
        shutil.copyfile(source / "run.json", target / "run.json")
    for number, rank in enumerate(ranks or [source]):
        place = target / f"rank_{number}"
        (place / "moves").mkdir(parents=True)
        for file in _list_rank_files(rank):
            shutil.copyfile(file, place / file.relative_to(rank))


def _list_rank_files(rank: Path) -> Iterator[Path]:
    files = (rank / name for name in _RANK_FILES)
    yield from (file for file in files if file.exists())
    yield from sorted((rank / "moves").glob("part-*.parquet"))


def _complete(partial: Path, package: Package, work: Path) -> None:
    """Add claims, report and manifest to the copied replays, and move them into the package."""
    submission = package.submission
    staged = Package(
        partial.parent.parent,
        Submission(submission.organisation, partial.name, submission.division, submission.scale),
    )
    _write_claims(staged, submission)
    (partial / "report.html").write_bytes(_render_report(staged))
    text = render_submission_yaml(submission)
    write_file(partial / "manifest.json", _render_manifest(partial, package, work, text))
    package.description.parent.mkdir(parents=True, exist_ok=True)
    write_file(package.description, (work / "system.yaml").read_text(encoding="utf-8"))
    write_file(package.top / "submission.yaml", text)
    if package.results.exists():
        shutil.rmtree(package.results)  # an unchanged package of these replays: nothing is lost
    partial.rename(package.results)


def _write_claims(staged: Package, submission: Submission) -> None:
    options = {}
    for option, trials in staged.options.items():
        options[option] = [open_trial(trial) for trial in trials]
    for run in staged.runs:
        write_file(run / "summary.json", render_summary_json(run, submission, options))


def _render_report(staged: Package) -> bytes:
    trials = [trial for paths in staged.options.values() for trial in paths]
    names = [f"{trial.parent.name}/{trial.name}" for trial in trials]
    runs = [find_run_directory(trial) for trial in trials]
    return export.as_html(gather(runs, Targets(), names=names))


def _render_manifest(partial: Path, package: Package, work: Path, submission_yaml: str) -> str:
    """List every file under its final name, with size and digest."""
    submission = package.submission
    encoded = submission_yaml.encode()
    files = {
        f"results/{submission.system}/{path.relative_to(partial).as_posix()}": digest_file(path)
        for path in partial.rglob("*")
        if not path.is_dir()
    }
    description = package.description.relative_to(package.top).as_posix()
    files[description] = digest_file(work / "system.yaml")
    files["submission.yaml"] = {
        "bytes": len(encoded),
        "sha256": hashlib.sha256(encoded).hexdigest(),
    }
    content = {"schema": SCHEMA, **vars(submission), "files": dict(sorted(files.items()))}
    return json.dumps(content, indent=1) + "\n"
