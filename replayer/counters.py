"""What the kernel counts while a run goes: the block device under the cache, and CPU; independent of the log."""

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

EVERY_S: Final = 1.0
WRITE_ROWS: Final = 30
_SECTOR: Final = 512  # of /proc/diskstats, whatever the device's is
_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class _Reading:
    """Counters at one time; disk: the fields of /proc/diskstats after the name, None where there is no block device."""

    at_ns: int
    disk: list[int] | None
    process_ns: int
    system_ns: int


def _read(device: str | None) -> _Reading:
    times = os.times()
    user, nice, system, _, _, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    process_ns = int((times.user + times.system) * 1e9)
    return _Reading(perf_counter_ns(), _disk(device), process_ns, (user + nice + system + sum(more)) * _TICK_NS)


def _disk(device: str | None) -> list[int] | None:
    """The counters of a device given as major:minor (kernel: Documentation/admin-guide/iostats.rst)."""
    if device is None:
        return None
    for line in Path("/proc/diskstats").read_text().splitlines():
        major, minor, _, *counters = line.split()
        if f"{major}:{minor}" == device:
            return [int(value) for value in counters]
    return None


class Sampler:
    """Samples the counters once a second in a thread of its own.

    Args:
        device: the block device as major:minor, None where there is none.

    Attributes:
        rows: of device.parquet so far, with queue and utilisation as iostat derives them.
    """

    def __init__(self, device: str | None) -> None:
        self._device, self._stop = device, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.rows: list[dict[str, Any]] = []
        self._written = 0

    def __enter__(self) -> "Sampler":
        self._first = self._last = _read(self._device)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._add()

    def _sample(self) -> None:
        while not self._stop.wait(EVERY_S):
            self._add()

    def _add(self) -> None:
        before, now = self._last, _read(self._device)
        self._last, span = now, max(1, now.at_ns - before.at_ns)
        row: dict[str, Any] = {
            "time_ns": now.at_ns - self._first.at_ns,
            "interval_ns": span,
            "process_cpu": (now.process_ns - before.process_ns) / span,
            "system_cpu": (now.system_ns - before.system_ns) / span,
        }
        if now.disk is not None and before.disk is not None:
            # reads, merged, sectors, ms; writes, merged, sectors, ms; in flight, ms busy, ms weighted by requests
            change = [new - old for new, old in zip(now.disk, before.disk, strict=True)]
            row |= {"read_requests": change[0], "read_bytes": change[2] * _SECTOR}
            row |= {"write_requests": change[4], "written_bytes": change[6] * _SECTOR}
            row |= {"utilisation": min(1.0, change[9] * 1e6 / span), "queue": change[10] * 1e6 / span}
        self.rows.append(row)

    def due(self) -> bool:
        """Whether enough has been sampled since the last time to be written."""
        if len(self.rows) < self._written + min(WRITE_ROWS, self._written + 1):  # soon at first: a killed run has some
            return False
        self._written = len(self.rows)
        return True

    def read_bytes(self) -> int | None:
        """What the device delivered over all samples; None where nothing counts it."""
        if self._last.disk is None or self._first.disk is None:
            return None
        return (self._last.disk[2] - self._first.disk[2]) * _SECTOR
