"""The columns of a trace: one row is one operation on one KV object."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROW_GROUP: Final = 1 << 18
PART_COLUMNS: Final = ("person", "shared")
"""For merging parts of a trace: the user's number in the whole, and that of an object that sessions share, or -1."""

ENUMS: Final[dict[str, tuple[str, ...]]] = {
    "qos": ("interactive", "responsive", "batch"),
    "phase": ("prefill", "decode"),
    "op": ("write", "read", "delete"),
    "source": ("user", "multi_turn", "system", "common", "rag"),
}
PREFILL, DECODE = range(len(ENUMS["phase"]))
WRITE, READ, DELETE = range(len(ENUMS["op"]))
USER, MULTI_TURN, SYSTEM, COMMON, RAG = range(len(ENUMS["source"]))
_ENUM = pa.dictionary(pa.int8(), pa.string())
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
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    column.name: np.dtype("u1" if column.name in ENUMS else f"<i{column.type.bit_width // 8}") for column in SCHEMA
}

Columns = dict[str, NDArray[Any]]
"""A batch of ops in memory: one array per column, enums as uint8 codes in the order of ENUMS."""


def joined(parts: Sequence[Columns]) -> Columns:
    """Batches one below the other; a single one is not copied."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if len(parts) > 1 else parts[0]


def chosen(batch: Columns, rows: slice | NDArray[Any]) -> Columns:
    """These rows of a batch."""
    return {name: column[rows] for name, column in batch.items()}


def cut(parts: Sequence[Columns], size: int) -> list[Columns]:
    """Batches of `size` rows each, then the rest, which may be empty."""
    whole = joined(parts)
    rows = len(whole["op_id"])
    return [chosen(whole, slice(begin, begin + size)) for begin in range(0, rows - rows % size + 1, size)]
