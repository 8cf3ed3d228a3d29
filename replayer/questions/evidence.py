"""Evidence: one plan's counts, its trace's reuse, and plans with a rule changed."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from replayer.arrangements.arrangement import Arrangement, TierRules
from replayer.planning.counts import GIB, PlanCounts
from replayer.planning.plan import Plan
from replayer.planning.workload import Workload
from replayer.questions.columns import tabulate_counts
from replayer.record.options import TIERS
from replayer.record.simulation import Cell
from tracegen.errors import ToolError
from tracegen.progress import Advance


@dataclass(frozen=True, eq=False)
class PromptReuse:
    """Sums over the prompts of a trace.

    Attributes:
        reused_tokens: the tokens of objects that an op before was on.
        stored_tokens: those of them that chunks let a tier store.
        object_bytes: bytes of each object that is stored at all, shape (objects,).
        reused_bytes: bytes of all objects that are used twice or more.
        once_bytes: bytes of all objects that are used once.
        prefix_bytes: bytes of the objects that each request uses again, shape (requests with any,).
    """

    reused_tokens: int
    stored_tokens: int
    object_bytes: NDArray[np.int64]
    reused_bytes: int
    once_bytes: int
    prefix_bytes: NDArray[np.int64]

    @classmethod
    def of(cls, workload: Workload) -> "PromptReuse":
        """Measure the prompts of a trace, as its objects are stored."""
        request, key, is_again = workload.prompts()
        sizes = workload.sizes()
        tokens = workload.tokens(key.astype(np.int64))
        spared = workload.spared_tokens()[key]
        uses = np.bincount(key, minlength=workload.keys)
        prefix = np.bincount(request[is_again], sizes[key[is_again]], minlength=workload.requests)
        return cls(
            reused_tokens=_add_up(tokens[is_again]),
            stored_tokens=_add_up(spared[is_again]),
            object_bytes=sizes[(uses > 0) & (sizes > 0)],
            reused_bytes=_add_up(sizes[uses > 1]),
            once_bytes=_add_up(sizes[uses == 1]),
            prefix_bytes=prefix[prefix > 0].astype(np.int64),
        )


def _add_up(values: NDArray[Any]) -> int:
    return int(values.sum(dtype=np.int64))


class Finding(msgspec.Struct, frozen=True):
    """One reason why tiers bring little.

    Attributes:
        cause: its name, as docs/why.md lists it.
        tiers: the tiers that it is about; none: all of them.
        problem: a clause with the counts; it names settings in backquotes.
        remedy: an imperative clause, with settings as in `problem`.
        counts: the counts of the clause, and others, by name.
    """

    cause: str
    tiers: tuple[str, ...]
    problem: str
    remedy: str
    counts: dict[str, int] = {}

    def phrase(self) -> ToolError:
        """Return the finding as an error would be phrased; `sentence` of it names flags."""
        return ToolError(f"{self.cause}: {self.problem}", self.remedy)


def describe_gain(counts: dict[str, int], within: str = "") -> str:
    """Return the clause that says what a remedy gains, from the counts of `measure_gain`."""
    where = f" in {within}" if within else ""
    spared, prompt = counts["spared_tokens"], counts["prompt_tokens"]
    after = (spared + counts[MORE]) / prompt
    return f"{after:.1%} of prompt tokens hit{where} instead of {spared / prompt:.1%}"


def name_gib(size: float) -> str:
    """Return bytes as a number of GiB that a flag takes: 3 digits, rounded up."""
    if size <= 0:
        return "0"
    gib = float(f"{size / GIB:.3g}")
    return f"{gib if gib * GIB >= size else float(f'{size / GIB * 1.005:.3g}'):g}"


# What a remedy gains: prompt tokens, those that hits spare, and how many more they would
Gain = dict[str, int]
MORE: Final = "more_spared_tokens"
# Share of the tokens that prompts reuse which a remedy must spare in addition, to be named
GAIN: Final = 0.01
# The same as a share of all prompt tokens: less is no difference
LEAST_GAIN: Final = 0.005
SETTINGS: Final = {"gpu": "gpu_mem_gb", "cpu": "cpu_mem_gb", "nvme": "storage_capacity_gb"}
_UNBOUNDED: Final = 1 << 62


class PlanEvidence:
    """All that the checks look at.

    Attributes:
        plan: the plan, made.
        counts: of the plan.
        cell: its counts, by the names of a simulation's columns.

    Args:
        plan: the plan.
        counts: of the plan, with its minutes.
        advance: takes the number of ops planned since its last call, in plans with a rule changed.
    """

    def __init__(self, plan: Plan, counts: PlanCounts, advance: Advance = lambda _ops: None) -> None:
        self.plan = plan
        self.counts = counts
        self.cell: Cell = tabulate_counts(counts, plan.options)
        self._advance = advance

    @functools.cached_property
    def reuse(self) -> PromptReuse:
        """Reuse in the trace's prompts."""
        return PromptReuse.of(self.plan.workload)

    @property
    def rules(self) -> Arrangement:
        """The rules of the plan."""
        return self.plan.options.arrangement

    def count(self, column: str) -> int:
        """Return a count of the plan, by the name of a simulation's column."""
        value = self.cell[column]
        assert isinstance(value, int), column
        return value

    def rate(self, column: str) -> float | None:
        """Return a rate of the plan, or None where it does not apply, as `count` returns counts."""
        value = self.cell[column]
        assert isinstance(value, float | None), column
        return value

    def tiers(self) -> dict[str, int]:
        """Return the usable bytes of each tier that exists, fast to slow."""
        usable = zip(TIERS, self.plan.usable, strict=True)
        return {tier: _UNBOUNDED if size is None else size for tier, size in usable if size != 0}

    def bounded_tiers(self) -> dict[str, int]:
        """Return the usable bytes of each tier that exists and has a limit."""
        return {tier: size for tier, size in self.tiers().items() if size < _UNBOUNDED}

    def tiers_with(self, has_rule: Callable[[TierRules], bool]) -> tuple[str, ...]:
        """Return the tiers that exist and have a rule."""
        rules = self.rules.tiers()
        return tuple(tier for tier in self.tiers() if has_rule(rules[tier]))

    def replan(self, sizes: Mapping[str, Decimal] = {}, *, within: str = "", **changes: Any) -> int:
        """Plan the trace anew with changes; return the prompt tokens that hits spare.

        Args:
            sizes: GiB of the tiers that change.
            within: the tier whose hits count; all by default.
            **changes: keys of an arrangement, or of the rules of each tier.
        """
        rules, options = self.rules, self.plan.options
        whole = {key: value for key, value in changes.items() if hasattr(rules, key)}
        tier = {key: value for key, value in changes.items() if key not in whole}
        gpu, cpu, nvme = options.capacity_gib
        capacity = (sizes.get("gpu", gpu), sizes.get("cpu", cpu), sizes.get("nvme", nvme))
        arrangement = replace(rules.with_tiers(**tier), **whole)
        # Objects are cut when the ops are loaded: other chunks need them loaded again.
        cuts_anew = {"chunk_tokens", "tail"} & whole.keys()
        other = Plan(
            self.plan.trace,
            replace(options, arrangement=arrangement, capacity_gib=capacity),
            None if cuts_anew else self.plan.workload,
        )
        counts = other.count(PlanCounts(other.workload), self._advance)
        return sum(counts.spared_tokens(tier) for tier in TIERS if within in ("", tier))

    def measure_gain(
        self, share: float = GAIN, sizes: Mapping[str, Decimal] = {}, *, within: str = "", **changes: Any
    ) -> Gain | None:
        """Plan again with a remedy; return the counts if it spares enough more prompt tokens.

        Args:
            share: of the tokens that prompts reuse, which must be spared in addition.
            sizes: see `replan`.
            within: see `replan`.
            **changes: see `replan`.
        """
        prompt = self.count("prompt_tokens")
        spared = self.count(f"spared_tokens_{within}" if within else "spared_tokens")
        least = max(1, share * self.reuse.reused_tokens, LEAST_GAIN * prompt)
        # Not even all that is reused would be enough: a plan is saved.
        if self.reuse.reused_tokens - spared < least:
            return None
        more = self.replan(sizes, within=within, **changes) - spared
        if more < least:
            return None
        return {"prompt_tokens": prompt, "spared_tokens": spared, MORE: more}

    def count_evictions(self, tier: str) -> int:
        """Return how many objects a tier evicts, to a slower tier or nowhere."""
        return sum(self.count(f"{kind}_{tier}") for kind in ("demotions", "drops", "free_drops"))

    def plan_room(self, tier: str, size: float, within: str = "") -> tuple[str, Gain | None]:
        """Plan with more room in a tier; return the clause that gives it, and its gain or None.

        Args:
            tier: gets more room.
            size: usable bytes to try; also those of all objects used again, and of all objects. The
                least that gains half of what the next gains is named.
            within: the tier whose hits count; all by default.
        """
        headroom = 1.0 if tier == "nvme" else float(self.plan.options.headroom)
        least = (0, self.reuse.reused_bytes, _add_up(self.reuse.object_bytes))
        remedy = ""
        best: Gain | None = None
        # From the largest down: the first room with less than half of the gain is too small.
        for room in sorted({max(size, one) for one in least}, reverse=True):
            gib = name_gib(room / headroom)
            gain = self.measure_gain(sizes={tier: Decimal(gib)}, within=within)
            if not gain or (best and gain[MORE] < best[MORE] / 2):
                break
            remedy, best = f"pass `{SETTINGS[tier]}={gib}`: {describe_gain(gain, within)}", gain
        return remedy, best

    def share_without(self, tier: str) -> float | None:
        """Plan without a tier; return the share of prompt tokens that hit, None if it is less."""
        prompt = self.count("prompt_tokens")
        without = self.replan({tier: Decimal(0)})
        is_less = without < self.count("spared_tokens") - LEAST_GAIN * prompt
        return None if is_less else without / prompt
