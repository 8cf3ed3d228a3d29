"""Everything that two runs must share to be compared."""

from typing import Any

from replayer.planning.plan import Plan, PlanOptions
from replayer.record.columns import TIERS
from replayer.run.opening import GPU, OpenTiers, Settings


def conditions(model: str, options: PlanOptions, plan: Plan, settings: Settings, tiers: OpenTiers) -> dict[str, Any]:
    """Everything that two runs must share to be compared, in plain JSON."""
    selection, pace, span, io = options.selection, settings.pace, settings.span, settings.io
    sizes = options.bytes_per_token
    windows = {"windowed_bytes_per_token": sizes.windowed, "attention_window": sizes.window} if sizes.windowed else {}
    return {
        "model": model,
        "bytes_per_token": sizes.per_token,
        **windows,
        "usable_bytes": dict(zip(TIERS, plan.usable, strict=True)),
        "headroom": str(options.headroom),
        "arrangement": options.arrangement,
        "promote": options.promote,
        "lookup": plan.lookup,
        "decode": selection.decode,
        "users": selection.users,
        "part": list(selection.part),
        "cycles": selection.cycles,
        "order": options.order.described(),
        "placement": "live" if options.order.kind == "live" else "planned",
        "workers": settings.workers,
        "pace": pace.kind,
        "speedup": pace.speedup,
        "token_ms": pace.token_ms,
        "prefill_tok_s": pace.prefill_tok_s,
        "request_depth": pace.request_depth,
        "max_concurrent_allocs": settings.allocs,
        "duration_s": span.duration_s,
        "drain_s": span.drain_s,
        "ops": span.ops,
        "warmup": {"ops": span.warmup_ops, "s": span.warmup_s},
        "precondition_gib": settings.precondition_gib,
        "layout": settings.layout,
        "direct": tiers.nvme.direct if tiers.nvme is not None else None,
        "io_bytes": io.size,
        "io_depth": io.depth,
        "io_engine": io.engine if tiers.nvme is not None else None,
        "fsync": io.fsync,
        "verify": settings.verify,
        "gpu_device": settings.gpu_device if tiers.all[GPU] is not None else None,
        "gpu_read": settings.gpu_read if tiers.all[GPU] is not None else None,
        "gds": settings.gds,
        "throttle": {tier: throttle.as_dict() for tier, throttle in settings.throttles.items()},
        "window_ops": settings.window.ops,
        "window_bytes": settings.window.bytes,
    }
