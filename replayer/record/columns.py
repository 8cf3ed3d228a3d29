"""The columns of a run's log and counters, and the versions of its formats."""

from typing import Final

import pyarrow as pa

from replayer.record.options import TIERS
from tracegen.schema import ENUMS

RUN_VERSION: Final = 2
"""The format of a run directory."""
PREDICTED_RUN_VERSION: Final = 3
"""The same of a predicted run: releases that do not know predictions refuse it."""
PLAN_VERSION: Final = 1
"""What the fingerprint of a plan in the trace's order begins with."""
ORDERED_PLAN_VERSION: Final = 2
"""The same, in any other order."""
ARRANGED_PLAN_VERSION: Final = 3
"""The same in every order, under any arrangement but the waterfall and spillover."""
# Ops between two checkpoints of a plan, by which runs that were cut can be compared.
CHECKPOINT_OPS: Final = 1 << 16

MOVES: Final = ("hit", "store", "miss", "demote", "promote", "drop", "bypass", "delete", "copy")
STATUSES: Final = ("ok", "error", "upstream")
WAITS: Final = ("data", "eviction", "room")
"""What a move waited for last: its own object, the evictions of its own op, room that other ops freed."""
LOG_ENUMS: Final = ENUMS | {
    "move": MOVES,
    "status": STATUSES,
    "from_tier": TIERS,
    "to_tier": TIERS,
    "waited_for": WAITS,
}

_TYPES: Final = {
    pa.int64(): "op_id position request_id session_id user_id key size_bytes due_ns window_ns order_ns ready_ns"
    " start_ns end_ns read_ns write_ns device_read_ns device_write_ns verify_ns",
    pa.int32(): "seq turn step new_tokens tokens worker rank",
    pa.bool_(): "warmup",
    pa.string(): "error",
    pa.dictionary(pa.int8(), pa.string()): " ".join(LOG_ENUMS),
}
_TYPE_OF: Final = {name: kind for kind, names in _TYPES.items() for name in names.split()}
OPTIONAL: Final = ("from_tier", "to_tier", "waited_for", "error")
LOG_COLUMNS: Final = [
    "op_id",
    "seq",
    "request_id",
    "session_id",
    "user_id",
    "turn",
    "step",
    "qos",
    "phase",
    "op",
    "source",
    "new_tokens",
    "key",
    "tokens",
    "size_bytes",
    "move",
    "status",
    "from_tier",
    "to_tier",
    "due_ns",
    "ready_ns",
    "start_ns",
    "end_ns",
    "read_ns",
    "write_ns",
    "device_read_ns",
    "device_write_ns",
    "verify_ns",
    "worker",
    "rank",
    "warmup",
    "error",
    "position",
    "window_ns",
    "order_ns",
    "waited_for",
]


PLANNED_COLUMNS: Final = (
    *("position", "seq", "op_id", "request_id", "session_id", "user_id", "turn", "step"),
    *("qos", "phase", "op", "source", "new_tokens"),
    *("key", "tokens", "size_bytes", "move", "from_tier", "to_tier"),
)
"""What a plan knows of a move: every run of it logs the same."""


def _hints(name: str) -> dict[str, str] | None:
    """Return metadata by which Polars reads an enum as one, in half the time; other readers ignore it."""
    words = LOG_ENUMS.get(name)
    return {"_PL_ENUM_VALUES2": "".join(f"{len(word)};{word}" for word in words)} if words else None


LOG_SCHEMA: Final = pa.schema(
    [pa.field(name, _TYPE_OF[name], nullable=name in OPTIONAL, metadata=_hints(name)) for name in LOG_COLUMNS],
    metadata={"kv-run": str(RUN_VERSION)},
)

DEVICE_SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.int64(), nullable=False) for name in ("time_ns", "interval_ns")),  # the interval's end
        # Of the block device; null where there is none. Requests in flight are a mean.
        *((name, pa.int64()) for name in ("read_bytes", "written_bytes", "read_requests", "write_requests")),
        *((name, pa.float64()) for name in ("queue", "utilisation")),
        # Mean cores busy.
        *(pa.field(name, pa.float64(), nullable=False) for name in ("process_cpu", "system_cpu")),
        # From here on, null where the kernel does not count them.
        ("steal_cpu", pa.float64()),  # cores that the hypervisor gave to others while this machine wanted them
        *((name, pa.int64()) for name in ("process_read_bytes", "process_written_bytes")),  # by this process
        ("run_delay_ns", pa.int64()),  # how long workers were ready and waited for a CPU
        ("throttled_ns", pa.int64()),  # by a quota of the cgroup
        ("sampler_delay_ns", pa.int64()),  # as run_delay_ns, of the thread that samples
    ],
    metadata={"kv-run": str(RUN_VERSION)},
)
