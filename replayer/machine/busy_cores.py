"""The cores of this machine that are busy."""

import os
from pathlib import Path
from time import monotonic
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_STAT: Final = Path("/proc/stat")


class BusyCores:
    """Counts the cores that were busy since it was made.

    That is with processes, the kernel on behalf of anybody, and what the hypervisor gave to others.

    Args:
        others: leave out the time of this process.
        file: the kernel's counters.
    """

    def __init__(self, *, others: bool = False, file: Path = _STAT) -> None:
        self._others = others
        self._file = file
        self._began = monotonic()
        self._before_s = self._read_busy_s()

    def count(self) -> float | None:
        """Return the mean number of cores; None if the kernel does not count them."""
        now_s = self._read_busy_s()
        span_s = monotonic() - self._began
        if now_s is None or self._before_s is None or span_s <= 0:
            return None
        return max(0.0, (now_s - self._before_s) / span_s)

    def _read_busy_s(self) -> float | None:
        """Return the core-seconds so far in which a core was busy; None if they are not counted."""
        try:
            # user, nice, system, idle, iowait, irq, softirq, steal
            fields = self._file.read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return None
        user, nice, system, idle, _, *more = map(int, fields)
        if not user + system + idle:  # a sandbox that shows the file without counting
            return None
        own = os.times()
        own_s = own.user + own.system if self._others else 0
        return (user + nice + system + sum(more)) * _TICK_S - own_s
