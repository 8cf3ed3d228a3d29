"""Changes of packages: fields that are set, files that are copied, removed or damaged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from analysis.submission.package_tree import Package
from tests.support.crafted_runs import SECOND, Crafted, frame
from tests.support.run_json import edit, run_json
from tests.support.submissions import OPTIONS, Change, replayed, trial_of

ONE, TWO = "option_1/trial_1", "option_1/trial_2"


def set_info(run: str, name: str, value: Any) -> Change:
    return lambda package: edit(trial_of(package, run) / "run.json", {name: value})


def set_claim(name: str, value: Any) -> Change:
    return lambda package: edit(package.runs[0] / "summary.json", {name: value})


def set_environment(name: str, value: Any) -> Change:
    return lambda package: edit(package.results / "environment.json", {name: value})


def set_description(name: str, value: Any) -> Change:
    """Set a field of the system's description; JSON is valid YAML."""

    def changed(package: Package) -> None:
        package.description.write_text(json.dumps(yaml.safe_load(package.description.read_text())))
        edit(package.description, {name: value})

    return changed


def replay_otherwise(change: Callable[[Crafted], object], **ways: Any) -> Change:
    """Replay the second trial of option 1 in another way, or edit its log."""

    def changed(package: Package) -> None:
        run, place = replayed(OPTIONS[0], 2, **ways), trial_of(package, TWO) / "rank_0"
        change(run)
        shutil.rmtree(place)
        run.save(place)

    return changed


def copy(source: str, target: str) -> Change:
    """Copy a trial, a rank or a part."""

    def changed(package: Package) -> None:
        (place,) = package.results.glob(f"kv_cache/*/run/*/{source}")
        if place.is_dir():
            shutil.copytree(place, place.with_name(target), dirs_exist_ok=True)
        else:
            shutil.copy(place, place.with_name(target))

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


def flip(name: str, at: int) -> Change:
    return lambda package: flip_bit(trial_of(package, TWO) / name, at)


def replace_by_link(package: Package) -> None:
    path, elsewhere = package.results / "environment.json", package.top.parents[1] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def begin_too_soon(package: Package) -> None:
    """Begin option 2 29 s after the end of option 1."""
    last = trial_of(package, TWO) / "rank_0"
    ended_ns = run_json(last)["clock"]["zero_ns"] + int(frame(last)["end_ns"].max())  # type: ignore[arg-type]
    for trial in (1, 2):
        set_info(f"option_2/trial_{trial}/rank_0", "clock.zero_ns", ended_ns + (28 + trial) * SECOND)(package)


def swap_parts(package: Package) -> None:
    """Put a part of the first trial into the second."""
    one, two = (trial_of(package, trial) / "rank_0" / "moves" / "part-00000.parquet" for trial in (ONE, TWO))
    shutil.copy(one, two)
