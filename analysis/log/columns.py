"""Terms for the log's columns: what metrics count and sum."""

from typing import Final

import polars as pl

from replayer.schema import LOG_ENUMS, TIERS, WAITS

GIB: Final = 2**30
OK: Final = pl.col("status") == "ok"
SIZE: Final = pl.col("size_bytes")
SERVED: Final = pl.col("move").is_in(["hit", "promote"])  # a read that found its KV
READS: Final = pl.col("move").is_in(["hit", "promote", "miss"])
STORED: Final = pl.col("move") == "store"
FIRST_TOUCH: Final = (pl.col("op") == "write") & pl.col("move").is_in(["store", "bypass"])
"""The one row of a write op that is not an eviction: no cache could have held its KV before."""
PROMPT: Final = (pl.col("phase") == "prefill") & (READS | (FIRST_TOUCH & (pl.col("source") != "rag")))
"""What prompts consist of: reads and first touches; documents that RAG ingests are no prompt."""
EVICTION: Final = pl.col("move") == "demote"
FOR_OTHERS: Final = pl.col("move").is_in(["demote", "drop"])
"""A request makes room, and waits for it as the next one does."""
OPENS: Final = pl.col("move").is_in(["miss", "promote", "demote", "drop"])  # rows of the same op may follow
QUEUE: Final = pl.col("start_ns") - pl.col("ready_ns")
PLAN_WAIT: Final = pl.col("ready_ns") - pl.col("due_ns")
IO: Final = pl.col("end_ns") - pl.col("start_ns")
WINDOW_WAIT: Final = pl.col("window_ns")
ORDER_WAIT: Final = pl.col("order_ns")
BLOCKED: Final = PLAN_WAIT - WINDOW_WAIT - ORDER_WAIT  # by what `waited_for` says
CAUSES: Final = (*WAITS, "order", "window")
"""What a move waits for until it is ready."""
SIZE_CLASS: Final = ((63 - SIZE.bitwise_leading_zeros().cast(pl.Int8)) // 2).clip(0)
"""Class n holds objects from 4^n bytes up to 4^(n+1)."""

TOUCHES: Final = {
    "read": ("from_tier", OK & pl.col("move").is_in(["hit", "promote", "demote"])),
    "write": ("to_tier", OK & pl.col("move").is_in(["store", "demote"])),
}
"""Per side: the column that names the tier, and the moves that read or wrote one, evictions included."""
SIDES: Final = {
    f"{tier}_{side}": touching & (pl.col(column) == tier)
    for tier in TIERS
    for side, (column, touching) in TOUCHES.items()
}

TIMES: Final = ["read_ns", "write_ns", "device_read_ns", "device_write_ns", "verify_ns"]
STAMPS: Final = ["due_ns", "ready_ns", "start_ns", "end_ns"]
MAX_REQUESTS: Final = 1 << 40
"""Ids of requests are below it, so that a rank and a request are one number."""
KEPT: Final = (
    *("rank", "position", "seq", "request_id", "session_id", "tokens", "new_tokens", "size_bytes"),
    *STAMPS,
    "window_ns",
    "order_ns",
    *TIMES,
    *LOG_ENUMS,
)
"""The columns that metrics use."""
OPTIONAL: Final = ("from_tier", "to_tier", "waited_for")
"""Those of them that may be null."""


def share(begin: int, end: int) -> pl.Expr:
    """Which part of a move's start … end lies in a span; all or nothing of a move that took no time."""
    inside = (pl.min_horizontal("end_ns", end) - pl.max_horizontal("start_ns", begin)).clip(0)
    return pl.when(IO > 0).then(inside / IO).otherwise(pl.col("start_ns").is_between(begin, end).cast(pl.Float64))


def waited(cause: str, plan_wait: pl.Expr = PLAN_WAIT) -> pl.Expr:
    """How long a move waited for a cause before it was ready, in ns; the same of sums."""
    if cause in ("window", "order"):
        return WINDOW_WAIT if cause == "window" else ORDER_WAIT
    return (plan_wait - WINDOW_WAIT - ORDER_WAIT) * pl.col("waited_for").eq_missing(cause)
