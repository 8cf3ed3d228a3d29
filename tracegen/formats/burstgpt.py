"""BurstGPT's traces (CSV).

Timestamp (s) · Session ID, Elapsed time (newer files) · Model · Request tokens · Response tokens · Total tokens ·
Log Type.
A request that failed has 0 response tokens; it is kept, as its prompt was sent.
"""

from collections.abc import Iterator

from tracegen.formats.rows import Call, Rows, integer, nanoseconds

BLOCK_TOKENS: int | None = None
PREFIX_CHAINED = False
TIME_UNIT = "s"
SORTED = True
MAY_LACK_SESSIONS = True


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file; lengths only."""
    for line, row in rows.table("Timestamp", "Request tokens", "Response tokens"):
        with rows.row(line):
            session = row.get("Session ID") or None
            yield Call(
                time_ns=nanoseconds(row, "Timestamp", unit=10**9),
                input_tokens=integer(row, "Request tokens"),
                output_tokens=integer(row, "Response tokens"),
                session=session,
                user=session,
            )
