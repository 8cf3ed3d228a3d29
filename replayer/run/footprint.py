"""The most objects and bytes that an execution may have in each tier at a time."""

from typing import Any

from replayer.planning.pace import Window
from replayer.planning.plan import Plan
from replayer.record.columns import TIERS
from replayer.run.settings import NVME
from replayer.tiers.memory import unit_of


def most_objects(plan: Plan, peaks: list[int], window: Window) -> list[int]:
    """Of each tier, what an execution may have in it at a time: more than the plan's peak.

    Beside what the plan has there at some op, others of the window may be on their way in before any has left: what its
    ops store, and what they push out of faster tiers.
    """
    return [min(plan.workload.keys, sum(peaks[: tier + 1]) + window.ops) for tier in range(len(TIERS))]


def nvme_room(plan: Plan, planned: dict[str, Any] | None, window: Window) -> int:
    """Bytes that the nvme tier takes at most, padding included: what is written, and no more than it may hold.

    An unlimited tier has no ledger: what the plan stores may come before what it takes away has left.
    """
    limit, objects = plan.usable[NVME], most_objects(plan, plan.peak_objects, window)[NVME]
    if planned is None:  # placement is decided on the way: every object there is, once
        whole = int(plan.workload.sizes().sum())
        most = whole if limit is None else min(limit, whole)
    elif limit is None:
        most = planned["write_bytes"]["nvme"]
        if window.bytes is not None:
            most = min(most, planned["peak_bytes"]["nvme"] + window.bytes)
    else:
        most = min(planned["write_bytes"]["nvme"], limit)
    if planned is not None:
        objects = min(objects, sum(planned["stores"].values()) + sum(planned["demotions"].values()))
    return int(most + objects * unit_of(most))
