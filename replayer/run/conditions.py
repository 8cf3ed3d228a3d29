"""The conditions of a run: the settings that two runs must share to be compared."""

from replayer.planning.moves import GPU
from replayer.planning.plan import Plan
from replayer.record.run_info import Conditions, TierSizes, WarmupCondition
from replayer.run.opening import OpenTiers
from replayer.run.settings import Settings


def make_conditions(
    model: str,
    plan: Plan,
    settings: Settings,
    tiers: OpenTiers,
    ranks: int,
) -> Conditions:
    """Return the conditions of a run of `ranks` processes on these tiers."""
    options = plan.options
    arrangement = options.arrangement.to_record()
    selection = options.selection
    sizes = options.bytes_per_token
    windowed = sizes.windowed or None
    pace = settings.pace
    span = settings.span
    gpu, cpu, nvme = plan.usable
    has_gpu = tiers.all[GPU] is not None
    has_disk = tiers.nvme is not None
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
        workers=settings.workers,
        pace=pace.kind,
        speedup=pace.speedup,
        token_ms=pace.token_ms,
        prefill_tok_s=pace.prefill_tok_s,
        request_depth=pace.request_depth,
        max_concurrent_allocs=settings.allocs,
        duration_s=span.duration_s,
        drain_s=span.drain_s,
        ops=span.ops,
        warmup=WarmupCondition(ops=span.warmup_ops, s=span.warmup_s),
        precondition_gib=settings.precondition_gib,
        layout=settings.layout,
        direct=tiers.nvme.direct if tiers.nvme is not None else None,
        io_bytes=settings.io.size,
        io_depth=settings.io.depth,
        io_engine=settings.io.engine if has_disk else None,
        fsync=settings.io.fsync,
        verify=settings.verify,
        gpu_device=settings.gpu_device if has_gpu else None,
        gpu_read=settings.gpu_read if has_gpu else None,
        gds=settings.gds,
        throttle={tier: limit.as_dict() for tier, limit in settings.throttles.items()},
        window_ops=settings.window.ops,
        window_bytes=settings.window.bytes,
        ranks=ranks,
    )
