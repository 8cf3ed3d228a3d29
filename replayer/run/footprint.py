"""The most objects and bytes that an execution may have in each tier at a time."""

from dataclasses import dataclass
from functools import cached_property

from replayer.planning.counts import PlanSummary
from replayer.planning.moves import NVME
from replayer.planning.pace import PlanWindow
from replayer.planning.plan import Plan
from replayer.record.options import TIERS
from replayer.record.run_info import PairCounts
from replayer.tiers.base import choose_unit


@dataclass(frozen=True)
class Footprint:
    """The room that an execution of a plan needs.

    Attributes:
        plan: the plan.
        summary: of the plan; None if placement is decided during the run.
        window: how far execution runs ahead.
    """

    plan: Plan
    summary: PlanSummary | None
    window: PlanWindow

    @cached_property
    def largest_object(self) -> int:
        """The bytes of the largest object."""
        if self.summary is not None:
            return self.summary.largest_object
        return int(self.plan.workload.sizes().max(initial=0))

    @cached_property
    def objects(self) -> list[int]:
        """The most objects in each tier.

        That is more than the plan's peak: besides the objects that the plan has in a tier at some
        op, the window's ops may already store objects, and push others out of faster tiers, before
        any object has left.
        """
        keys = self.plan.workload.keys
        peaks = self._bound_live() if self.summary is None else self.summary.peak_objects
        return [min(keys, sum(peaks[: tier + 1]) + self.window.ops) for tier in range(len(TIERS))]

    def _bound_live(self) -> list[int]:
        """Return the most objects in each tier if any of them may be there: as many of the smallest as fit."""
        keys = self.plan.workload.keys
        sizes = self.plan.workload.sizes()
        smallest = int(sizes[sizes > 0].min(initial=1 << 62))
        return [keys if size is None else min(keys, size // smallest) for size in self.plan.capacity]

    @cached_property
    def nvme_bytes(self) -> int:
        """The most bytes on the nvme tier's disk, padding included.

        An unlimited tier admits every store at once: stores may come before the drops that the plan
        has before them.
        """
        limit = self.plan.usable[NVME]
        objects = self.objects[NVME]
        summary = self.summary
        if summary is None:  # any object may be stored, once
            size = int(self.plan.workload.sizes().sum())
        else:
            size = summary.write_bytes.nvme
            stored = summary.stores.gpu + summary.stores.cpu + summary.stores.nvme
            entered = stored + _sum_pairs(summary.demotions)
            if summary.copies:
                entered += _sum_pairs(summary.copies)
            objects = min(objects, entered)
            if limit is None and self.window.bytes is not None:
                size = min(size, summary.peak_bytes.nvme + self.window.bytes)
        if limit is not None:
            size = min(size, limit)
        # Each object may leave the last unit of its extents nearly empty.
        return int(size + objects * choose_unit(size))


def _sum_pairs(counts: PairCounts) -> int:
    return counts.gpu_cpu + counts.gpu_nvme + counts.cpu_nvme
