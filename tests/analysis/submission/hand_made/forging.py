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
from tests.support.crafted_runs import SECOND, Crafted, frame
from tests.support.run_json import run_json
from tests.support.submissions import OPTIONS, Change, edited, replayed, trial_of


@dataclass(frozen=True)
class Forgery:
    """A change to a package.

    Attributes:
        change: what he does.
        listed: what is told of the files, as long as the manifest is the old one; None: that one was changed.
        told: a sentence, where he has computed the manifest anew, and all that package() computes from logs.
        base: what he begins with.
        claims: whether he does compute summary.json anew.
    """

    change: Change
    listed: str | None
    told: str
    base: str = "alone"
    claims: bool = True


def info(run: str, name: str, value: Any) -> Change:
    return lambda package: edited(trial_of(package, run) / "run.json", name, value)


def claim(name: str, value: Any) -> Change:
    return lambda package: edited(package.runs[0] / "summary.json", name, value)


def environment(name: str, value: Any) -> Change:
    return lambda package: edited(package.results / "environment.json", name, value)


def system(name: str, value: Any) -> Change:
    """A field of the system's description, likewise; JSON is YAML, too."""

    def changed(package: Package) -> None:
        package.description.write_text(json.dumps(yaml.safe_load(package.description.read_text())))
        edited(package.description, name, value)

    return changed


def log(change: Callable[[Crafted], object], **ways: Any) -> Change:
    """The second trial of option 1, replayed otherwise, or its log edited."""

    def changed(package: Package) -> None:
        run, place = replayed(OPTIONS[0], 2, **ways), trial_of(package, TWO) / "rank_0"
        change(run)
        shutil.rmtree(place)
        run.save(place)

    return changed


def copied(source: str, target: str) -> Change:
    """A trial, or a rank of one, again."""

    def changed(package: Package) -> None:
        place = trial_of(package, source)
        shutil.copytree(place, place.parents[len(Path(target).parts) - 1] / target, dirs_exist_ok=True)

    return changed


def removed(name: str) -> Change:
    """A file or a folder of the results."""

    def changed(package: Package) -> None:
        (path,) = package.results.glob(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    return changed


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def link(package: Package) -> None:
    path, elsewhere = package.results / "environment.json", package.top.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def relabel(package: Package) -> None:
    """An OPEN package called CLOSED wherever it says so."""
    package.top.parent.rename(package.top.parents[1] / "closed")
    top = package.top.parents[1] / "closed" / "acme"
    edited(top / "results" / "box" / "manifest.json", "division", "closed")
    (top / "submission.yaml").write_text(
        packaging.render_submission_yaml(replace(package.submission, division="closed"))
    )


def sooner(package: Package) -> None:
    """Option 2 begins 29 s after option 1 has ended."""
    last = trial_of(package, TWO) / "rank_0"
    ended_ns = run_json(last)["clock"]["zero_ns"] + int(frame(last)["end_ns"].max())  # type: ignore[arg-type]
    for trial in (1, 2):
        began_ns = ended_ns + (28 + trial) * SECOND
        info(f"option_2/trial_{trial}/rank_0", "clock.zero_ns", began_ns)(package)


def fewer_ranks(package: Package) -> None:
    """A rank taken out of a trial, and the traces of it."""
    removed("kv_cache/*/run/*/option_1/trial_2/rank_1")(package)
    (trial_of(package, TWO) / "run.json").unlink()
    info(f"{TWO}/rank_0", "conditions.ranks", 1)(package)


ONE, TWO = "option_1/trial_1", "option_1/trial_2"
RUN = "option_1/trial_2/rank_0/run.json was changed"
LOG = "option_1/trial_2/rank_0/moves/part-00000.parquet was changed"
CLAIMS = "summary.json was changed: its size or sha256 differs from manifest.json"
