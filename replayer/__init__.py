"""Replays traces on a waterfall of KV-cache tiers and logs every move."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replayer.options.plan_trace import PlannedTrace
    from tracegen.schema import Trace

__all__ = ["plan"]


def plan(trace: "Path | str | Trace", **settings: Any) -> "PlannedTrace":
    """Plan a trace without any I/O on a tier.

        planned = replayer.plan("trace.parquet", model="llama3.1-8b", cpu_mem_gb=4)
        planned.summary.hits.cpu, planned.summary.read_bytes.nvme
        planned.moves().group_by("move").len()

    Args:
        trace: a trace, or its path.
        settings: those of `replayer plan` by their Python names, as in `storage_capacity_gb`:
            capacities in GiB, `math.inf` for unlimited ones. A setting that is absent has the
            value in the trace's recipe, else the default of the command.

    Returns:
        The plan with its `summary`: `hits`, `stores`, `read_bytes`, `write_bytes`, `peak_bytes` by
        tier, `plan_fingerprint`, and more. `moves()` gives a Polars frame with a row per move.

    Raises:
        tracegen.errors.InputError: the trace cannot be read or breaks an invariant, or a setting
            is wrong; with the fields `problem`, `remedy`, `subject` and `setting`.
    """
    from replayer.options.plan_trace import plan_trace  # noqa: PLC0415 (takes time to import)

    return plan_trace(trace, **settings)
