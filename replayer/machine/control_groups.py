"""The control groups of this process, which limit its memory and its CPU time (cgroups(7))."""

from collections.abc import Iterator
from pathlib import Path

from replayer.machine import description


def list_groups(
    controller: str,
    groups: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
    root: Path = Path("/"),
) -> Iterator[tuple[Path, bool]]:
    """Yield the folders of the process's group and of all visible groups above it.

    Args:
        controller: what the groups limit: memory or cpu.
        groups: file that lists the process's groups.
        mounts: file that lists where the groups' trees are mounted.
        root: of the paths in `mounts`.

    Yields:
        A folder, and whether its files are those of version 1.
    """
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
        trees = description.mounts(mounts)
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


def _has(tree: description.Mount, controller: str) -> bool:
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
