"""Evidence: one plan's counts, its trace's reuse, and plans with a rule changed."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from replayer.arrangements.arrangement import Arrangement, TierRules
from replayer.planning.moves import BYPASS, MISS, STORE, Stretch
from replayer.planning.offered_load import Minutes
from replayer.planning.plan import Plan
from replayer.planning.plan_summary import PlanSummary
from replayer.planning.workload import Workload
from replayer.record.columns import TIERS
from replayer.record.simulation import Cell
from replayer.simulation.counts import CellCounts, Peaks


@dataclass(frozen=True, eq=False)
class PromptReuse:
    """Sums over the prompts of a trace.

    Attributes:
        prompt_tokens: tokens of all prompts.
        reused_tokens: the tokens of objects that an op before was on.
        stored_tokens: those of them that chunks let a tier store.
        object_bytes: bytes of each object that is stored at all, shape (objects,).
        reused_bytes: bytes of all objects that are used twice or more.
        once_bytes: bytes of all objects that are used once.
        prefix_bytes: bytes of the objects that each request uses again, shape (requests with any,).
    """

    prompt_tokens: int
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
            prompt_tokens=int(tokens.sum(dtype=np.int64)),
            reused_tokens=int(tokens[is_again].sum(dtype=np.int64)),
            stored_tokens=int(spared[is_again].sum(dtype=np.int64)),
            object_bytes=sizes[(uses > 0) & (sizes > 0)],
            reused_bytes=int(sizes[uses > 1].sum()),
            once_bytes=int(sizes[uses == 1].sum()),
            prefix_bytes=prefix[prefix > 0].astype(np.int64),
        )


GAIN: Final = 0.01
"""Share of the tokens that prompts reuse which a remedy must spare in addition, to be named."""
LEAST_GAIN: Final = 0.005
"""The same as a share of all prompt tokens: less is no difference."""
_UNBOUNDED: Final = 1 << 62


class Observation:
    """The counts of a plan that the checks need; add each stretch in order.

    Attributes:
        counts: as in a cell of a simulation.
        headless: reads that missed though a tier had the object, in requests that had lost an
            earlier object.
    """

    def __init__(self, workload: Workload) -> None:
        self.counts = CellCounts(workload, Minutes(workload))
        self.headless = 0
        self._workload = workload
        self._has_lost = np.zeros(workload.requests, bool)

    def add(self, stretch: Stretch, *_: object) -> None:
        """Add a stretch of the plan."""
        self.counts.add(stretch)
        moves = stretch.moves["move"]
        is_miss = moves == MISS
        if not is_miss.any():
            return
        op = np.repeat(np.arange(len(stretch.ops)), stretch.ops["moves"])
        has_missed, has_stored = np.zeros((2, len(stretch.ops)), bool)
        has_missed[op[is_miss]] = True
        has_stored[op[(moves == STORE) | (moves == BYPASS)]] = True
        request = self._workload.requests_of(stretch.ops["row"])
        self._has_lost[request[has_missed & has_stored]] = True
        self.headless += int(self._has_lost[request[has_missed & ~has_stored]].sum())


class PlanEvidence:
    """All that the checks look at.

    Attributes:
        plan: the plan, made.
        summary: of the plan.
        cell: its counts, by the names of a simulation's columns.
        headless: reads that missed though a tier had the object: see `Observation`.

    Args:
        plan: the plan.
        summary: of the plan.
        observation: of all its stretches.
        advance: takes the number of ops planned since its last call, in plans with a rule changed.
    """

    def __init__(
        self,
        plan: Plan,
        summary: PlanSummary,
        observation: Observation,
        advance: Callable[[int], object] = lambda _ops: None,
    ) -> None:
        self.plan = plan
        self.summary = summary
        peak = summary.peak_bytes
        peaks = Peaks((peak.gpu or 0, peak.cpu or 0, peak.nvme or 0), summary.peak_objects)
        self.cell: Cell = observation.counts.to_cell(plan.options, peaks)
        self.headless = observation.headless
        self._minutes = observation.counts.minutes
        self._advance = advance

    @functools.cached_property
    def reuse(self) -> PromptReuse:
        """Reuse in the trace's prompts."""
        return PromptReuse.of(self.plan.workload)

    @property
    def rules(self) -> Arrangement:
        """The rules of the plan."""
        return self.plan.options.arrangement

    @property
    def reads(self) -> int:
        """Number of reads."""
        return self.count("reads")

    def count(self, column: str) -> int:
        """Return a count of the plan, by the name of a simulation's column."""
        value = self.cell[column]
        assert isinstance(value, int), column
        return value

    def tiers(self) -> dict[str, int]:
        """Return the usable bytes of each tier that exists, fast to slow."""
        usable = dict(zip(TIERS, self.plan.usable, strict=True))
        rooms = {tier: _UNBOUNDED if size is None else size for tier, size in usable.items()}
        return {tier: size for tier, size in rooms.items() if size}

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
        cuts_anew = {"chunk_tokens", "tail"} & whole.keys()
        other = Plan(
            self.plan.trace,
            replace(options, arrangement=arrangement, capacity_gib=capacity),
            None if cuts_anew else self.plan.workload,
        )
        counts = CellCounts(other.workload, self._minutes)
        for stretch in other.planner().stretches():
            counts.add(stretch)
            self._advance(len(stretch.ops))
        return sum(counts.spared_tokens(tier) for tier in TIERS if within in ("", tier))

    def measure_gain(
        self,
        share: float = GAIN,
        sizes: Mapping[str, Decimal] = {},
        *,
        within: str = "",
        **changes: Any,
    ) -> dict[str, int] | None:
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
        if self.reuse.reused_tokens - spared < least:
            return None
        more = self.replan(sizes, within=within, **changes) - spared
        if more < least:
            return None
        return {"prompt_tokens": prompt, "spared_tokens": spared, "more_spared_tokens": more}
