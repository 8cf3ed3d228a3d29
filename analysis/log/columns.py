"""Expressions on the log's columns, shared by all metrics."""

from typing import Final

import polars as pl
from polars import col

from replayer.schema import LOG_ENUMS, TIERS, WAITS

GIB: Final = 2**30


def is_move(*kinds: str) -> pl.Expr:
    """Return whether a row is a move of one of some kinds."""
    return col("move").is_in(kinds)


OK: Final = col("status") == "ok"
SIZE: Final = col("size_bytes")
SERVED: Final = is_move("hit", "promote")  # a read that found its object
READS: Final = is_move("hit", "promote", "miss")
STORED: Final = is_move("store")
# The row of a write op that is not an eviction: no cache could have held its object before.
FIRST_TOUCH: Final = (col("op") == "write") & is_move("store", "bypass")
# Rows of prompts: reads and first touches. Documents that RAG ingests do not belong to a prompt.
PROMPT: Final = (col("phase") == "prefill") & (READS | (FIRST_TOUCH & (col("source") != "rag")))
_IS_DEMOTE: Final = is_move("demote")
_IS_COPY: Final = is_move("copy")
# Why bytes are moved: 0 for the request, 1 to make room, 2 to have a copy in a slower tier.
CAUSE: Final = pl.when(_IS_DEMOTE).then(1).when(_IS_COPY).then(2).otherwise(0)
CAUSE_NAMES: Final = ("foreground", "eviction", "copy")
# Evictions and copies, which a request makes for others; the next one waits for that room, too.
FOR_OTHERS: Final = is_move("demote", "drop", "copy")
QUEUE: Final = col("start_ns") - col("ready_ns")
PLAN_WAIT: Final = col("ready_ns") - col("due_ns")
IO: Final = col("end_ns") - col("start_ns")
WINDOW_WAIT: Final = col("window_ns")
ORDER_WAIT: Final = col("order_ns")
BLOCKED: Final = PLAN_WAIT - WINDOW_WAIT - ORDER_WAIT  # the cause is in `waited_for`
# The causes for which a move may wait before it is ready.
CAUSES: Final = (*WAITS, "order", "window")
# Size class n: objects of at least 4^n and less than 4^(n+1) bytes.
SIZE_CLASS: Final = ((63 - SIZE.bitwise_leading_zeros().cast(pl.Int8)) // 2).clip(0)

# By direction: the column that names the tier, and all moves that touch it.
TOUCHES: Final = {
    "read": ("from_tier", OK & is_move("hit", "promote", "demote", "copy")),
    "write": ("to_tier", OK & is_move("store", "demote", "copy")),
}
# By tier and direction, e.g. `nvme_read`: the moves that read or wrote the tier.
SIDES: Final = {
    f"{tier}_{side}": touching & (col(column) == tier) for tier in TIERS for side, (column, touching) in TOUCHES.items()
}

TIMES: Final = ["read_ns", "write_ns", "device_read_ns", "device_write_ns", "verify_ns"]
STAMPS: Final = ["due_ns", "ready_ns", "start_ns", "end_ns"]
# Request ids are below this limit, so that rank and request id fit into one integer.
MAX_REQUESTS: Final = 1 << 40
# 6.5 days in ns: no move takes longer, and clocks of ranks differ by less.
MAX_NS: Final = 1 << 49
# The columns that metrics use, next to `warmup`.
KEPT: Final = (
    *("rank", "position", "seq", "request_id", "session_id", "tokens", "new_tokens", "size_bytes"),
    *STAMPS,
    "window_ns",
    "order_ns",
    *TIMES,
    *LOG_ENUMS,
)
# Columns of KEPT that may be null.
OPTIONAL: Final = ("from_tier", "to_tier", "waited_for")


def share(begin: int, end: int) -> pl.Expr:
    """Return the share of a move's time, start to end, that is inside a span, from 0 to 1.

    A move that took no time counts as inside or outside as a whole.
    """
    inside = (pl.min_horizontal("end_ns", end) - pl.max_horizontal("start_ns", begin)).clip(0)
    starts_inside = col("start_ns").is_between(begin, end).cast(pl.Float64)
    return pl.when(IO > 0).then(inside / IO).otherwise(starts_inside)


def waited(cause: str, plan_wait: pl.Expr = PLAN_WAIT) -> pl.Expr:
    """Return the time in ns that a move waited for a cause before it was ready.

    Args:
        cause: one of CAUSES.
        plan_wait: the time from due to ready; of sums over moves, its sum.
    """
    if cause == "window":
        return WINDOW_WAIT
    if cause == "order":
        return ORDER_WAIT
    return (plan_wait - WINDOW_WAIT - ORDER_WAIT) * col("waited_for").eq_missing(cause)
