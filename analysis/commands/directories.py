"""Arguments that name runs: run directories, or directories of series that contain them."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import click

PATH: Final = click.Path(path_type=Path)
runs_argument: Final = click.argument("runs", nargs=-1, required=True, type=PATH)
_DEPTH: Final = 4  # folders below the one named: results/scale/users_8/trial_1 has three
_FAILED: Final = re.compile(r"failed-\d+-.*")  # a series moves failed trials to folders of this name


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Replace each directory that is not a run by the run directories below it, in order.

    Failed trials that a series moved aside are left out, and links are not followed. A directory
    without runs is kept: an error names it when it is opened.
    """
    return [run for path in paths for run in ([*_find_below(path, _DEPTH)] or [path])]


def _find_below(path: Path, depth: int) -> Iterator[Path]:
    # Also if it is a broken link: then an error names the run, which must not be left out in silence.
    if os.path.lexists(path / "run.json"):
        yield path
        return
    for folder in _list_folders(path) if depth else []:
        if not folder.name.startswith(".") and not _FAILED.fullmatch(folder.name):
            yield from _find_below(folder, depth - 1)


def _list_folders(path: Path) -> list[Path]:
    try:
        folders = [entry for entry in path.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:  # not a directory, or not readable
        return []
    return sorted(folders, key=lambda folder: _split_numbers(folder.name))


def _split_numbers(name: str) -> list[tuple[int, str]]:
    """Make the sort key of a name: trial_2 comes before trial_10."""
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
