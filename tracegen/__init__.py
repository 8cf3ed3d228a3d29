"""Seeded, reproducible traces of KV-cache operations."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracegen.trace.reading import Trace

__all__ = ["read"]


def read(path: Path | str) -> "Trace":
    """Open a trace for reading: a Parquet file, or a folder of `part-*.parquet` files.

        trace = tracegen.read("trace.parquet")
        trace.ops, trace.metadata.counts, trace.metadata.recipe
        trace.frame().group_by("op").agg(pl.col("tokens").sum()).collect()

    `frame()` gives the ops as a Polars LazyFrame, one row per op, in order; `batches()` yields them as
    NumPy arrays. `docs/trace-format.md` specifies the columns.

    Raises:
        InputError: the file is missing, is not Parquet, is truncated, is not a trace, is of a newer
            version, or lacks a column.
    """
    # Imported late: every command imports this package first, to end in one line on a signal.
    from tracegen.trace.reading import Trace  # noqa: PLC0415

    return Trace(path)
