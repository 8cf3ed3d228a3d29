"""Packaging: copies the replays of a submission into MLPerf's tree and adds claims and manifest."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Final

import yaml

from analysis.log.targets import Targets
from analysis.report.answer import make_report
from analysis.report.systems import gather
from analysis.runs.opening import open_run
from analysis.submission.begin import encode_json, read_description, write_file
from analysis.submission.claims import Trials, compute_claims, open_trial, select_model
from analysis.submission.package_tree import (
    MOST_BYTES,
    SCHEMA,
    Begun,
    Digest,
    Manifest,
    Package,
    Submission,
    find_run_directory,
    name_model_folder,
    parse_number,
    read_json,
)
from replayer.schema import check_file
from tracegen.errors import InputError
from views.formats import FORMATS

_ELSEWHERE: Final = "move it away, or choose another `results`"
# The run directory of each trial, by option.
_Replays = Mapping[str, Sequence[Path]]


def make_package(work: Path, results: Path) -> Package:
    """Make the package of a submission whose replays are all complete.

    A package that was made from the same replays before is replaced.

    Raises:
        InputError: replays are missing, or files that packaging did not make are in the way.
    """
    begun: Begun = read_json(work / "submission.json", Begun)
    submission = Submission(**begun.names)
    submission.check()
    replays = _find_replays(work, begun)
    read_description(work / "system.yaml")
    package = Package(results / submission.division / submission.organisation, submission)
    _check_replaceable(package, replays)
    # Staged beside its place, on the same file system: it appears whole, by renaming.
    staged = Package(package.top / f".{submission.system}.partial", submission)
    shutil.rmtree(staged.top, ignore_errors=True)  # left by packaging that was interrupted
    try:
        _copy_replays(staged, replays, work)
        _complete(staged)
        shutil.rmtree(package.results, ignore_errors=True)  # of the same replays
        for path in (staged.description, staged.results, staged.top / "submission.yaml"):
            target = package.top / path.relative_to(staged.top)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    except OSError as error:
        subject = error.filename or package.top
        raise InputError(str(error.strerror or error), "choose another `results`", subject=subject) from None
    finally:
        shutil.rmtree(staged.top, ignore_errors=True)
    return package


def digest_file(path: Path) -> Digest:
    """Return the size and the digest of a file."""
    with path.open("rb") as file:
        return Digest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def render_submission_yaml(submission: Submission) -> str:
    """Render submission.yaml, which all systems of an organisation share."""
    names = {"organisation": submission.organisation, "division": submission.division}
    return yaml.safe_dump({"schema": SCHEMA, **names, "benchmark": "kv_cache"})


def render_summary_json(run: Path, submission: Submission, options: Trials) -> str:
    """Render summary.json of a model's directory."""
    return encode_json(compute_claims(submission, select_model(run, options)))


def _find_replays(work: Path, begun: Begun) -> _Replays:
    """Find the replays of a submission, and check that all of their files can be packaged.

    Raises:
        InputError: a trial or a file is missing, or a trial is not complete, or predicted.
    """
    replays = {
        option.name: [work / "replays" / option.name / f"trial_{number}" for number in range(1, begun.trials + 1)]
        for option in begun.rules.options
    }
    for trial in chain(*replays.values()):
        problem = "missing"
        if trial.exists():
            run = open_run(trial)
            problem = "" if run.status == "complete" else f"not complete but {run.status}"
            if any(info.prediction is not None for info in run.infos):
                problem = "predicted, but a submission is of measurements"
        if problem:
            remedy = "remove what is there, and repeat the submission's command, which replays it"
            raise InputError(problem, remedy, subject=trial)
    logs = map(_console_log, chain(*replays.values()))
    for file in (*logs, work / "environment.json"):  # other files are read when the runs are judged
        try:
            check_file(file, MOST_BYTES)
        except OSError:
            problem = "missing, but a package must contain it"
            raise InputError(problem, "make the submission again", subject=file) from None
    return replays


