"""Evidence: one plan's counts, its trace's reuse, and plans with a rule changed."""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from replayer.arrangements.arrangement import Arrangement, TierRules
from replayer.diagnosis.reuse import PromptReuse
from replayer.planning.moves import BYPASS, MISS, STORE, Stretch
from replayer.planning.offered_load import Minutes
from replayer.planning.plan import Plan
from replayer.planning.plan_summary import MoveTotals, PlanSummary
from replayer.planning.workload import Workload
from replayer.record.columns import TIERS
from replayer.record.simulation import Cell
from replayer.simulation.counts import CellCounts, Peaks

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

    def replan_hits(self, **changes: Any) -> int:
        """Plan the trace anew with rules changed, and return its hits.

        Args:
            changes: keys of an arrangement, or of the rules of each tier.
        """
        whole = {key: value for key, value in changes.items() if hasattr(self.rules, key)}
        tier = {key: value for key, value in changes.items() if key not in whole}
        arrangement = replace(self.rules.with_tiers(**tier), **whole)
        options = replace(self.plan.options, arrangement=arrangement)
        totals = MoveTotals()
        other = Plan(self.plan.trace, options, self.plan.workload)
        for stretch in other.planner().stretches():
            totals.add(other.workload, stretch)
            self._advance(len(stretch.ops))
        hits = totals.to_info().hits
        return hits.gpu + hits.cpu + hits.nvme
