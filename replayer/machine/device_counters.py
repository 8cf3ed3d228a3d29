"""What the kernel counts while a run goes, independent of the log: the cache's block device, CPU, own I/O, waiting."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

EVERY_S: Final = 1.0
WRITE_ROWS: Final = 30
_SECTOR: Final = 512  # of /proc/diskstats, whatever the device's is
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_STEAL: Final = 7  # field of /proc/stat's first line
_THROTTLED: Final = {"throttled_time": 1, "throttled_usec": 1000}  # of cgroup v1 and v2, in ns


@dataclass(frozen=True)
class _Reading:
    """Counters at one time.

    Attributes:
        disk: the fields of /proc/diskstats after the name; None where there is no block device.
        sums: of device.parquet's columns, counted since some time before; None where the kernel does not count them.
    """

    at_ns: int
    disk: list[int] | None
    process_ns: int
    system_ns: int
    steal_ns: int
    sums: dict[str, int | None]


class Sampler:
    """Samples the counters once a second in a thread of its own.

    It neither writes nor waits for who does: a log that cannot be written holds no sample up.

    Args:
        device: the block device as major:minor, None where there is none.
        own_io: whether /proc/self/io counts what this process reads from and writes to the cache.
        run_delay_ns: how long the workers have waited for a CPU; None where the kernel does not say.

    Attributes:
        rows: of device.parquet so far, with queue and utilisation as iostat derives them.
    """

    def __init__(
        self, device: str | None, *, own_io: bool = True, run_delay_ns: Callable[[], int | None] = lambda: None
    ) -> None:
        self._device, self._own_io, self._run_delay_ns = device, own_io, run_delay_ns
        self._cpu_stats, self._stop = cpu_stats(), threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.rows: list[dict[str, Any]] = []
        self._written = 0

    def __enter__(self) -> "Sampler":
        return self

    def start(self, began_ns: int) -> None:
        """Begin, at the log's time 0 on the clock of perf_counter_ns, before anything is read or written."""
        self._began_ns = began_ns
        self._first = self._last = self._read(began_ns)
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._add()
        self._add()

    def _add(self) -> None:
        before, now = self._last, self._read(perf_counter_ns())
        self._last, span = now, max(1, now.at_ns - before.at_ns)
        row: dict[str, Any] = {
            "time_ns": now.at_ns - self._began_ns,
            "interval_ns": span,
            "process_cpu": (now.process_ns - before.process_ns) / span,
            "system_cpu": (now.system_ns - before.system_ns) / span,
            "steal_cpu": (now.steal_ns - before.steal_ns) / span,
        }
        for name, value in now.sums.items():
            earlier = before.sums[name]
            row[name] = None if value is None or earlier is None else max(0, value - earlier)
        if now.disk is not None and before.disk is not None:
            # reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms busy, ms weighted by requests
            change = [new - old for new, old in zip(now.disk, before.disk, strict=True)]
            row |= {"read_requests": change[0], "read_bytes": change[2] * _SECTOR}
            row |= {"write_requests": change[4], "written_bytes": change[6] * _SECTOR}
            row |= {"utilisation": min(1.0, change[9] * 1e6 / span), "queue": change[10] * 1e6 / span}
        self.rows.append(row)

    def _read(self, at_ns: int) -> _Reading:
        user, nice, system, _, _, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
        *interrupts, steal = more
        times, io = os.times(), own_io() if self._own_io else {}
        return _Reading(
            at_ns,
            _disk(self._device),
            int((times.user + times.system) * 1e9),
            (user + nice + system + sum(interrupts)) * _TICK_NS,
            steal * _TICK_NS,
            {
                "process_read_bytes": io.get("read_bytes"),
                "process_written_bytes": io.get("write_bytes"),
                "run_delay_ns": self._run_delay_ns(),
                "throttled_ns": _throttled_ns(self._cpu_stats),
                "sampler_delay_ns": _delay_ns(self._thread.native_id),
            },
        )

    def due(self) -> bool:
        """Whether enough has been sampled since the last time to be written."""
        if len(self.rows) < self._written + min(WRITE_ROWS, self._written + 1):  # soon at first: a killed run has some
            return False
        self._written = len(self.rows)
        return True

    def read_bytes(self) -> int | None:
        """What was read from a device over all samples, by this process if that is counted; None where nothing counts.

        What others read of the device does not hide a page cache then.
        """
        own = self._last.sums["process_read_bytes"], self._first.sums["process_read_bytes"]
        if own[0] is not None and own[1] is not None:
            return own[0] - own[1]
        if self._last.disk is None or self._first.disk is None:
            return None
        return (self._last.disk[2] - self._first.disk[2]) * _SECTOR


def _disk(device: str | None) -> list[int] | None:
    """The counters of a device given as major:minor (kernel: Documentation/admin-guide/iostats.rst)."""
    if device is None:
        return None
    for line in Path("/proc/diskstats").read_text().splitlines():
        major, minor, _, *counters = line.split()
        if f"{major}:{minor}" == device:
            return [int(value) for value in counters]
    return None


def own_io() -> dict[str, int]:
    """What devices have read and written for this process, in bytes (proc(5), /proc/pid/io); empty: not counted."""
    return _numbers("/proc/self/io")


def _delay_ns(thread: int | None) -> int | None:
    """How long a thread of this process was ready and waited for a CPU; None where the kernel does not say."""
    if thread is None:  # it has not begun
        return 0
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return None


def cpu_stats() -> list[Path]:
    """cpu.stat of the cgroups that limit this process's CPU time, its own and those above it that are visible."""
    try:
        mounts, groups = (Path(f"/proc/self/{name}").read_text().splitlines() for name in ("mountinfo", "cgroup"))
    except OSError:
        return []
    mine = {kind: path for _, kind, path in (line.split(":", 2) for line in groups)}
    found = []
    for line in mounts:
        before, _, after = line.partition(" - ")
        (_, _, _, root, mount, *_), (kind, _, options, *_) = before.split(), after.split()
        if kind == "cgroup2":
            path = mine.get("")
        elif kind == "cgroup" and "cpu" in options.split(","):
            path = next((path for kinds, path in mine.items() if "cpu" in kinds.split(",")), None)
        else:
            continue
        if path is not None:
            inside = Path(mount) / path.removeprefix(root).lstrip("/")
            found += [folder / "cpu.stat" for folder in (inside, *inside.parents) if folder.is_relative_to(mount)]
    return [file for file in found if _THROTTLED.keys() & _numbers(file).keys()]


def _throttled_ns(files: list[Path]) -> int | None:
    """How long quotas have held this process's cgroups up, over all cores; None where no cgroup counts it."""
    counts = [_numbers(file) for file in files]
    known = [count[name] * scale for count in counts for name, scale in _THROTTLED.items() if name in count]
    return sum(known) if known else None


def _numbers(file: str | Path) -> dict[str, int]:
    """Lines of a name and a number; none where the file cannot be read."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return {}
    words = (line.replace(":", "").split() for line in lines)
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdecimal()}
