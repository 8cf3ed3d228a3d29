"""Kernel counters sampled during a run: the cache's block device, CPU, own I/O, waiting.

They are independent of the log, so that analysis can check one against the other.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from tracegen.control_groups import list_groups, read_numbers

EVERY_S: Final = 1.0
WRITE_ROWS: Final = 30
"""Samples between two writes of device.parquet."""
_SECTOR: Final = 512  # bytes of a sector of /proc/diskstats, whatever the device's sectors are
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_THROTTLED: Final = {"throttled_time": 1, "throttled_usec": 1000}  # cgroup v1 and v2; in ns


_SHARES: Final = ("process_cpu", "system_cpu", "steal_cpu", "queue", "utilisation")
"""Columns that are nanoseconds per nanosecond; all others are sums over the interval."""


_Sums = dict[str, int | None]
"""Counters at one time, by column of device.parquet; None: the kernel does not count it."""


def _growth(now: _Sums, before: _Sums, name: str) -> int | None:
    """Return by how much a sum has grown; None if it is not counted."""
    last, first = now.get(name), before.get(name)
    return None if last is None or first is None else max(0, last - first)


class Sampler:
    """Samples the counters once a second, in a thread of its own.

    The thread neither writes files nor waits for a thread that does: a log that cannot be written
    delays no sample. It appends to `rows`; the main thread reads them. Appending to a list is
    atomic, so there is no lock. All other fields that change belong to one thread.

    Args:
        device: the block device as major:minor; None if there is none.
        own_io: whether /proc/self/io counts what this process reads from and writes to the cache.
        run_delay_ns: returns how long the workers have waited for a CPU; None if unknown.

    Attributes:
        rows: rows of device.parquet so far, with queue and utilisation as iostat derives them.
    """

    def __init__(
        self, device: str | None, *, own_io: bool = True, run_delay_ns: Callable[[], int | None] = lambda: None
    ) -> None:
        self._device = device
        self._own_io = own_io
        self._run_delay_ns = run_delay_ns
        self._cpu_stats = cpu_stats()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.rows: list[dict[str, Any]] = []
        self._written = 0

    def __enter__(self) -> "Sampler":
        return self

    def start(self, began_ns: int) -> None:
        """Start sampling, before the first move reads or writes.

        Args:
            began_ns: the log's time 0 on the clock of perf_counter_ns.
        """
        self._began_ns = began_ns
        self._last_ns = began_ns
        self._first = self._last = self._read()
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
        """Append a row: the changes since the last reading."""
        now_ns = perf_counter_ns()
        now = self._read()
        before = self._last
        span = max(1, now_ns - self._last_ns)
        self._last = now
        self._last_ns = now_ns
        row: dict[str, Any] = {"time_ns": now_ns - self._began_ns, "interval_ns": span}
        for name in now:
            growth = _growth(now, before, name)
            row[name] = growth / span if growth is not None and name in _SHARES else growth
        if row.get("utilisation") is not None:  # the kernel's clock of it is not ours
            row["utilisation"] = min(1.0, row["utilisation"])
        self.rows.append(row)

    def _read(self) -> _Sums:
        # user, nice, system, idle, iowait, irq, softirq, steal
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        user, nice, system, _, _, *interrupts, steal = map(int, fields)
        times = os.times()
        io = own_io() if self._own_io else {}
        return _read_disk(self._device) | {
            "process_cpu": int((times.user + times.system) * 1e9),
            "system_cpu": (user + nice + system + sum(interrupts)) * _TICK_NS,
            "steal_cpu": steal * _TICK_NS,
            "process_read_bytes": io.get("read_bytes"),
            "process_written_bytes": io.get("write_bytes"),
            "run_delay_ns": self._run_delay_ns(),
            "throttled_ns": _read_throttled_ns(self._cpu_stats),
            "sampler_delay_ns": _read_delay_ns(self._thread.native_id),
        }

    def due(self) -> bool:
        """Whether there are enough new samples to write device.parquet; notes that it is written.

        The first write is due after one sample, so that a run that is killed early has some.
        """
        if len(self.rows) < self._written + min(WRITE_ROWS, self._written + 1):
            return False
        self._written = len(self.rows)
        return True

    def read_bytes(self) -> int | None:
        """Return the bytes read from a device over all samples; None if nothing counts them.

        They are those of this process if the kernel counts them, else those of the whole device.
        So what other processes read does not hide that a page cache served this one.
        """
        own = _growth(self._last, self._first, "process_read_bytes")
        return _growth(self._last, self._first, "read_bytes") if own is None else own


def _read_disk(device: str | None) -> _Sums:
    """Read the counters of a device given as major:minor (kernel: Documentation/admin-guide/iostats.rst)."""
    if device is None:
        return {}
    for line in Path("/proc/diskstats").read_text().splitlines():
        major, minor, _, *counters = line.split()
        if f"{major}:{minor}" == device:
            # reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms busy, ms
            # weighted by requests
            reads, _, read_sectors, _, writes, _, written, _, _, busy_ms, weighted_ms, *_ = map(int, counters)
            return {
                "read_requests": reads,
                "read_bytes": read_sectors * _SECTOR,
                "write_requests": writes,
                "written_bytes": written * _SECTOR,
                "utilisation": busy_ms * 1_000_000,
                "queue": weighted_ms * 1_000_000,
            }
    return {}


def own_io() -> dict[str, int]:
    """Read the bytes that devices moved for this process (proc(5), /proc/pid/io).

    Returns:
        read_bytes, write_bytes and others by name; empty if the kernel does not count them.
    """
    return read_numbers("/proc/self/io")


def _read_delay_ns(thread: int | None) -> int | None:
    """Read how long a thread of this process was ready but waited for a CPU; None if unknown."""
    if thread is None:  # it has not begun
        return 0
    try:
        return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return None


class RunDelays:
    """The time that threads of this process, also those that ended, were ready but waited for a CPU.

    The kernel forgets a thread's count when the thread ends, so each notes its own as it leaves.
    """

    def __init__(self) -> None:
        self._ns = dict[int, int | None]()

    def begin_thread(self) -> None:
        """Begin to count this thread."""
        thread = threading.get_native_id()
        self._ns[thread] = _read_delay_ns(thread)

    def note(self, thread: int) -> None:
        """Note what the kernel has counted for a thread so far, if the thread goes on."""
        now = _read_delay_ns(thread)
        if now is not None:
            self._ns[thread] = now

    def total_ns(self) -> int | None:
        """Return the sum over all threads so far; None if the kernel does not count them."""
        for thread in list(self._ns):
            self.note(thread)
        known = [delay for delay in list(self._ns.values()) if delay is not None]
        return sum(known) if len(known) == len(self._ns) else None


def cpu_stats() -> list[Path]:
    """List the cpu.stat files of the control groups that limit this process's CPU time."""
    files = [folder / "cpu.stat" for folder, _ in list_groups("cpu")]
    return [file for file in files if _THROTTLED.keys() & read_numbers(file).keys()]


def _read_throttled_ns(files: list[Path]) -> int | None:
    """Read how long quotas have stopped this process's control groups, summed over cores.

    Returns:
        Nanoseconds; None if no control group counts them.
    """
    counts = [read_numbers(file) for file in files]
    known = [count[name] * scale for count in counts for name, scale in _THROTTLED.items() if name in count]
    return sum(known) if known else None