def check_files(package: Package) -> Iterator[str]:
    """Report files that are missing, changed or not listed in the manifest."""
    manifest: Manifest = read_json(package.manifest, Manifest)
    files = {path.relative_to(package.top).as_posix(): path for path in package.list_files()}
    for name, digest in manifest.files.items():
        if name not in files:
            yield f"{name} is missing, though manifest.json lists it"
        elif digest_file(files[name]) != digest:
            yield f"{name} was changed: its size or sha256 differs from manifest.json"
    for name in files.keys() - manifest.files.keys():
        yield f"{name} is not listed in manifest.json"


def _check_replaceable(package: Package, replays: _Replays) -> None:
    """Check that existing results are an unchanged package of these replays."""
    if not package.results.exists():
        return
    if not package.manifest.exists():
        raise InputError("not a package that this tool made", _ELSEWHERE, subject=package.results)
    for problem in check_files(package):
        remedy = f"edit system.yaml in the submission's own directory; else {_ELSEWHERE}"
        raise InputError(f"changed since it was packaged: {problem}", remedy, subject=package.top)
    manifest: Manifest = read_json(package.manifest, Manifest)
    digests = {digest_file(info) for place in chain(*replays.values()) for info in place.rglob("run.json")}
    for name, digest in manifest.files.items():
        if name.endswith("run.json") and digest not in digests:
            raise InputError("from other replays than this submission's", _ELSEWHERE, subject=package.top / name)


def _copy_replays(staged: Package, replays: _Replays, work: Path) -> None:
    """Copy the replays, and what describes them, into a tree of MLPerf's form."""
    infos = {trial: open_run(trial).infos[0] for trial in chain(*replays.values())}
    began = datetime.fromisoformat(min(str(info.started) for info in infos.values()))
    for trial, info in infos.items():
        model = staged.results / "kv_cache" / name_model_folder(info.conditions.model)
        place = model / "run" / began.strftime("%Y%m%d_%H%M%S") / trial.parent.name
        _copy_trial(trial, place / trial.name)
        shutil.copyfile(_console_log(trial), place / _console_log(trial).name)
    shutil.copyfile(work / "environment.json", staged.results / "environment.json")
    staged.description.parent.mkdir()
    shutil.copyfile(work / "system.yaml", staged.description)
    write_file(staged.top / "submission.yaml", render_submission_yaml(staged.submission))


def _complete(staged: Package) -> None:
    """Add claims, report and manifest to the copies."""
    options = {name: [open_trial(trial) for trial in trials] for name, trials in staged.options.items()}
    for run in staged.runs:
        write_file(run / "summary.json", render_summary_json(run, staged.submission, options))
    (staged.results / "report.html").write_bytes(_render_report(staged))
    digests = {path.relative_to(staged.top).as_posix(): digest_file(path) for path in staged.list_files()}
    write_file(staged.manifest, encode_json(Manifest(**staged.submission.names, files=digests)))


def _console_log(trial: Path) -> Path:
    return trial.with_name(f"log-{trial.name}.txt")


def _copy_trial(source: Path, target: Path) -> None:
    """Copy the files of a trial; the only process of a run becomes rank 0."""
    ranks = sorted(source.glob("rank_*"), key=parse_number)
    for number, rank in enumerate(ranks or [source]):
        place = target / f"rank_{number}"
        (place / "moves").mkdir(parents=True)
        # A run without counters has no device.parquet.
        for file in (rank / "run.json", *rank.glob("device.parquet"), *rank.glob("moves/part-*.parquet")):
            shutil.copyfile(file, place / file.relative_to(rank))
    if ranks:
        shutil.copyfile(source / "run.json", target / "run.json")


def _render_report(staged: Package) -> bytes:
    trials = [*chain(*staged.options.values())]
    labels = [*dict.fromkeys((trial.parent.name, str(trial.parent)) for trial in trials)]
    runs = [find_run_directory(trial) for trial in trials]
    return FORMATS["html"](make_report(gather(runs, Targets(), labels=labels))).encode()
