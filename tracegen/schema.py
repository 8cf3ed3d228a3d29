"""The trace format: one row is one operation on one KV object. tracegen owns it, everyone may import it.

`traces/README.md` specifies the same format in prose, for readers and writers that do not use this code. This module is
the door for other packages; what it names is in `tracegen.trace`.
"""

from tracegen.trace.columns import (
    COMMON,
    DECODE,
    DELETE,
    DTYPES,
    ENUMS,
    MULTI_TURN,
    PART_COLUMNS,
    PREFILL,
    RAG,
    READ,
    ROW_GROUP,
    SCHEMA,
    SYSTEM,
    USER,
    WRITE,
    Columns,
    chosen,
    cut,
    joined,
)
from tracegen.trace.fingerprint import Fingerprint
from tracegen.trace.metadata import METADATA_KEY, Metadata, guessed_sessions
from tracegen.trace.reading import Trace

__all__ = [
    "COMMON",
    "DECODE",
    "DELETE",
    "DTYPES",
    "ENUMS",
    "METADATA_KEY",
    "MULTI_TURN",
    "PART_COLUMNS",
    "PREFILL",
    "RAG",
    "READ",
    "ROW_GROUP",
    "SCHEMA",
    "SYSTEM",
    "USER",
    "WRITE",
    "Columns",
    "Fingerprint",
    "Metadata",
    "Trace",
    "chosen",
    "cut",
    "guessed_sessions",
    "joined",
]
