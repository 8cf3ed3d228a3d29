"""How much memory a process may still take: of the machine's, and of the control groups that it runs in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replayer.machine import description as machine

_V1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_V2: Final = ("memory.max", "memory.current", "inactive_file")


@dataclass(frozen=True)
class Memory:
    """What is available.

    Attributes:
        bytes: 0 where nothing says.
        limit: where a control group allows less than the machine has, its file and what that says, in words.
    """

    bytes: int
    limit: str | None = None

    def said(self, parts: int = 1) -> str:
        """As a part of a sentence; of one of so many equal parts."""
        why = f" ({self.limit})" if self.limit else ""
        return f"{self.bytes // parts / 2**30:.1f} GiB of memory are available{why}"


def available(
    groups: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/proc/self/mountinfo"), root: Path = Path("/")
) -> Memory:
    """The least of what the kernel calls available and what each control group above the process leaves.

    A control group leaves its limit less its usage; cached files that the kernel gives up first are no usage.

    Args:
        groups: in which the process is (cgroups(7)).
        mounts: where their trees are mounted.
        root: of the paths in `mounts`.
    """
    found = Memory(machine.meminfo("MemAvailable"))
    for folder, (limit, usage, cached) in _folders(groups, mounts, root):
        most, used = _number(folder / limit), _number(folder / usage)
        if most is None or used is None:
            continue
        left = max(0, most - used + _of_stat(folder / "memory.stat", cached))
        if not found.bytes or left < found.bytes:
            found = Memory(left, f"{folder / limit} allows {most / 2**20:,.0f} MiB")
    return found


def _folders(groups: Path, mounts: Path, root: Path) -> Iterator[tuple[Path, tuple[str, str, str]]]:
    """The process's own control group and all above it, as far as they can be seen, and what their files are called."""
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
        trees = machine.mounts(mounts)
    except OSError:
        return
    for _, controllers, group in lines:
        if controllers and "memory" not in controllers.split(","):
            continue
        kind, files = ("cgroup", _V1) if controllers else ("cgroup2", _V2)
        for tree in trees:
            if tree.kind != kind or (controllers and "memory" not in tree.more.split(",")):
                continue
            top = root / tree.point.lstrip("/")
            # Inside a container the tree's own root is mounted: what is below it is the rest of the path, if any.
            inside = Path(group).relative_to(tree.root) if Path(group).is_relative_to(tree.root) else Path()
            folder = top / inside
            yield from ((place, files) for place in (folder, *folder.parents) if place.is_relative_to(top))


def _number(path: Path) -> int | None:
    """None where there is no limit, or no such file."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _of_stat(path: Path, name: str) -> int:
    try:
        lines = (line.split() for line in path.read_text().splitlines())
        return next((int(line[1]) for line in lines if len(line) == 2 and line[0] == name), 0)
    except OSError:
        return 0
