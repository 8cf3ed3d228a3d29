"""Free memory of a process: the machine's, and that of the control groups it runs in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replayer.machine import description


@dataclass(frozen=True)
class _GroupFiles:
    """The names of a memory control group's files.

    Attributes:
        limit: file with the limit in bytes.
        usage: file with the usage in bytes.
        cached: field of memory.stat that counts cached files which the kernel gives up first.
    """

    limit: str
    usage: str
    cached: str


_V1: Final = _GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2: Final = _GroupFiles("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True)
class Memory:
    """The memory that is available.

    Attributes:
        bytes: 0 if the kernel does not say.
        limit: the control group's file and limit in words, if a group allows less than is free.
    """

    bytes: int
    limit: str | None = None

    def format(self, shares: int = 1) -> str:
        """Format the memory, or one of several equal shares of it, as a clause."""
        limit = f" ({self.limit})" if self.limit else ""
        return f"{self.bytes // shares / 2**30:.1f} GiB of memory are available{limit}"


def available(
    groups: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
    root: Path = Path("/"),
) -> Memory:
    """Return the least of what the kernel calls available and what each control group leaves.

    A control group leaves its limit less its usage; cached files that the kernel gives up first
    are not usage. All groups above the process count.

    Args:
        groups: file that lists the process's groups (cgroups(7)).
        mounts: file that lists where the groups' trees are mounted.
        root: of the paths in `mounts`.
    """
    memory = Memory(description.meminfo("MemAvailable"))
    for folder, files in _list_groups(groups, mounts, root):
        limit = _read_number(folder / files.limit)
        usage = _read_number(folder / files.usage)
        if limit is None or usage is None:
            continue
        free = max(0, limit - usage + _read_statistic(folder / "memory.stat", files.cached))
        if not memory.bytes or free < memory.bytes:
            memory = Memory(free, f"{folder / files.limit} allows {limit / 2**20:,.0f} MiB")
    return memory


def _list_groups(groups: Path, mounts: Path, root: Path) -> Iterator[tuple[Path, _GroupFiles]]:
    """List the folders of the process's group and of all visible groups above it."""
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
        trees = description.mounts(mounts)
    except OSError:
        return
    for _, controllers, group in lines:
        if controllers and "memory" not in controllers.split(","):
            continue
        files = _V1 if controllers else _V2
        for tree in trees:
            if _has_memory(tree, is_v1=bool(controllers)):
                top = root / tree.point.lstrip("/")
                folder = top / _path_below(tree.root, group)
                above = (place for place in folder.parents if place.is_relative_to(top))
                yield from ((place, files) for place in (folder, *above))


def _has_memory(tree: description.Mount, *, is_v1: bool) -> bool:
    """Whether a mount is a tree of control groups that limit memory."""
    if is_v1:
        return tree.kind == "cgroup" and "memory" in tree.super_options.split(",")
    return tree.kind == "cgroup2"


def _path_below(root: str, group: str) -> Path:
    """Return a group's path below the root of its tree's mount.

    Inside a container the container's own group is mounted as the root of the tree.
    """
    return Path(group).relative_to(root) if Path(group).is_relative_to(root) else Path()


def _read_number(path: Path) -> int | None:
    """Read a number; None if the file is missing or says "max"."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _read_statistic(path: Path, name: str) -> int:
    """Read one field of memory.stat; 0 if it is missing."""
    try:
        lines = (line.split() for line in path.read_text().splitlines())
        values = (int(line[1]) for line in lines if len(line) == 2 and line[0] == name)
        return next(values, 0)
    except OSError:
        return 0
