"""The answer to "how much memory?": sizes, what binds them, and how far they can be trusted."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from replayer.sizing.break_even import BreakEven, weigh_loading
from replayer.sizing.halves import Part
from replayer.sizing.planned import MemorySize, SizePlanner, halve, index_of, size_gib
from replayer.sizing.search import Missed, SizeSearch, SizeTargets

_DOUBLINGS, _HALVINGS = 2, 6
"""The curve goes from four times the size found down to 1/64 of it."""
_HALVED_DRAM: Final = 4  # sizes of DRAM between DRAM alone and none
_MAX_ROUNDS: Final = 8  # of shrinking both tiers in turn
_ZERO: Final = Decimal(0)


@dataclass(frozen=True)
class Choice:
    """Decisions of the user.

    Attributes:
        cpu: GiB of DRAM; None: to be found.
        nvme: GiB of NVMe, or infinity; None: to be found.
        price_dram, price_nvme: of a GiB; None: unknown.
        prefill_tok_s: tokens that a GPU computes per second; None: unknown.
    """

    cpu: Decimal | None = None
    nvme: Decimal | None = None
    price_dram: Decimal | None = None
    price_nvme: Decimal | None = None
    prefill_tok_s: float | None = None

    def cost(self, memory: MemorySize) -> float | None:
        """Return what memory costs; None if a price is unknown."""
        if self.price_dram is None or self.price_nvme is None or memory.nvme is None:
            return None
        return float(memory.cpu * self.price_dram + memory.nvme * self.price_nvme)


@dataclass(frozen=True)
class Judged:
    """Sizes, and what the plan for them does.

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


@dataclass(frozen=True)
class OnHalves:
    """Sizes chosen on the first half of the requests, judged on the second.

    Attributes:
        first: what they do in the first half.
        second: what they do in the second half, after the first one filled the tiers.
        missed_by: target minus the hit rate of the second half; negative if it is above.
    """

    first: Judged
    second: Judged
    missed_by: float | None


@dataclass(frozen=True)
class Reversal:
    """A larger size with a lower hit rate than a smaller one."""

    smaller: Judged
    larger: Judged


@dataclass(frozen=True)
class Answer:
    """Sizes that reach the targets, and what binds them.

    Attributes:
        targets: what was asked for.
        bound: what a cache that never evicts does, under the same rules.
        chosen: the sizes found; None if no sizes reach the targets.
        binds: what keeps them from being smaller; else what no size reaches.
        pairs: sizes of DRAM with the least NVMe for each, less DRAM first.
        one_step_smaller: the chosen sizes with one step less DRAM, and with one step less NVMe.
        curve: hit rates while one tier is halved again and again, the largest first.
        halved: name of that tier, cpu or nvme.
        cliff: index in `curve` of the size whose halving loses the most.
        halves: the same search on half of the trace.
        reversal: the worst case found in which more memory hits less; None: there was none.
        break_even: loading against computing again; None if a rate is unknown.
        plans: number of plans made.
    """

    targets: SizeTargets
    bound: Judged
    chosen: Judged | None
    binds: tuple[Missed, ...]
    pairs: tuple[Judged, ...] = ()
    one_step_smaller: tuple[Judged, ...] = ()
    curve: tuple[Judged, ...] = ()
    halved: str = "cpu"
    cliff: int | None = None
    halves: OnHalves | None = None
    reversal: Reversal | None = None
    break_even: BreakEven | None = None
    plans: int = 0


