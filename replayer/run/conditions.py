"""The first run.json of a run, and its conditions: what two runs must share to be compared."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import msgspec

from replayer.options.settings import Settings
from replayer.planning.plan import Plan
from replayer.record.columns import RUN_VERSION
from replayer.record.run_info import (
    Conditions,
    PlanInfo,
    RunInfo,
    TierSizes,
    TraceInfo,
    WarmupCondition,
)
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


def make_conditions(
    model: str,
    plan: Plan,
    settings: Settings,
    tiers: TierFacts,
    ranks: int,
) -> Conditions:
    """Return the conditions of a run of `ranks` processes on tiers of this kind."""
    options = plan.options
    arrangement = options.arrangement.to_record()
    selection = options.selection
    sizes = options.bytes_per_token
    windowed = sizes.windowed or None
    devices = settings.devices
    pace = settings.demand.pace
    span = settings.span
    gpu, cpu, nvme = plan.usable
    return Conditions(
        model=model,
        bytes_per_token=sizes.per_token,
        windowed_bytes_per_token=windowed,
        attention_window=sizes.window if windowed else None,
        state_bytes_per_object=sizes.state or None,
        usable_bytes=TierSizes(gpu=gpu, cpu=cpu, nvme=nvme),
        headroom=str(options.headroom),
        arrangement=arrangement.name,
        rules=arrangement.rules,
        promote=arrangement.promote,
        lookup=plan.lookup,
        decode=selection.decode,
        users=selection.users,
        part=selection.part,
        cycles=selection.cycles,
        order=options.order.to_info(),
        placement="live" if options.order.kind == "live" else "planned",
        workers=settings.demand.workers,
        pace=pace.kind,
        speedup=pace.speedup,
        token_ms=pace.token_ms,
        prefill_tok_s=pace.prefill_tok_s,
        request_depth=pace.request_depth,
        max_concurrent_allocs=settings.demand.allocs,
        duration_s=span.duration_s,
        drain_s=span.drain_s,
        ops=span.ops,
        warmup=WarmupCondition(ops=span.warmup_ops, s=span.warmup_s, steady=span.begins_steady or msgspec.UNSET),
        precondition_gib=settings.control.precondition,
        layout=devices.layout,
        direct=tiers.direct,
        io_bytes=settings.io.size,
        io_depth=settings.io.depth,
        io_engine=settings.io.engine if tiers.has_disk else None,
        fsync=settings.io.fsync,
        verify=devices.verify,
        gpu_device=devices.gpu_device if tiers.has_gpu else None,
        gpu_read=devices.gpu_read if tiers.has_gpu else None,
        gds=devices.gds,
        throttle={tier: limit.as_dict() for tier, limit in settings.throttles.items()},
        window_ops=settings.window.ops,
        window_bytes=settings.window.bytes,
        ranks=ranks,
    )
