"""The type of a format of another lab: its reader, its writer, and what its files are like."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from tracegen.formats.export import Export
from tracegen.formats.rows import Call, Rows

Reader = Callable[[Rows], Iterator[Call]]
"""Yields the requests of a file.

Raises `BadRowError` inside `rows.row(line)` for a row that is not of the format.
"""
Chunks = Generator[bytes, None, None]
Writer = Callable[[Export, Counter[str]], Chunks]
"""Yields the bytes of the file; counts what they express and leave out, by name.

Raises `InputError` if the format cannot express the trace.
"""


@dataclass(frozen=True)
class Format:
    """A format of another lab."""

    read: Reader | None = None  # its reader; None if there is no import
    write: Writer | None = None  # its writer; None if there is no export
    block_tokens: int | None = None  # tokens of a block, unless a file gives its own; None if there are no blocks
    is_prefix_chained: bool = False  # an id of a block identifies all blocks before it, too
    time_unit: str = ""  # unit of the times in its files, as the metadata of a trace records it
    is_sorted: bool = True  # each file is in order of time
    has_global_ids: bool = False  # ids and sessions mean the same in several files: those of one recording
    may_lack_sessions: bool = False  # files may name no sessions, so that an import guesses them
    columns: str = ""  # role=column,… of a table whose columns are known
    takes_columns: bool = False  # the user names the columns of its files
    has_late_rows: bool = False  # a row is written when its request ends: an import sorts each file by time
    has_decode_reads: bool = False  # files contain the reads by decoding
    counts_bytes: bool = False  # sizes are in bytes, not in tokens
    folder_pattern: str | None = None  # the files to read of a folder, if a folder may be imported
