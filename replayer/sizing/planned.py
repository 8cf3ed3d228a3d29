"""Plans of one trace for many sizes of memory, each made once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from replayer.planning.plan import Plan
from replayer.sizing.halves import Half, Halves, Part, RequestCounts

STEPS: Final = 32
"""Sizes per doubling: a step is at most 1/32 of the size below it, and at least 1 MiB."""
_MIB: Final = 1 << 20
_MIB_PER_GIB: Final = 1024

_GIB: Final = 2**30
Parts = dict[Half, Part]
"""What a plan does, by part of the trace."""


def size_mib(index: int) -> int:
    """Return the size with this index, in MiB: 0, 1, …, 63, 64, 66, …, 126, 128, 132, ..."""
    if index < STEPS:
        return index
    doublings, step = divmod(index - STEPS, STEPS)
    return (STEPS + step) << doublings


def size_gib(index: int) -> Decimal:
    """Return the size with this index in GiB, exactly."""
    return Decimal(size_mib(index)) / _MIB_PER_GIB


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


@dataclass(frozen=True)
class MemorySize:
    """Capacities in GiB, in the order in which they are preferred: less DRAM first.

    Attributes:
        cpu: DRAM, headroom included.
        nvme: room on the drive; None: unlimited.
    """

    cpu: Decimal
    nvme: Decimal | None

    @property
    def nvme_bytes(self) -> int | None:
        """Bytes of nvme: floor(GiB × 2^30); None: unlimited."""
        return None if self.nvme is None else int(self.nvme * _GIB)


class SizePlanner:
    """Plans a trace for sizes of DRAM and NVMe; everything else stays as in a first plan.

    Args:
        plan: gives the trace, the gpu tier, the rules and the order.
        advance: takes the number of plans made since its last call.

    Attributes:
        made: the plans made so far.
        footprint: bytes of all objects of the trace; no tier ever holds more.
        headroom: usable share of DRAM.
        bytes_per_token: KV cache bytes of a token.
    """

    def __init__(self, plan: Plan, advance: Callable[[int], object] = lambda _plans: None) -> None:
        self._plan = plan
        self._advance = advance
        self._halves = Halves(plan.workload)
        self.made: dict[MemorySize, Parts] = {}
        self.footprint = int(plan.workload.sizes().sum())
        self.headroom = plan.options.headroom
        self.bytes_per_token = plan.options.bytes_per_token.per_token

    @property
    def most_cpu(self) -> int:
        """Index of the least DRAM that holds all objects of the trace."""
        return index_of(-int(-self.footprint // self.headroom))

    @property
    def most_nvme(self) -> int:
        """Index of the least NVMe that holds all objects of the trace."""
        return index_of(self.footprint)

    @property
    def everything(self) -> MemorySize:
        """Memory that never evicts: every tier holds all objects."""
        return MemorySize(size_gib(self.most_cpu), None)

    def make(self, memory: MemorySize) -> Parts:
        """Return what the plan for these sizes does."""
        if memory not in self.made:
            counts = self.count(memory)
            halves = self._halves
            self.made[memory] = {half: counts.part(halves, half) for half in halves.masks}
            self._advance(1)
        return self.made[memory]

    def count(self, memory: MemorySize) -> RequestCounts:
        """Plan the trace for these sizes, and count per request; without any tier, no read hits."""
        options = self._plan.options
        gpu = options.capacity_gib[0]
        counts = RequestCounts(self._plan.workload)
        has_tier = gpu or memory.cpu or memory.nvme != 0
        capacity = (gpu, memory.cpu, memory.nvme) if has_tier else (gpu, Decimal(0), None)
        plan = Plan(self._plan.trace, replace(options, capacity_gib=capacity), self._plan.workload)
        for stretch in plan.planner().stretches():
            counts.add(stretch)
        if not has_tier:
            counts.forget_hits()
        return counts
