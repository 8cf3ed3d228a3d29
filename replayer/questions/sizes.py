"""Sizes of memory: the steps between them, their plans, and the search for the least."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal

import msgspec
import numpy as np

from replayer.planning.counts import DAY_S, GIB, Minutes, Numbers, PlanCounts
from replayer.planning.moves import NVME
from replayer.planning.plan import Plan
from replayer.record.options import By
from tracegen.progress import Advance

# Sizes per doubling: a step is at most 1/32 of the size below it, and at least 1 MiB
STEPS: Final = 32
_MIB: Final = 1 << 20

# What of the targets a size misses
Missed = Literal["hit rate", "drive writes", "bandwidth"]
# A part of the trace: all requests, or half of them by the time at which they arrive
Half = Literal["whole", "first", "second"]
_PARTS: Final[dict[Half, list[int]]] = {"whole": [0, 1], "first": [0], "second": [1]}


def size_mib(index: int) -> int:
    """Return the size with this index, in MiB: 0, 1, …, 63, 64, 66, …, 126, 128, 132, ..."""
    if index < STEPS:
        return index
    doublings, step = divmod(index - STEPS, STEPS)
    return (STEPS + step) << doublings


def size_gib(index: int) -> Decimal:
    """Return the size with this index in GiB, exactly."""
    return Decimal(size_mib(index)) / 1024


def index_of(size_bytes: int) -> int:
    """Return the index of the least size of at least this number of bytes."""
    wanted = -(-size_bytes // _MIB)
    if wanted <= STEPS:
        return wanted
    doublings = max((wanted - 1).bit_length() - STEPS.bit_length(), 0)
    return doublings * STEPS + -(-wanted // (1 << doublings))


def halve(index: int) -> int:
    """Return the index of half the size, rounded down."""
    if index >= 2 * STEPS:
        return index - STEPS
    return size_mib(index) // 2


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Targets of a search, and what the user has decided.

    Attributes:
        hit_rate: the least hit rate.
        by: what it counts.
        dwpd: the most drive writes per day; None: any number.
        nvme_gib_s: the most GiB/s of nvme in the busiest minute, both directions; None: any.
        cpu: GiB of DRAM; None: to be found.
        nvme: GiB of NVMe, or infinity; None: to be found.
        price_dram, price_nvme: of a GiB; None: unknown.
    """

    hit_rate: Decimal
    by: By = "tokens"
    dwpd: float | None = None
    nvme_gib_s: float | None = None
    cpu: Decimal | None = None
    nvme: Decimal | None = None
    price_dram: Decimal | None = None
    price_nvme: Decimal | None = None

    def cost(self, memory: "MemorySize") -> float | None:
        """Return what memory costs; None if a price is unknown."""
        if self.price_dram is None or self.price_nvme is None or memory.nvme is None:
            return None
        return float(memory.cpu * self.price_dram + memory.nvme * self.price_nvme)


@dataclass(frozen=True)
class MemorySize:
    """Capacities in GiB.

    Attributes:
        cpu: DRAM, headroom included.
        nvme: room on the drive; None: unlimited.
    """

    cpu: Decimal
    nvme: Decimal | None


class Judged(msgspec.Struct, frozen=True):
    """Sizes, and what the plan for them does in a part of the trace.

    Attributes:
        cpu_gib: DRAM, headroom included.
        nvme_gib: NVMe; None: unlimited.
        hit_rate: by the definition of the targets; None if nothing was asked.
        drive_writes_per_day: None if all requests come at once.
        nvme_gib_s: of the busiest minute, reads and writes; None if all requests come at once.
        missed: the targets that these sizes miss.
        cost: of both; None without prices.
    """

    cpu_gib: float
    nvme_gib: float | None
    hit_rate: float | None
    drive_writes_per_day: float | None
    nvme_gib_s: float | None
    missed: tuple[Missed, ...]
    cost: float | None = None


