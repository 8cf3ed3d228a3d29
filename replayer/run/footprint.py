"""The most objects and bytes that an execution may have in each tier at a time."""

from replayer.planning.counts import PlanSummary
from replayer.planning.moves import NVME
from replayer.planning.pace import PlanWindow
from replayer.planning.plan import Plan
from replayer.record.columns import TIERS
from replayer.record.run_info import PairCounts
from replayer.tiers.base import choose_unit


def most_objects(plan: Plan, summary: PlanSummary | None, window: PlanWindow) -> list[int]:
    """Return the most objects that an execution may have in each tier at a time.

    That is more than the plan's peak: besides the objects that the plan has in a tier at some op,
    the window's ops may already store objects, and push others out of faster tiers, before any
    object has left.

    Args:
        plan: the plan.
        summary: of the plan; None if placement is decided during the run.
        window: how far execution runs ahead.
    """
    keys = plan.workload.keys
    peaks = (keys,) * len(TIERS) if summary is None else summary.peak_objects
    return [min(keys, sum(peaks[: tier + 1]) + window.ops) for tier in range(len(TIERS))]


def _sum_pairs(counts: PairCounts) -> int:
    return counts.gpu_cpu + counts.gpu_nvme + counts.cpu_nvme


def nvme_room(plan: Plan, summary: PlanSummary | None, window: PlanWindow) -> int:
    """Return the most bytes that the nvme tier takes on its disk at a time, padding included.

    An unlimited tier admits every store at once: stores may come before the drops that the plan has
    before them.

    Args:
        plan: the plan.
        summary: of the plan; None if placement is decided during the run.
        window: how far execution runs ahead.
    """
    limit = plan.usable[NVME]
    objects = most_objects(plan, summary, window)[NVME]
    if summary is None:  # any object may be stored, once
        size = int(plan.workload.sizes().sum())
    else:
        size = summary.write_bytes.nvme
        stored = summary.stores.gpu + summary.stores.cpu + summary.stores.nvme
        entered = stored + _sum_pairs(summary.demotions)
        if summary.copies:
            entered += _sum_pairs(summary.copies)
        objects = min(objects, entered)
        if limit is None and window.bytes is not None:
            size = min(size, (summary.peak_bytes.nvme or 0) + window.bytes)
    if limit is not None:
        size = min(size, limit)
    # Each object may leave the last unit of its extents nearly empty.
    return int(size + objects * choose_unit(size))
