"""What a person names where runs are wanted: run directories, or the directory of a series that holds them."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_DEPTH: Final = 4  # folders below a series: scenarios/autoscaling/users_8/trial_1 has three
_ASIDE: Final = re.compile(r"failed-\d+-.*")


def runs_in(paths: Iterable[Path]) -> list[Path]:
    """Run directories as they are, and in the place of any other directory the run directories below it, in order.

    Of sweeps, repeated trials, scenarios. Those that a series put aside as failed are left out, and links not followed.
    A directory without any is kept: whoever opens it says what is wrong.
    """
    return [run for path in paths for run in ([*_below(path, _DEPTH)] or [path])]


def _below(path: Path, depth: int) -> Iterator[Path]:
    if os.path.lexists(path / "run.json"):
        yield path
        return
    try:
        folders = [one for one in path.iterdir() if one.is_dir() and not one.is_symlink()] if depth else []
    except OSError:  # no directory, or one that may not be read
        return
    for folder in sorted(folders, key=lambda one: _natural(one.name)):
        if not folder.name.startswith(".") and not _ASIDE.fullmatch(folder.name):
            yield from _below(folder, depth - 1)


def _natural(name: str) -> list[tuple[int, str]]:
    """Trial_2 before trial_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
