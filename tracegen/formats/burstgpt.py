"""BurstGPT's traces (CSV).

Columns: Timestamp (s), Session ID and Elapsed time (newer files), Model, Request tokens,
Response tokens, Total tokens, Log Type. A failed request has 0 response tokens; it is kept, because
its prompt was sent. Source: https://github.com/HPMLL/BurstGPT
"""

from collections.abc import Iterator
from typing import Final

from tracegen.formats.format import Format
from tracegen.formats.rows import Call, Rows, parse_integer, parse_nanoseconds


def read(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file, which records only lengths."""
    for line, row in rows.table("Timestamp", "Request tokens", "Response tokens"):
        with rows.row(line):
            session = row.get("Session ID") or None
            yield Call(
                time_ns=parse_nanoseconds(row, "Timestamp", unit=10**9),
                input_tokens=parse_integer(row, "Request tokens"),
                output_tokens=parse_integer(row, "Response tokens"),
                session=session,
                user=session,
            )


FORMAT: Final = Format(read=read, time_unit="s", may_lack_sessions=True)
