"""The search for memory: sizes that reach targets, what binds them, how far they can be trusted."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final

import msgspec

from replayer.questions.sizes import Judged, MemorySize, Missed, SizePlanner, halve, index_of, size_gib

# The curve goes from four times the size found down to 1/64 of it
_DOUBLINGS, _HALVINGS = 2, 6
_HALVED_DRAM: Final = 4  # sizes of DRAM between DRAM alone and none
_MAX_ROUNDS: Final = 8  # of shrinking both tiers in turn
_ZERO: Final = Decimal(0)


class OnHalves(msgspec.Struct, frozen=True):
    """Sizes chosen on the first half of the requests, judged there and on the second half.

    The first half has filled the tiers when the second begins.
    """

    first: Judged
    second: Judged


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes that reach the targets, and what binds them.

    Attributes:
        bound: what a cache that never evicts does, under the same rules.
        chosen: the sizes found; None if no sizes reach the targets.
        binds: what keeps them from being smaller; else what no size reaches.
        pairs: sizes of DRAM with the least NVMe for each, less DRAM first.
        one_step_smaller: the chosen sizes with one step less DRAM, and with one step less NVMe.
        curve: hit rates while one tier is halved again and again, the largest first.
        halved: name of that tier, cpu or nvme.
        cliff: index in `curve` of the size whose halving loses the most.
        halves: the same search on half of the trace.
        as_served: the chosen sizes in the order of `replayer plan`, if the search has another.
        plans: number of plans made.
    """

    bound: Judged
    chosen: Judged | None = None
    binds: tuple[Missed, ...] = ()
    pairs: tuple[Judged, ...] = ()
    one_step_smaller: tuple[Judged, ...] = ()
    curve: tuple[Judged, ...] = ()
    halved: str = "cpu"
    cliff: int | None = None
    halves: OnHalves | None = None
    as_served: Judged | None = None
    plans: int = 0


