"""Azure's LLM inference traces of 2023 and 2024 (CSV).

Columns: TIMESTAMP (date and time, up to 9 fractional digits, perhaps an offset), ContextTokens,
GeneratedTokens. Source: https://github.com/Azure/AzurePublicDataset
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from tracegen.formats.format import Format
from tracegen.formats.rows import TIME_MAX, BadRowError, Call, Rows, parse_integer

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def read(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file, which records only lengths."""
    for line, row in rows.table("TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        with rows.row(line):
            yield Call(
                time_ns=_parse_time(row["TIMESTAMP"]),
                input_tokens=parse_integer(row, "ContextTokens"),
                output_tokens=parse_integer(row, "GeneratedTokens"),
            )


def _parse_time(text: str) -> int:
    """Return the nanoseconds since 1970 in UTC, exactly: datetime would drop the seventh digit."""
    match = _TIME.fullmatch(text.strip())
    moment = None
    if match:
        offset = (match[3] or "+00:00").replace("Z", "+00:00")
        with suppress(ValueError):
            moment = datetime.fromisoformat(match[1] + offset)
    if match is None or moment is None:
        raise BadRowError("TIMESTAMP", f"{text[:40]!r} is not a date and time")
    since = moment - _EPOCH
    if not timedelta(0) <= since < timedelta(microseconds=TIME_MAX // 1000):
        raise BadRowError("TIMESTAMP", f"{text[:40]!r} is before 1970, or too late for a trace")
    fraction = int((match[2] or "0").ljust(9, "0"))
    return (since.days * 86400 + since.seconds) * 10**9 + fraction


FORMAT: Final = Format(read=read, time_unit="datetime", may_lack_sessions=True)
