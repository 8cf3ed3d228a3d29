"""Free memory of a process: the machine's, its control groups' and what its own limit leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracegen.control_groups import list_groups, read_numbers
from tracegen.errors import InputError
from views.numbers import format_value

PLANNING: Final = 64
DESCRIBING: Final = 200
"""Bytes per op that a plan takes, and the description of a trace, as measured on 1.5 million ops."""
_BATCH: Final = 1 << 18
_READING: Final = 300
_ID: Final = 112
"""Ops decoded at a time, bytes of each meanwhile, and bytes per request and per key."""
_FILES: Final = {
    True: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    False: ("memory.max", "memory.current", "inactive_file"),
}
"""A group's limit and usage, and the field of memory.stat that counts cached files, by whether it is of version 1."""


@dataclass(frozen=True)
class Memory:
    """The memory that is available."""

    bytes: int  # 0 if the kernel does not say
    limit: str | None = None  # what allows less than is free, in words: a control group's file

    def require(
        self,
        needed: int,
        what: str,
        remedy: str,
        *,
        shares: int = 1,
        subject: object = None,
        setting: str | None = None,
    ) -> None:
        """Refuse work that needs more bytes than there are, before it begins.

        `what` is the work, as in "the plan takes"; `shares` processes of this host do it at once.
        """
        if (self.bytes or self.limit) and needed > self.bytes // shares:
            takes, has = (format_value(size, "bytes") for size in (needed, self.bytes // shares))
            limit = f" ({self.limit})" if self.limit else ""
            problem = f"{what} {takes}, but {has} of memory are available{limit}"
            raise InputError(problem, remedy, subject=subject, setting=setting)


def require_for_trace(ops: int, counts: Mapping[str, int], each: int, *, cycles: int = 1, subject: object) -> None:
    """Refuse a trace that does not fit the memory, before it is read.

    `ops` are those of all cycles, each with requests and keys of its own; `counts` are the metadata's,
    of one cycle. `each` is PLANNING or DESCRIBING.
    """
    ids = cycles * (counts.get("requests", 0) + counts.get("keys", 0))
    needed = min(ops, _BATCH) * _READING + ops * each + ids * _ID
    remedy = "pass fewer `cycles`, or a slice of the trace" if cycles > 1 else "use a slice of it, or a larger machine"
    available().require(needed, f"its {ops:,} ops take", remedy, subject=subject)


def meminfo(name: str) -> int:
    """Read a field of /proc/meminfo in bytes; 0 if there is none."""
    lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return next((int(line[1]) * 1024 for line in lines if line[0] == f"{name}:"), 0)


def available(
    groups: Path = Path("/proc/self/cgroup"),
    mounts: Path = Path("/proc/self/mountinfo"),
    root: Path = Path("/"),
) -> Memory:
    """Return the least of what the kernel calls available and what each limit leaves.

    A control group leaves its limit less its usage; cached files that the kernel gives up first
    are not usage. All groups above the process count. The arguments are those of `list_groups`.
    """
    memory = Memory(meminfo("MemAvailable"))
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
