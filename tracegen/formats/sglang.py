"""SGLang's hicache_trace (JSONL): what the storage tier of HiCache reads.

Fields of an event: kind, pid; of a `read`: keys (chained hashes of pages), bytes; of a `restore_io`, which ends the
reads of its process for a request: rid, start_ns (of a clock without an origin). What storage writes is not traced: a
page's first read is its write. Source, at revision dafd340: benchmark/hicache/trace/hicache_trace.py of
https://github.com/sgl-project/sglang
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tracegen.formats.format import Format
from tracegen.formats.rows import (
    BadRowError,
    Call,
    Row,
    Rows,
    parse_integer,
    parse_name,
    parse_nanoseconds,
    parse_typed,
)

_LEFT_OUT: Final = ("publish", "evict_host", "h2d_submit", "generation_received")


def read(rows: Rows) -> Iterator[Call]:
    """Yield the restores of a file as requests whose tokens are bytes."""
    pages: dict[int, dict[str, int]] = defaultdict(dict)  # bytes by key of what each process has read for a request
    for line, row in rows.objects():
        with rows.row(line):
            kind = row.get("kind")
            if kind == "read":
                pages[parse_integer(row, "pid")] |= _parse_pages(row)
            elif kind == "restore_io":
                time = parse_nanoseconds(row, "start_ns", unit=1)
                sizes = pages.pop(parse_integer(row, "pid"), {})
                session = parse_name(row, "rid")
                yield Call(time, sum(sizes.values()), 0, [*sizes], session, session, tokens=[*sizes.values()])
            elif kind in _LEFT_OUT:
                rows.left_out[kind] += 1
            else:
                raise BadRowError("kind", "unknown")
    if pages:
        raise rows.refuse(
            "ends within a restore: its reads have no restore_io", "stop the server before you copy the file"
        )


def _parse_pages(row: Row) -> dict[str, int]:
    """Return the bytes of each page that was read."""
    keys = parse_typed(row, "keys", list[str])
    size = parse_integer(row, "bytes", most=2**50)
    if not keys or not size or size % len(keys):
        raise BadRowError("bytes", f"{size} of {len(keys)} pages: some were not found")
    return dict.fromkeys(keys, size // len(keys))


FORMAT: Final = Format(
    read=read, is_prefix_chained=True, time_unit="ns", has_late_rows=True, counts_bytes=True, has_global_ids=True
)
