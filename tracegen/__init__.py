"""Seeded, reproducible traces of KV-cache operations."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracegen.trace.reading import Trace

__all__ = ["read"]


def read(path: Path | str) -> "Trace":
    """Open a trace for reading.

        trace = tracegen.read("trace.parquet")
        trace.ops, trace.metadata.counts, trace.metadata.recipe
        trace.frame().group_by("op").agg(pl.col("tokens").sum()).collect()

    `frame()` gives the ops as a Polars LazyFrame, one row per op, in order. `batches()` yields them
    as NumPy arrays. The columns, as `docs/trace-format.md` specifies them:

    - `op_id`: number of the row, from 0.
    - `time_ns`: time since the trace began, in nanoseconds.
    - `request_id`, `session_id`, `user_id`: numbers from 0, without gaps.
    - `turn`: number of the request in its session, from 1.
    - `step`: number of the step in its request, from 0.
    - `qos`: `interactive`, `responsive` or `batch`.
    - `phase`: `prefill` or `decode`.
    - `op`: `write`, `read` or `delete`.
    - `source`: `user`, `multi_turn`, `system`, `common` or `rag`.
    - `key`: number of the object, from 0.
    - `tokens`: tokens of the object.
    - `new_tokens`: tokens that the op generates.
    - `think_ns`: the user's pause before the request, in nanoseconds; on its first op.

    Args:
        path: a Parquet file, or a folder of `part-*.parquet` files.

    Raises:
        InputError: the file is missing, is not Parquet, is truncated, is not a trace, is of a newer
            version, or lacks a column.
    """
    # Imported late: every command imports this package first, to end in one line on a signal.
    from tracegen.trace.reading import Trace  # noqa: PLC0415

    return Trace(path)
