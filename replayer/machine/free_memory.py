"""Free memory of a process: the machine's, and that of the control groups it runs in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replayer.machine import description
from replayer.machine.control_groups import list_groups, read_numbers

_FILES: Final = {
    True: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    False: ("memory.max", "memory.current", "inactive_file"),
}
"""A group's limit and usage, and the field of memory.stat that counts cached files, by whether it is of version 1."""


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
    for folder, is_v1 in list_groups("memory", groups, mounts, root):
        allowed, used, cached = _FILES[is_v1]
        limit = _read_number(folder / allowed)
        usage = _read_number(folder / used)
        if limit is None or usage is None:
            continue
        free = max(0, limit - usage + read_numbers(folder / "memory.stat").get(cached, 0))
        if not memory.bytes or free < memory.bytes:
            memory = Memory(free, f"{folder / allowed} allows {limit / 2**20:,.0f} MiB")
    return memory


def _read_number(path: Path) -> int | None:
    """Read a number; None if the file is missing or says "max"."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