class SizePlanner:
    """Plans a trace for sizes of DRAM and NVMe; everything else stays as in a first plan.

    Bisection finds the least size if a larger one never does worse. Where that does not hold, it
    finds a size that reaches the targets while the next smaller one does not. If no size reaches
    the targets, the largest is returned.

    Args:
        plan: gives the trace, the gpu tier, the rules and the order.
        wanted: what is asked of the memory.
        advance: takes the number of plans made since its last call.

    Attributes:
        plan, wanted: as given.
        made: what the plans made so far do, by part of the trace.
        headroom: usable share of DRAM.
        most_cpu, most_nvme: indices of the least DRAM, and NVMe, that hold all objects.
    """

    def __init__(self, plan: Plan, wanted: Wanted, advance: Advance = lambda _plans: None) -> None:
        self.plan = plan
        self.wanted = wanted
        self.made: dict[MemorySize, dict[Half, Judged]] = {}
        self.headroom = plan.options.headroom
        footprint = int(plan.workload.sizes().sum())
        # A plan may not fill the headroom, so that all objects need more.
        self.most_cpu = index_of(-int(-footprint // self.headroom))
        self.most_nvme = index_of(footprint)
        self._advance = advance
        self._minutes = Minutes(plan.workload)
        arrivals = plan.workload.arrivals()
        # By arrival, whatever the order of the rows: the first half is what a log of that time has.
        by_time = np.argsort(arrivals, kind="stable")
        self._half_of = np.zeros(len(arrivals), np.uint8)
        self._half_of[by_time[(len(arrivals) + 1) // 2 :]] = 1
        times = {half: arrivals[np.isin(self._half_of, parts)] for half, parts in _PARTS.items()}
        self._span_s = {half: _get_span_s(of_half) for half, of_half in times.items()}

    def judge(self, memory: MemorySize, half: Half = "whole") -> Judged:
        """Return what the plan for these sizes does in a part of the trace."""
        if memory not in self.made:
            counts = self.count(memory)
            # One plan counts both halves; searches come back to the same sizes.
            self.made[memory] = {part: self._judge(memory, counts, part) for part in _PARTS}
            self._advance(1)
        return self.made[memory][half]

    def find_cpu(self, nvme: Decimal | None, guess: int | None = None, half: Half = "whole") -> MemorySize:
        """Find the least DRAM for a given NVMe, on a part of the trace; begin at a guess."""

        def is_enough(index: int) -> bool:
            return not self.judge(MemorySize(size_gib(index), nvme), half).missed

        return MemorySize(size_gib(find_least(is_enough, self.most_cpu, guess)), nvme)

    def find_nvme(self, cpu: Decimal, guess: int | None = None, half: Half = "whole") -> MemorySize:
        """Find the least NVMe for a given DRAM, on a part of the trace; begin at a guess."""

        def is_enough(index: int) -> bool:
            # The busiest minute of a larger nvme rarely is a quieter one: the bandwidth does not decide.
            return set(self.judge(MemorySize(cpu, size_gib(index)), half).missed) <= {"bandwidth"}

        most, dwpd = self.most_nvme, self.wanted.dwpd
        writes = self.judge(MemorySize(cpu, size_gib(most)), half).drive_writes_per_day
        if dwpd and writes:  # a still larger drive hits no more, but wears less
            most = max(most, index_of(int(writes / dwpd * float(size_gib(most)) * GIB) + 1))
        return MemorySize(cpu, size_gib(find_least(is_enough, most, guess)))

    def count(self, memory: MemorySize) -> PlanCounts:
        """Plan the trace for these sizes, and count each half."""
        gpu = self.plan.options.capacity_gib[0]
        # A plan needs a tier; without one, what is counted of it is left out.
        nvme = memory.nvme if self._has_tier(memory) else None
        options = replace(self.plan.options, capacity_gib=(gpu, memory.cpu, nvme))
        plan = Plan(self.plan.trace, options, self.plan.workload)
        return plan.count(PlanCounts(plan.workload, self._minutes, self._half_of))

    def _has_tier(self, memory: MemorySize) -> bool:
        return bool(self.plan.options.capacity_gib[0] or memory.cpu or memory.nvme != 0)

    def _judge(self, memory: MemorySize, counts: PlanCounts, half: Half) -> Judged:
        wanted, span_s = self.wanted, self._span_s[half]
        hits_of = [counts.hits_of(wanted.by, part) for part in _PARTS[half]]
        hits, asked = np.sum(hits_of, axis=0).tolist()
        by_minute = counts.bytes[_PARTS[half], :, :, NVME].sum(0)
        if not self._has_tier(memory):
            hits, by_minute = 0, 0 * by_minute
        writes = gib_s = None
        if span_s:
            written = float(by_minute[:, 1].sum()) / span_s * DAY_S
            writes = written / int(memory.nvme * GIB) if memory.nvme else 0.0
            gib_s = float(by_minute.sum(1).max(initial=0)) / GIB / min(60.0, span_s)
        missed: list[Missed] = []
        if hits < wanted.hit_rate * asked:  # whole numbers and a Decimal: exact
            missed.append("hit rate")
        if (writes or 0) > (wanted.dwpd or math.inf):
            missed.append("drive writes")
        if (gib_s or 0) > (wanted.nvme_gib_s or math.inf):
            missed.append("bandwidth")
        nvme = None if memory.nvme is None else float(memory.nvme)
        rate = hits / asked if asked else None
        return Judged(float(memory.cpu), nvme, rate, writes, gib_s, tuple(missed), wanted.cost(memory))


def _get_span_s(arrivals: Numbers) -> float:
    return float(np.ptp(arrivals)) / 1e9 if len(arrivals) else 0.0


def find_least(is_enough: Callable[[int], bool], most: int, guess: int | None) -> int:
    """Return the least index that is enough, from 0 to `most`; `most` if none is.

    Args:
        is_enough: false up to some index, and true from there on.
        most: the largest index.
        guess: an index to begin at; None: in the middle.
    """
    if not is_enough(most):
        return most
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
    # Doubling steps: a good guess costs few plans, a bad one no more than bisection twice.
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