class Sizing:
    """Finds the answer for one trace.

    Args:
        planner: makes the plans.
        targets: what is asked of the memory.
        choice: what the user has decided.
    """

    def __init__(self, planner: SizePlanner, targets: SizeTargets, choice: Choice) -> None:
        self._planner = planner
        self._targets = targets
        self._choice = choice
        self._headroom = planner.headroom
        self._search = SizeSearch(planner, targets)

    def answer(self) -> Answer:
        """Return the answer."""
        bound = self._judge(self._planner.everything)
        if "hit rate" in bound.missed:
            return Answer(self._targets, bound, None, ("hit rate",), plans=len(self._planner.made))
        tried = sorted(self._find_pairs(), key=lambda memory: memory.cpu)
        pairs = tuple(self._judge(memory) for memory in tried)
        reached = [memory for memory in tried if not self._search.missed(memory)]
        if not reached:
            return Answer(
                *(self._targets, bound, None, self._search.missed(tried[-1])),
                pairs=pairs,
                plans=len(self._planner.made),
            )
        chosen = self._shrink(self._cheapest(reached))
        smaller = tuple(self._judge(memory) for memory in _step_down(chosen))
        halved, curve = self._halve(chosen)
        return Answer(
            targets=self._targets,
            bound=bound,
            chosen=self._judge(chosen),
            binds=tuple(dict.fromkeys(name for one in smaller for name in one.missed)),
            pairs=pairs,
            one_step_smaller=smaller,
            curve=curve,
            halved=halved,
            cliff=_find_cliff(curve),
            halves=self._judge_halves(chosen),
            reversal=self._find_reversal(),
            break_even=self._weigh_loading(chosen),
            plans=len(self._planner.made),
        )

    def _judge(self, memory: MemorySize, part: Part | None = None) -> Judged:
        """Return what the plan for these sizes does in a part of the trace; by default in all."""
        part = part or self._search.part(memory)
        return Judged(
            float(memory.cpu),
            None if memory.nvme is None else float(memory.nvme),
            part.rate(self._targets.by),
            part.drive_writes(memory.nvme_bytes),
            part.nvme_gib_s,
            self._targets.missed(part, memory),
            self._choice.cost(memory),
        )

    def _find_pairs(self) -> Iterator[MemorySize]:
        """Yield sizes of DRAM with the least NVMe that reaches the targets, or comes closest."""
        choice = self._choice
        if choice.nvme is not None:
            nvme = choice.nvme if choice.nvme.is_finite() else None
            yield self._search.find_cpu(nvme).memory
            return
        if choice.cpu is not None:
            yield self._search.find_nvme(choice.cpu).memory
            return
        alone = self._search.find_cpu(_ZERO).memory
        yield alone
        index = _index(alone.cpu)
        indices = [index := halve(index) for _ in range(_HALVED_DRAM)]
        last, least, too_little = alone, _index(alone.cpu), -1
        for index in dict.fromkeys([*indices, 0]):
            last = self._find_nvme(index, last)
            yield last
            if self._search.missed(last):
                too_little = index
                break
            least = index
        while 0 <= too_little < least - 1:
            index = (too_little + least) // 2
            last = self._find_nvme(index, last)
            yield last
            if self._search.missed(last):
                too_little = index
            else:
                least = index

    def _find_nvme(self, cpu_index: int, near: MemorySize) -> MemorySize:
        """Find the least NVMe for a DRAM; begin where both together hold as much as `near`."""
        cpu = size_gib(cpu_index)
        guess = (near.nvme or _ZERO) + (near.cpu - cpu) * self._headroom
        return self._search.find_nvme(cpu, _index(max(guess, _ZERO))).memory

    def _cheapest(self, reached: Sequence[MemorySize]) -> MemorySize:
        """Return the cheapest sizes; without prices, those with the least DRAM, then NVMe."""

        def rank(memory: MemorySize) -> tuple[float, Decimal, Decimal]:
            return (self._choice.cost(memory) or 0.0, memory.cpu, memory.nvme or _ZERO)

        return min(reached, key=rank)

    def _shrink(self, memory: MemorySize) -> MemorySize:
        """Make the sizes that are to be found smaller, until one step less misses a target."""
        for _ in range(_MAX_ROUNDS):
            before = memory
            if self._choice.cpu is None:
                memory = self._search.find_cpu(memory.nvme, _index(memory.cpu)).memory
            if self._choice.nvme is None and memory.nvme:
                memory = self._search.find_nvme(memory.cpu, _index(memory.nvme)).memory
            if memory == before:
                break
        return memory

    def _halve(self, chosen: MemorySize) -> tuple[str, tuple[Judged, ...]]:
        """Return the tier that is halved again and again, and what each size does."""
        nvme = chosen.nvme or _ZERO
        halves_nvme = nvme > chosen.cpu * self._headroom
        size = nvme if halves_nvme else chosen.cpu
        sizes = [size * 2**power for power in (*range(_DOUBLINGS, 0, -1), 0)]
        at = _index(size)
        sizes += [size_gib(at := halve(at)) for _ in range(_HALVINGS)]
        tier = "nvme" if halves_nvme else "cpu"
        memories = [replace(chosen, **{tier: size}) for size in dict.fromkeys(sizes)]
        return tier, tuple(self._judge(memory) for memory in memories)

    def _judge_halves(self, chosen: MemorySize) -> OnHalves:
        """Choose the tier that is to be found on the first half, and judge it on the second."""
        search = SizeSearch(self._planner, self._targets, "first")
        if self._choice.nvme is None and chosen.nvme:
            found = search.find_nvme(chosen.cpu, _index(chosen.nvme)).memory
        else:
            found = search.find_cpu(chosen.nvme, _index(chosen.cpu)).memory
        parts = self._planner.make(found)
        second = self._judge(found, parts["second"])
        rate = second.hit_rate
        missed_by = None if rate is None else float(self._targets.hit_rate) - rate
        return OnHalves(self._judge(found, parts["first"]), second, missed_by)

    def _weigh_loading(self, chosen: MemorySize) -> BreakEven | None:
        """Compare loading from the nvme found with computing again."""
        nvme_gib_s, prefill_tok_s = self._targets.nvme_gib_s, self._choice.prefill_tok_s
        if nvme_gib_s is None or prefill_tok_s is None:
            return None
        prompts = self._planner.count(chosen).prompts()
        return weigh_loading(prompts, self._planner.bytes_per_token, nvme_gib_s, prefill_tok_s)

    def _find_reversal(self) -> Reversal | None:
        """Find the two sizes tried for which more memory hits the least in comparison."""
        worst: tuple[float, MemorySize, MemorySize] | None = None
        memories = sorted(self._planner.made, key=_order)
        rates = {memory: self._search.part(memory).rate(self._targets.by) for memory in memories}
        for at, smaller in enumerate(memories):
            for larger in memories[at + 1 :]:
                has_more = larger.cpu >= smaller.cpu and _order(larger)[1] >= _order(smaller)[1]
                lost = (rates[smaller] or 0.0) - (rates[larger] or 0.0)
                if has_more and lost > (worst[0] if worst else 0.0):
                    worst = (lost, smaller, larger)
        return Reversal(self._judge(worst[1]), self._judge(worst[2])) if worst else None


def _order(memory: MemorySize) -> tuple[Decimal, Decimal]:
    return memory.cpu, Decimal("inf") if memory.nvme is None else memory.nvme


def _index(gib: Decimal) -> int:
    return index_of(-int(-gib * 2**30))


def _step_down(memory: MemorySize) -> list[MemorySize]:
    """Return the sizes one step smaller in either tier."""
    smaller = []
    if memory.cpu:
        smaller.append(replace(memory, cpu=size_gib(_index(memory.cpu) - 1)))
    if memory.nvme:
        smaller.append(replace(memory, nvme=size_gib(_index(memory.nvme) - 1)))
    return smaller


def _find_cliff(curve: Sequence[Judged]) -> int | None:
    """Return the index of the size whose halving loses the most; None if none loses anything."""
    rates = [one.hit_rate or 0.0 for one in curve]
    losses = [rate - halved for rate, halved in itertools.pairwise(rates)]
    worst = max(losses, default=0.0)
    return losses.index(worst) if worst > 0 else None
