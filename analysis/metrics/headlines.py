"""Selections of metrics: the names that each page, table and file shows, in its order."""

from typing import Final

from analysis.metrics.catalogue import CATALOGUE
from analysis.metrics.metric import COUNT_UNITS
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_TOUCHED: Final = [f"{tier}_{direction}" for tier in TIERS for direction in ("read", "write")]
# Units that people read in another one, with its size.
_READ_IN: Final = {"bytes": ("GiB", 2**30), "bytes/day": ("TB/day", 1e12)}


def heading(name: str) -> str:
    """Return a metric's label with the unit that people read; counts name what they count."""
    metric = CATALOGUE[name]
    is_plain = metric.unit in ("", "share", "ratio", *COUNT_UNITS)
    unit, _ = _READ_IN.get(metric.unit, ("" if is_plain else metric.unit, 1))
    return f"{metric.label}, {unit}" if unit else metric.label


def scale(name: str, value: float) -> float:
    """Return a metric's value in the unit of its heading."""
    _, size = _READ_IN.get(CATALOGUE[name].unit, ("", 1))
    return value if size == 1 else value / size


# The summary of a run. Indented lines are parts of the line above, + and = show sums.

_WORK: Final = (
    "requests",
    "  unfinished_requests",
    "tokens_generated",
    "decode_read_bytes",
    *(f"  {tier}_decode_read_bytes" for tier in TIERS),
    "prefill_write_bytes",
    *(f"  {tier}_prefill_write_bytes" for tier in TIERS),
    "nvme_tokens_processed",
    "read_write_ratio",
    "read_amplification",
    "nvme_write_amplification",
    "evictions",
    *(f"{tier}_left_objects" for tier in TIERS),
    *(f"  {tier}_left_share" for tier in TIERS),
    *(f"  {tier}_left_bytes" for tier in TIERS),
    "recomputed_tokens",
    "failed_moves",
)
_HITS: Final = (
    "hit_rate_prompt_tokens",
    "  hit_rate_prompt",
    "  hit_rate_sessions",
    "  hit_rate_sessions_p5",
    "  hit_rate_sessions_p50",
    "  compulsory_tokens",
    "hit_rate",
    "  hit_rate_tokens",
    *(f"  {tier}_hit_rate" for tier in TIERS),
    *(f"  {source}_hit_rate" for source in ENUMS["source"] if source != "user"),
    "hit_rate_refs",
    "hit_rate_requests",
)
_SPEED: Final = (
    "elapsed_s",
    "  drain_s",
    "  drained_bytes",
    "wall_clock_tok_s",
    "  steady_tok_s",
    "requests_per_s",
    "storage_tok_s",
    "  mean_inflight",
    "decode_read_gib_s",
    *(f"{touched}_gib_s" for touched in _TOUCHED),
    *(f"  {touched}_busy_gib_s" for touched in _TOUCHED),
    *(f"{touched}_efficiency" for touched in _TOUCHED),
    "nvme_write_bytes_per_day",
    "  drive_writes_per_day",
    "  endurance_years",
    "bottleneck",
)
_REQUESTS: Final = (
    "e2e_mean_ms =",
    "  + queue_mean_ms",
    "  + io_mean_ms",
    "  + generation_mean_ms",
    "  + plan_wait_mean_ms",
    *(f"      {cause}_wait_mean_ms" for cause in ("data", "eviction", "room", "order", "window")),
    "  + other_mean_ms",
    *(f"{part}_{stat}_ms" for part in ("io", "queue", "plan_wait") for stat in ("p50", "p95", "p99")),
    "lateness_p99_ms",
    "ttfb_p95_ms",
    "ttfb_p99_ms",
    *(f"  {qos}_ttfb_p95_ms" for qos in ENUMS["qos"]),
    *(f"  {qos}_compliance" for qos in ENUMS["qos"]),
    *(f"e2e_{stat}_ms" for stat in ("p50", "p95", "p99")),
)
_LATENCY: Final = tuple(f"{touched}_{stat}_ms" for touched in _TOUCHED for stat in ("p50", "p95", "p99", "max"))
_MACHINE: Final = ("foreign_cpu", "steal_cpu", "foreign_io_share", "run_delay_share", "throttled_s", "longest_gap_s")
_BREAK_EVEN: Final = tuple(f"{tier}_break_even_tok_s" for tier in TIERS)
# The sections of a summary, a line each. The metric's label replaces its name in `  + io_mean_ms`.
SUMMARY: Final[dict[str, tuple[str, ...]]] = {
    "Work (equal wherever the trace and the tiers are equal)": _WORK,
    "Hit rates (of the workload and the capacities)": _HITS,
    "Speed (of this system)": _SPEED,
    "Times per request, waiting included": _REQUESTS,
    "Latency of whole objects, waiting excluded": _LATENCY,
    "Machine (what else it did)": _MACHINE,
    "Reading KV back beats recomputing it unless prefill computes more for one request": _BREAK_EVEN,
}

# The comparison of systems.

# The metrics that `compare` shows unless others are named.
COMPARED: Final = (
    "wall_clock_tok_s",
    "decode_read_gib_s",
    "nvme_read_gib_s",
    "nvme_write_gib_s",
    "nvme_read_p95_ms",
    "nvme_read_p99_ms",
    "nvme_write_p95_ms",
    "nvme_write_p99_ms",
    "cpu_read_p95_ms",
    "cpu_write_p95_ms",
    "ttfb_p95_ms",
    "ttfb_p99_ms",
    "io_p95_ms",
    "e2e_p95_ms",
    "e2e_p99_ms",
)
# The counts that `compare` shows first of runs that did unlike work.
TOTALS: Final = (
    "tokens_generated",
    "logged_ops",
    "decode_read_bytes",
    "prefill_write_bytes",
    "recomputed_tokens",
    *(f"{touched}_bytes" for touched in _TOUCHED),
)

# The submission: its files have these metrics in every release.

# The speed that a package claims.
CLAIMED: Final = (
    "decode_read_gib_s",
    "steady_decode_read_gib_s",
    "nvme_read_gib_s",
    "nvme_write_gib_s",
    "steady_nvme_read_gib_s",
    "steady_nvme_write_gib_s",
    "wall_clock_tok_s",
    "steady_tok_s",
    "storage_tok_s",
    "nvme_read_device_p95_ms",
    "nvme_write_device_p95_ms",
    "nvme_read_p95_ms",
    "nvme_write_p95_ms",
    "ttfb_p95_ms",
    "e2e_p95_ms",
    "elapsed_s",
    "drain_s",
)
# The work that a package claims, summed over ranks.
CLAIMED_WORK: Final = (
    "tokens_generated",
    "decode_read_bytes",
    "prefill_write_bytes",
    "nvme_read_bytes",
    "nvme_write_bytes",
)
# The rules' own figures in a ranking of packages.
RANKED: Final = (
    "decode_read_gib_s",
    "wall_clock_tok_s",
    "storage_tok_s",
    "nvme_read_gib_s",
    "nvme_write_gib_s",
    "nvme_read_device_p95_ms",
    "nvme_write_device_p95_ms",
    "drain_s",
)
