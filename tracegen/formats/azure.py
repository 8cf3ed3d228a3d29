"""Azure's LLM inference traces of 2023 and 2024 (CSV).

TIMESTAMP (date and time, up to 9 fractional digits, perhaps an offset) · ContextTokens · GeneratedTokens.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from tracegen.formats.rows import TIME_MAX, BadRowError, Call, Rows, integer

BLOCK_TOKENS: int | None = None
PREFIX_CHAINED = False
TIME_UNIT = "datetime"
SORTED = True
MAY_LACK_SESSIONS = True
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file; lengths only."""
    for line, row in rows.table("TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        with rows.row(line):
            yield Call(
                time_ns=_nanoseconds(row["TIMESTAMP"]),
                input_tokens=integer(row, "ContextTokens"),
                output_tokens=integer(row, "GeneratedTokens"),
            )


def _nanoseconds(text: str) -> int:
    """Since 1970 in UTC, exactly: datetime itself would drop the seventh digit."""
    found = _TIME.fullmatch(text.strip())
    try:
        moment = datetime.fromisoformat(found[1] + (found[3] or "+00:00").replace("Z", "+00:00")) if found else None
    except ValueError:
        moment = None
    if found is None or moment is None:
        raise BadRowError(f"TIMESTAMP: {text[:40]!r} is no date and time")
    since = moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    if not timedelta(0) <= since < timedelta(microseconds=TIME_MAX // 1000):
        raise BadRowError(f"TIMESTAMP: {text[:40]!r} is before 1970 or absurd")
    return (since.days * 86400 + since.seconds) * 10**9 + int((found[2] or "0").ljust(9, "0"))
