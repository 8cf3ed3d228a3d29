"""The first run.json of a run, and its conditions: what two runs must share to be compared."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec

from replayer.options.recorded import record_load, record_plan
from replayer.options.settings import Settings
from replayer.planning.plan import Plan
from replayer.record.columns import RUN_VERSION
from replayer.record.conditions import Conditions, DeviceConditions, SpanConditions, WarmupCondition
from replayer.record.run_info import PlanInfo, RunInfo, TraceInfo
from replayer.record.run_parts import Machine
from tracegen.schema import Trace


@dataclass(frozen=True)
class TierFacts:
    """The facts about the tiers of a run that its conditions name.

    Attributes:
        has_gpu: whether there is a gpu tier.
        has_disk: whether the nvme tier is on a disk.
        direct: whether it bypasses the page cache; None if it is not on a disk.
    """

    has_gpu: bool
    has_disk: bool
    direct: bool | None


def describe_start(
    trace: Trace,
    *,
    plan: PlanInfo | None,
    conditions: Conditions,
    machine: Machine,
    started: datetime,
) -> RunInfo:
    """Return the run.json of a single process before the execution starts."""
    facts: dict[str, Any] = {"path": str(trace.path), "ops": trace.ops} | asdict(trace.metadata)
    return RunInfo(
        run_version=RUN_VERSION,
        status="running",
        reason="the run has not ended, or was killed",
        started=started.isoformat(timespec="seconds"),
        rank=0,
        trace=msgspec.convert(facts, TraceInfo),
        plan=plan,
        conditions=conditions,
        machine=machine,
        warnings=(),
    )


def make_conditions(model: str, plan: Plan, settings: Settings, tiers: TierFacts, ranks: int) -> Conditions:
    """Return the conditions of a run of `ranks` processes on tiers of this kind."""
    span, devices, io = settings.span, settings.devices, settings.io
    warmup = WarmupCondition(ops=span.warmup_ops, s=span.warmup_s, steady=span.begins_steady or msgspec.UNSET)
    return Conditions(
        plan=record_plan(model, plan, ranks),
        load=record_load(settings.demand, settings.window),
        span=SpanConditions(duration_s=span.duration_s, drain_s=span.drain_s, ops=span.ops, warmup=warmup),
        devices=DeviceConditions(
            precondition_gib=settings.control.precondition,
            layout=devices.layout,
            direct=tiers.direct,
            io_bytes=io.size,
            io_depth=io.depth,
            io_engine=io.engine if tiers.has_disk else None,
            fsync=io.fsync,
            verify=devices.verify,
            gpu_device=devices.gpu_device if tiers.has_gpu else None,
            gpu_read=devices.gpu_read if tiers.has_gpu else None,
            gds=devices.gds,
            throttle={tier: limit.as_dict() for tier, limit in settings.throttles.items()},
        ),
    )
