"""The type of a format of another lab: its reader, its writer, and what its files are like."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tracegen.errors import InputError
from tracegen.formats.rows import Call, Rows
from tracegen.trace.columns import DELETE, Columns, take_rows
from tracegen.trace.reading import Trace

BYTES_PER_TOKEN_MAX: Final = 2**32 - 1


@dataclass(frozen=True)
class Export:
    """An export of a trace."""

    trace: Trace  # the trace
    output: Path  # the file to write
    bytes_per_token: int = 0  # bytes of a token, for formats that count bytes; 0: not given
    force: bool = False  # replace the output

    def read_touches(self, counts: Counter[str], name: str) -> Iterator[Columns]:
        """Yield the writes and reads, with their `bytes`; count them under `name`, and deletes."""
        counts.update({name: 0, "deletes_left_out": 0})
        for batch in self.trace.batches():
            rows = take_rows(batch, batch["op"] != DELETE)
            touches = len(rows["op"])
            counts.update({name: touches, "deletes_left_out": len(batch["op"]) - touches})
            yield rows | {"bytes": rows["tokens"].astype(np.int64) * self.bytes_per_token}


def check_bytes_per_token(name: str, bytes_per_token: int, *, is_counted: bool) -> None:
    """Refuse bytes per token that a format needs and lacks, or has no use for."""
    if is_counted and bytes_per_token <= 0:
        remedy = "pass `bytes_per_token`, for example 131072 for llama3.1-8b in fp16"
        raise InputError(f"{name} counts bytes, a trace counts tokens", remedy)
    if bytes_per_token and not is_counted:
        raise InputError(f"{name} counts tokens, not bytes", "leave out `bytes_per_token`")
    if bytes_per_token > BYTES_PER_TOKEN_MAX:
        raise InputError("must be from 1 to 2^32 - 1", subject=bytes_per_token, setting="bytes_per_token")


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
    may_lack_sessions: bool = False  # files may name no sessions, so that an import guesses them
    has_delays: bool = False  # a request may have a delay after its session's last request, instead of a time
    has_decode_reads: bool = False  # files contain the reads by decoding
    counts_bytes: bool = False  # sizes are in bytes, not in tokens
    folder_pattern: str | None = None  # the files to read of a folder, if a folder may be imported
