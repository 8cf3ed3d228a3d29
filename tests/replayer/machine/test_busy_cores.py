"""Busy cores, from made counters of the kernel and a made clock."""

import os
from collections import namedtuple
from pathlib import Path

import pytest

from replayer.machine import busy_cores
from replayer.machine.busy_cores import BusyCores

TICKS = os.sysconf("SC_CLK_TCK")
Times = namedtuple("Times", ["user", "system"])


class Clocks:
    """The kernel's counters in a file, this process's times, and the time of day."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.file = folder / "stat"
        self.now_s = 100.0
        self.own = Times(1.0, 1.0)
        patch.setattr(busy_cores, "monotonic", lambda: self.now_s)
        patch.setattr(busy_cores.os, "times", lambda: self.own)

    def write(self, *seconds: float) -> None:
        """Write user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice."""
        fields = " ".join(str(round(one * TICKS)) for one in seconds)
        self.file.write_text(f"cpu  {fields}\ncpu0 {fields}\nintr 1\n")


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(tmp_path, monkeypatch)


def test_all_but_idle_time_is_busy(clocks: Clocks) -> None:
    clocks.write(10, 1, 5, 1000, 50, 1, 1, 1, 7, 7)
    everybody, others = BusyCores(file=clocks.file), BusyCores(others=True, file=clocks.file)
    clocks.write(12, 1.5, 6, 1010, 70, 1.25, 1.5, 1.75, 9, 9)  # guests are part of user
    clocks.now_s += 2.5
    clocks.own = Times(2.0, 1.5)
    assert everybody.count() == pytest.approx((2 + 0.5 + 1 + 0.25 + 0.5 + 0.75) / 2.5)
    assert others.count() == pytest.approx((5 - 1.5) / 2.5)


def test_times_that_the_kernel_counts_late_are_not_negative(clocks: Clocks) -> None:
    clocks.write(10, 0, 5, 1000, 0, 0, 0, 0)
    others = BusyCores(others=True, file=clocks.file)
    clocks.now_s += 1
    clocks.own = Times(1.02, 1.0)
    assert others.count() == 0


def test_what_is_not_counted_is_unknown(clocks: Clocks) -> None:
    clocks.write(*[0] * 10)  # as in some sandboxes
    sandboxed, absent = BusyCores(file=clocks.file), BusyCores(file=clocks.file.with_name("none"))
    clocks.now_s += 1
    assert sandboxed.count() is None
    assert absent.count() is None
