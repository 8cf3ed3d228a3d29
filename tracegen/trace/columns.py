"""The columns of a trace, and batches of ops in memory.

One row is one op on one object. `docs/trace-format.md` specifies the columns and their units.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROW_GROUP: Final = 1 << 18  # rows per Parquet row group

ENUMS: Final[dict[str, tuple[str, ...]]] = {
    "qos": ("interactive", "responsive", "batch"),
    "phase": ("prefill", "decode"),
    "op": ("write", "read", "delete"),
    "source": ("user", "multi_turn", "system", "common", "rag"),
}
"""The words of each enum column; a word's place is its code in memory."""
PREFILL, DECODE = range(len(ENUMS["phase"]))
WRITE, READ, DELETE = range(len(ENUMS["op"]))
USER, MULTI_TURN, SYSTEM, COMMON, RAG = range(len(ENUMS["source"]))

_ENUM: Final = pa.dictionary(pa.int8(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("op_id", pa.int64(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("request_id", pa.int64(), nullable=False),
        pa.field("session_id", pa.int64(), nullable=False),
        pa.field("user_id", pa.int64(), nullable=False),
        pa.field("turn", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("qos", _ENUM, nullable=False),
        pa.field("phase", _ENUM, nullable=False),
        pa.field("op", _ENUM, nullable=False),
        pa.field("source", _ENUM, nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("new_tokens", pa.int32(), nullable=False),
        pa.field("think_ns", pa.int64(), nullable=False),
    ]
)
SHARD_SCHEMA: Final = SCHEMA.append(pa.field("person", pa.int64(), False)).append(pa.field("shared", pa.int64(), False))
"""The columns of a shard, with two that `merge` needs.

`person` is the user's number in the whole trace. `shared` is the number of an object that sessions
share, or -1.
"""
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    column.name: np.dtype("u1" if column.name in ENUMS else f"<i{column.type.bit_width // 8}") for column in SCHEMA
}
"""The type of each column in memory; enums are uint8 codes."""

Columns = dict[str, NDArray[Any]]
"""A batch of ops in memory: one array per column, all of shape (ops,), with the types of DTYPES."""


def concatenate(batches: Sequence[Columns]) -> Columns:
    """Concatenate batches; return a single batch itself, without a copy."""
    if len(batches) == 1:
        return batches[0]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def take_rows(batch: Columns, rows: slice | NDArray[Any]) -> Columns:
    """Take rows of a batch, by a slice, by row numbers or by a mask."""
    return {name: column[rows] for name, column in batch.items()}


def split_rows(batches: Sequence[Columns], size: int) -> list[Columns]:
    """Regroup batches into batches of `size` rows; the last has the rest and may be empty."""
    whole = concatenate(batches)
    rows = len(whole["op_id"])
    starts = range(0, rows - rows % size + 1, size)
    return [take_rows(whole, slice(start, start + size)) for start in starts]
