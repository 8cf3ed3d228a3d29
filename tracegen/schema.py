"""The trace format, as other packages may import it.

`docs/trace-format.md` specifies the format in prose. `tracegen.trace` holds what this module names.
"""

from tracegen.trace.columns import (
    COMMON,
    DECODE,
    DELETE,
    DTYPES,
    ENUMS,
    MULTI_TURN,
    PREFILL,
    RAG,
    READ,
    SYSTEM,
    USER,
    WRITE,
    Columns,
    concatenate,
    take_rows,
)
from tracegen.trace.metadata import METADATA_KEY, Fingerprint, Metadata, has_guessed_sessions
from tracegen.trace.reading import Trace

__all__ = [
    "COMMON",
    "DECODE",
    "DELETE",
    "DTYPES",
    "ENUMS",
    "METADATA_KEY",
    "MULTI_TURN",
    "PREFILL",
    "RAG",
    "READ",
    "SYSTEM",
    "USER",
    "WRITE",
    "Columns",
    "Fingerprint",
    "Metadata",
    "Trace",
    "concatenate",
    "has_guessed_sessions",
    "take_rows",
]
