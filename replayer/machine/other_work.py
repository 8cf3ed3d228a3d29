"""The cores of this machine that others keep busy."""

import os
from pathlib import Path
from time import monotonic
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


class OtherWork:
    """Counts the cores that others than this process kept busy since it was made.

    Others are processes, the kernel on behalf of anybody, and what the hypervisor gave to others.
    """

    def __init__(self) -> None:
        self._began = monotonic()
        self._before_s = _read_busy_s()

    def count_cores(self) -> float | None:
        """Return the mean number of cores; None if the kernel does not count them."""
        now_s = _read_busy_s()
        span_s = monotonic() - self._began
        if now_s is None or self._before_s is None or span_s <= 0:
            return None
        return max(0.0, (now_s - self._before_s) / span_s)


def _read_busy_s(file: Path = Path("/proc/stat")) -> float | None:
    """Return the core-seconds so far in which a core was busy with something but this process."""
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal
        fields = file.read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _, _, *others = map(int, fields)
    times = os.times()
    return (user + nice + system + sum(others)) * _TICK_S - times.user - times.system