class Sizing:
    """Finds the sizes for one trace.

    Args:
        planner: makes the plans.
    """

    def __init__(self, planner: SizePlanner) -> None:
        self._planner = planner
        self._wanted = planner.wanted
        self._judge = planner.judge

    def find(self, served: SizePlanner | None = None) -> Sized:
        """Return the sizes; `served` plans in the order of `replayer plan`."""
        sized = self._find()
        as_served = None
        if served is not None and sized.chosen is not None:
            cpu, nvme = sized.chosen.cpu_gib, sized.chosen.nvme_gib
            as_served = served.judge(MemorySize(Decimal(cpu), None if nvme is None else Decimal(nvme)))
        plans = len(self._planner.made) + (as_served is not None)
        return msgspec.structs.replace(sized, as_served=as_served, plans=plans)

    def _find(self) -> Sized:
        # Every tier holds all objects, and never evicts.
        bound = self._judge(MemorySize(size_gib(self._planner.most_cpu), None))
        if "hit rate" in bound.missed:
            return Sized(bound=bound, binds=("hit rate",))
        tried = sorted(self._find_pairs(), key=_order)
        reached = [memory for memory in tried if not self._judge(memory).missed]
        if not reached:
            pairs = tuple(map(self._judge, tried))
            return Sized(bound=bound, binds=pairs[-1].missed, pairs=pairs)
        chosen = self._shrink(min(reached, key=self._rank))
        smaller = tuple(self._judge(memory) for memory in _step_down(chosen))
        halved, curve = self._halve(chosen)
        return Sized(
            bound=bound,
            chosen=self._judge(chosen),
            binds=tuple(dict.fromkeys(name for size in smaller for name in size.missed)),
            pairs=tuple(map(self._judge, sorted({*tried, chosen}, key=_order))),
            one_step_smaller=smaller,
            curve=curve,
            halved=halved,
            cliff=_find_cliff(curve),
            halves=self._judge_halves(chosen),
        )

    def _find_pairs(self) -> Iterator[MemorySize]:
        """Yield sizes of DRAM with the least NVMe that reaches the targets, or comes closest."""
        wanted = self._wanted
        if wanted.nvme is not None:
            yield self._planner.find_cpu(wanted.nvme if wanted.nvme.is_finite() else None)
            return
        if wanted.cpu is not None:
            yield self._planner.find_nvme(wanted.cpu)
            return
        alone = self._planner.find_cpu(_ZERO)
        yield alone
        # `least` meets the bandwidth, as nvme is not there; from `too_little` down it is missed.
        last, least, too_little = alone, _index(alone.cpu), -1
        smaller = list(dict.fromkeys([*_list_halves(least, _HALVED_DRAM), 0]))
        while least - too_little > 1:
            index = smaller.pop(0) if too_little < 0 else (too_little + least) // 2
            last = self._find_nvme(index, last)
            yield last
            if self._judge(last).missed:
                too_little = index
            else:
                least = index

    def _find_nvme(self, cpu_index: int, near: MemorySize) -> MemorySize:
        """Find the least NVMe for a DRAM; begin where both together hold as much as `near`."""
        cpu = size_gib(cpu_index)
        guess = (near.nvme or _ZERO) + (near.cpu - cpu) * self._planner.headroom
        return self._planner.find_nvme(cpu, _index(max(guess, _ZERO)))

    def _rank(self, memory: MemorySize) -> tuple[float, Decimal, Decimal]:
        """Rank sizes by cost; without prices, by DRAM, then NVMe."""
        return (self._judge(memory).cost or 0.0, *_order(memory))

    def _shrink(self, memory: MemorySize) -> MemorySize:
        """Make the sizes that are to be found smaller, until one step less misses a target."""
        for _ in range(_MAX_ROUNDS):
            before = memory
            if self._wanted.cpu is None:
                memory = self._planner.find_cpu(memory.nvme, _index(memory.cpu))
            if self._wanted.nvme is None and memory.nvme:
                memory = self._planner.find_nvme(memory.cpu, _index(memory.nvme))
            # Each tier may shrink again after the other did.
            if memory == before:
                break
        return memory

    def _halve(self, chosen: MemorySize) -> tuple[str, tuple[Judged, ...]]:
        """Return the tier that is halved again and again, and what each size does."""
        nvme = chosen.nvme or _ZERO
        # The larger tier: halving the smaller one shows little.
        has_drive = nvme > chosen.cpu * self._planner.headroom
        tier, size = ("nvme", nvme) if has_drive else ("cpu", chosen.cpu)
        sizes = [size * 2**power for power in range(_DOUBLINGS, -1, -1)]
        sizes += map(size_gib, _list_halves(_index(size), _HALVINGS))
        memories = [replace(chosen, **{tier: size}) for size in dict.fromkeys(sizes)]
        return tier, tuple(map(self._judge, memories))

    def _judge_halves(self, chosen: MemorySize) -> OnHalves:
        """Choose the tier that is to be found on the first half, and judge it on the second."""
        if self._wanted.nvme is None and chosen.nvme:
            found = self._planner.find_nvme(chosen.cpu, _index(chosen.nvme), "first")
        else:
            found = self._planner.find_cpu(chosen.nvme, _index(chosen.cpu), "first")
        return OnHalves(self._judge(found, "first"), self._judge(found, "second"))


def _order(memory: MemorySize) -> tuple[Decimal, Decimal]:
    return memory.cpu, Decimal("inf") if memory.nvme is None else memory.nvme


def _index(gib: Decimal) -> int:
    return index_of(-int(-gib * 2**30))


def _list_halves(index: int, count: int) -> list[int]:
    """Return the indices of a size halved once, twice, … up to `count` times."""
    return [index := halve(index) for _ in range(count)]


def _step_down(memory: MemorySize) -> list[MemorySize]:
    """Return the sizes one step smaller in either tier."""
    sizes = vars(memory).items()
    return [replace(memory, **{tier: size_gib(_index(size) - 1)}) for tier, size in sizes if size]


def _find_cliff(curve: Sequence[Judged]) -> int | None:
    """Return the index of the size whose halving loses the most; None if none loses anything."""
    rates = [size.hit_rate or 0.0 for size in curve]
    losses = [rate - half for rate, half in itertools.pairwise(rates)]
    worst = max(losses, default=0.0)
    return losses.index(worst) if worst > 0 else None
