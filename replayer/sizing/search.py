"""Searches for the least memory that reaches targets, by bisection over plans."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from replayer.planning.offered_load import DAY_S
from replayer.sizing.halves import By, Half, Part
from replayer.sizing.planned import MemorySize, SizePlanner, index_of, size_gib

Missed = Literal["hit rate", "drive writes", "bandwidth"]
"""What of the targets a size misses."""
_ZERO: Final = Decimal(0)


@dataclass(frozen=True)
class SizeTargets:
    """Targets of a search.

    Attributes:
        hit_rate: the least hit rate.
        by: what it counts.
        dwpd: the most drive writes per day; None: any number.
        nvme_gib_s: the most GiB/s of nvme in the busiest minute, both directions; None: any.
    """

    hit_rate: Decimal
    by: By
    dwpd: float | None = None
    nvme_gib_s: float | None = None

    def reaches_rate(self, part: Part) -> bool:
        """Return whether the hit rate of a part of the trace is high enough."""
        hits, asked = part.of(self.by)
        return hits >= self.hit_rate * asked

    def spares_drive(self, part: Part, nvme_bytes: int | None) -> bool:
        """Return whether a drive of this size is written slowly enough."""
        writes = part.drive_writes(nvme_bytes)
        return self.dwpd is None or writes is None or writes <= self.dwpd

    def missed(self, part: Part, memory: MemorySize) -> tuple[Missed, ...]:
        """Return the targets that a plan for these sizes misses in a part of the trace."""
        gib_s = part.nvme_gib_s
        is_slow = self.nvme_gib_s is None or gib_s is None or gib_s <= self.nvme_gib_s
        checks: dict[Missed, bool] = {
            "hit rate": self.reaches_rate(part),
            "drive writes": self.spares_drive(part, memory.nvme_bytes),
            "bandwidth": is_slow,
        }
        return tuple(name for name, is_met in checks.items() if not is_met)


@dataclass(frozen=True)
class Found:
    """Result of a search for one size.

    Attributes:
        memory: the sizes: those that reach the targets, or the last ones that were tried.
        missed: the targets that no size reaches; empty if `memory` reaches all.
    """

    memory: MemorySize
    missed: tuple[Missed, ...] = ()


class SizeSearch:
    """Finds sizes for the requests of one part of a trace.

    Bisection finds the least size if a larger one never does worse. Where that does not hold, it
    finds a size that reaches the targets while the next smaller one does not; `find_reversals` in
    `answer.py` looks for such cases.

    Args:
        planner: makes the plans.
        targets: what is asked of the memory.
        half: the part of the trace on which sizes are chosen.
    """

    def __init__(self, planner: SizePlanner, targets: SizeTargets, half: Half = "whole") -> None:
        self._planner = planner
        self._targets = targets
        self._half: Half = half

    def part(self, memory: MemorySize) -> Part:
        """Return what the plan for these sizes does in this part of the trace."""
        return self._planner.make(memory)[self._half]

    def missed(self, memory: MemorySize) -> tuple[Missed, ...]:
        """Return the targets that these sizes miss."""
        return self._targets.missed(self.part(memory), memory)

    def find_cpu(self, nvme: Decimal | None, guess: int | None = None) -> Found:
        """Find the least DRAM for a given NVMe."""

        def is_enough(index: int) -> bool:
            return not self.missed(MemorySize(size_gib(index), nvme))

        most = self._planner.most_cpu
        if not is_enough(most):
            largest = MemorySize(size_gib(most), nvme)
            return Found(largest, self.missed(largest))
        return Found(MemorySize(size_gib(_find_least(is_enough, most, guess)), nvme))

    def find_nvme(self, cpu: Decimal, guess: int | None = None) -> Found:
        """Find the least NVMe for a given DRAM.

        The hit rate and the drive writes decide the size: the busiest minute of a larger nvme
        rarely is a quieter one, and is checked at the end.
        """

        def is_enough(index: int) -> bool:
            memory = MemorySize(cpu, size_gib(index))
            part = self.part(memory)
            spares_drive = self._targets.spares_drive(part, memory.nvme_bytes)
            return self._targets.reaches_rate(part) and spares_drive

        most = self._most_nvme(cpu)
        if not is_enough(most):
            largest = MemorySize(cpu, size_gib(most))
            return Found(largest, self.missed(largest))
        least = MemorySize(cpu, size_gib(_find_least(is_enough, most, guess)))
        return Found(least, self.missed(least))

    def _most_nvme(self, cpu: Decimal) -> int:
        """Return the index of a size above which more nvme changes nothing."""
        most = self._planner.most_nvme
        part = self.part(MemorySize(cpu, size_gib(most)))
        if not self._targets.dwpd or not part.span_s:
            return most
        per_day = part.written / part.span_s * DAY_S
        return max(most, index_of(int(per_day / self._targets.dwpd) + 1))


def _find_least(is_enough: Callable[[int], bool], most: int, guess: int | None) -> int:
    """Return the least index that is enough, from 0 to `most`, which is known to be enough.

    Args:
        is_enough: false up to some index, and true from there on.
        most: an index that is enough.
        guess: an index to begin at; None: in the middle.
    """
    low, high = -1, most  # `low` is not enough, `high` is
    if guess is not None:
        low, high = _bracket(is_enough, most, min(max(guess, 0), most))
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def _bracket(is_enough: Callable[[int], bool], most: int, guess: int) -> tuple[int, int]:
    """Return an index that is not enough, or −1, and a greater one that is, near a guess."""
    step = 1
    if is_enough(guess):
        low = guess - step
        while low >= 0 and is_enough(low):
            guess, step = low, 2 * step
            low = guess - step
        return max(low, -1), guess
    high = guess + step
    while high < most and not is_enough(high):
        guess, step = high, 2 * step
        high = guess + step
    return guess, min(high, most)
