"""The control groups and mounts of this process; groups limit its memory and its CPU time (cgroups(7))."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mount:
    """A line of mountinfo."""

    number: str  # of the file system, as major:minor
    root: str  # the directory of the file system that is mounted
    point: str  # the directory it is mounted on
    options: str  # of the mount
    kind: str  # type of the file system
    device: str  # the device that is mounted
    super_options: str  # options of the file system


def list_mounts(path: Path = Path("/proc/self/mountinfo")) -> list[Mount]:
    """List the mounts of this process.

    Raises:
        OSError: the kernel does not list them.
    """
    entries = []
    for line in path.read_text().splitlines():
        before, _, after = line.partition(" - ")
        _, _, number, root, point, options, *_ = map(_unescape, before.split())
        kind, device, super_options = map(_unescape, after.split())
        entries.append(Mount(number, root, point, options, kind, device, super_options))
    return entries


def _unescape(word: str) -> str:
    """Decode the spaces and backslashes of a word, which mountinfo writes as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)


def list_groups(
    controller: str,
    groups: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
    root: Path = Path("/"),
) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of the process's group and of those above it, and whether each is of version 1.

    The controller, memory or cpu, is what the groups limit. `root` is that of the paths in `mounts`.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
        trees = list_mounts(mounts)
    except OSError:
        return
    for _, controllers, group in lines:
        is_v1 = bool(controllers)
        if is_v1 and controller not in controllers.split(","):
            continue
        for tree in trees:
            if tree.kind == "cgroup2" if not is_v1 else _has(tree, controller):
                top = root / tree.point.lstrip("/")
                # Inside a container the container's own group is mounted as the root of the tree.
                is_inside = Path(group).is_relative_to(tree.root)
                folder = top / (Path(group).relative_to(tree.root) if is_inside else "")
                above = (place for place in folder.parents if place.is_relative_to(top))
                yield from ((place, is_v1) for place in (folder, *above))


def _has(tree: Mount, controller: str) -> bool:
    """Whether a mount is a tree of version 1 with this controller."""
    return tree.kind == "cgroup" and controller in tree.super_options.split(",")


def read_numbers(file: str | Path) -> dict[str, int]:
    """Read the lines of a name and a number; none if the file cannot be read."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return {}
    words = (line.replace(":", "").split() for line in lines)
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdecimal()}
