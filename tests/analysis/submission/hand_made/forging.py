"""Changes that a forger makes to a package."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from analysis.submission import package as packaging
from analysis.submission.package_tree import Package
from replayer.schema import PREDICTED_RUN_VERSION
from tests.support.crafted_runs import SECOND, Crafted, frame
from tests.support.predicted_runs import PROFILE
from tests.support.run_json import run_json
from tests.support.submissions import OPTIONS, Change, edited, replayed, trial_of


@dataclass(frozen=True)
class Forgery:
    """A change to a package.

    Attributes:
        change: the change.
        listed: a problem that the old manifest shows; None: the manifest itself was changed.
        problem: a problem that is reported although manifest and claims were computed again.
        base: name of the package that is changed.
        claims: whether summary.json is computed again.
    """

    change: Change
    listed: str | None
    problem: str
    base: str = "alone"
    claims: bool = True


def set_info(run: str, name: str, value: Any) -> Change:
    return lambda package: edited(trial_of(package, run) / "run.json", name, value)


def set_claim(name: str, value: Any) -> Change:
    return lambda package: edited(package.runs[0] / "summary.json", name, value)


def set_environment(name: str, value: Any) -> Change:
    return lambda package: edited(package.results / "environment.json", name, value)


def set_description(name: str, value: Any) -> Change:
    """Set a field of the system's description; JSON is valid YAML."""

    def changed(package: Package) -> None:
        package.description.write_text(json.dumps(yaml.safe_load(package.description.read_text())))
        edited(package.description, name, value)

    return changed


def change_log(change: Callable[[Crafted], object], **ways: Any) -> Change:
    """Replay the second trial of option 1 in another way, or edit its log."""

    def changed(package: Package) -> None:
        run, place = replayed(OPTIONS[0], 2, **ways), trial_of(package, TWO) / "rank_0"
        change(run)
        shutil.rmtree(place)
        run.save(place)

    return changed


def copy_run(source: str, target: str) -> Change:
    """Copy a trial, or a rank of a trial."""

    def changed(package: Package) -> None:
        place = trial_of(package, source)
        shutil.copytree(place, place.parents[len(Path(target).parts) - 1] / target, dirs_exist_ok=True)

    return changed


def remove(name: str) -> Change:
    """Remove a file or a folder of the results."""

    def changed(package: Package) -> None:
        (path,) = package.results.glob(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return changed


def flip_bit(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def marked(run_json: Path) -> None:
    """Mark a run as predicted."""
    edited(run_json, "run_version", PREDICTED_RUN_VERSION)
    edited(run_json, "prediction", PROFILE)


def replace_by_link(package: Package) -> None:
    path, elsewhere = package.results / "environment.json", package.top.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def relabel_as_closed(package: Package) -> None:
    """Call an OPEN package CLOSED in all of its files."""
    package.top.parent.rename(package.top.parents[1] / "closed")
    top = package.top.parents[1] / "closed" / "acme"
    edited(top / "results" / "box" / "manifest.json", "division", "closed")
    (top / "submission.yaml").write_text(
        packaging.render_submission_yaml(replace(package.submission, division="closed"))
    )


def begin_too_soon(package: Package) -> None:
    """Begin option 2 29 s after the end of option 1."""
    last = trial_of(package, TWO) / "rank_0"
    ended_ns = run_json(last)["clock"]["zero_ns"] + int(frame(last)["end_ns"].max())  # type: ignore[arg-type]
    for trial in (1, 2):
        began_ns = ended_ns + (28 + trial) * SECOND
        set_info(f"option_2/trial_{trial}/rank_0", "clock.zero_ns", began_ns)(package)


def remove_rank(package: Package) -> None:
    """Remove a rank of a trial, and every mention of it."""
    remove("kv_cache/*/run/*/option_1/trial_2/rank_1")(package)
    (trial_of(package, TWO) / "run.json").unlink()
    set_info(f"{TWO}/rank_0", "conditions.ranks", 1)(package)


ONE, TWO = "option_1/trial_1", "option_1/trial_2"
RUN = "option_1/trial_2/rank_0/run.json was changed"
LOG = "option_1/trial_2/rank_0/moves/part-00000.parquet was changed"
CLAIMS = "summary.json was changed: its size or sha256 differs from manifest.json"
