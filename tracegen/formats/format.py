"""The type of a format of another lab: its reader, its writer, and what its files are like."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tracegen.formats.export import ExportOptions
from tracegen.formats.rows import Call, Rows
from tracegen.trace.reading import Trace

Reader = Callable[[Rows], Iterator[Call]]
"""Yields the requests of a file.

Raises `BadRowError` inside `rows.row(line)` for a row that is not of the format.
"""
Writer = Callable[[Trace, Path, ExportOptions], dict[str, int]]
"""Writes a trace to a file; returns counts of what was written and left out, by name.

Raises `InputError` if the format cannot express the trace or the file cannot be written.
"""


@dataclass(frozen=True)
class Format:
    """A format of another lab.

    Attributes:
        read: its reader; None if there is no import.
        write: its writer; None if there is no export.
        block_tokens: tokens of a block, unless a file gives its own; None if there are no blocks.
        is_prefix_chained: an id of a block identifies all blocks before it, too.
        time_unit: unit of the times in its files, as the metadata of a trace records it.
        is_sorted: each file is in order of time.
        may_lack_sessions: files may name no sessions, so that an import guesses them.
        has_delays: a request may have a delay after its session's last request, instead of a time.
        has_decode_reads: files contain the reads by decoding.
        counts_bytes: sizes are in bytes, not in tokens.
        folder_pattern: the files to read of a folder, if a folder may be imported.
    """

    read: Reader | None = None
    write: Writer | None = None
    block_tokens: int | None = None
    is_prefix_chained: bool = False
    time_unit: str = ""
    is_sorted: bool = True
    may_lack_sessions: bool = False
    has_delays: bool = False
    has_decode_reads: bool = False
    counts_bytes: bool = False
    folder_pattern: str | None = None
