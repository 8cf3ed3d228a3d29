"""Logs of one request a row (CSV, JSONL), by the names of their columns; Azure's and BurstGPT's traces have fixed ones.

Roles: time (seconds from any zero, or date and time) or time_ms, prompt and answer (tokens), session, ids (the prompt's
tokens themselves). In JSONL a name with dots is nested. In BurstGPT's traces, whose older files have no sessions, a
failed request has no response; it is kept, because its prompt was sent. Sources:
https://github.com/Azure/AzurePublicDataset (2023 and 2024), https://github.com/HPMLL/BurstGPT
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tracegen.errors import InputError
from tracegen.formats.format import Format
from tracegen.formats.rows import Call, Row, Rows, parse_block_ids, parse_integer, parse_name, parse_time

_BLOCK_TOKENS: Final = 512
_ROLES: Final = ("time", "time_ms", "prompt", "answer", "session", "ids")


def _parse_columns(rows: Rows) -> dict[str, str]:
    """Return the columns by role from `role=column,…`; time, prompt and answer have their own names unless given.

    Raises:
        InputError: a part is not of this form, or its role is unknown.
    """
    given = {}
    for part in filter(None, rows.columns.split(",")):
        role, _, column = part.partition("=")
        if role not in _ROLES or not column:
            remedy = f"write role=column, with a role of {', '.join(_ROLES)}"
            raise InputError("is no column of a role", remedy, subject=part, setting="columns")
        given[role] = column
    time = "time_ms" if "time_ms" in given else "time"
    prompt = "ids" if "ids" in given else "prompt"
    return {time: time, prompt: prompt, "answer": "answer"} | given


def _read_csv(rows: Rows) -> Iterator[Call]:
    columns = _parse_columns(rows)
    return _read(rows, rows.table(*columns.values()), columns)


def _read_jsonl(rows: Rows) -> Iterator[Call]:
    columns = _parse_columns(rows)
    return _read(rows, _flatten(rows, columns), columns)


def _flatten(rows: Rows, columns: Mapping[str, str]) -> Iterator[tuple[int, Row]]:
    """Yield the values of the columns alone of nested objects; a missing one is None."""
    for line, row in rows.objects():
        flat = {}
        for name in (*columns.values(), "session"):
            value: Any = row
            for part in name.split("."):
                value = value.get(part) if isinstance(value, dict) else None
            flat[name] = value
        yield line, flat


def _read(rows: Rows, table: Iterable[tuple[int, Row]], columns: Mapping[str, str]) -> Iterator[Call]:
    """Yield the requests of a table in its order."""
    time, unit = (columns["time_ms"], 10**6) if "time_ms" in columns else (columns["time"], 10**9)
    for line, row in table:
        with rows.row(line):
            ids = parse_block_ids(row, columns["ids"], unique=False) if "ids" in columns else None
            session = parse_name(row, columns.get("session", "session"), "Session ID")
            yield Call(
                time_ns=parse_time(row, time, unit=unit),
                input_tokens=parse_integer(row, columns["prompt"]) if ids is None else len(ids),
                output_tokens=parse_integer(row, columns["answer"]),
                blocks=None if ids is None else list(_name_blocks(ids)),
                session=session,
                user=session,
            )


def _name_blocks(ids: list[int]) -> Iterator[bytes]:
    """Yield the name of each block of tokens: a hash of it and all before it."""
    name = b""
    for start in range(0, len(ids), _BLOCK_TOKENS):
        tokens = array("Q", ids[start : start + _BLOCK_TOKENS])
        name = hashlib.blake2b(name + tokens.tobytes(), digest_size=16).digest()
        yield name


CSV: Final = Format(read=_read_csv, time_unit="s", may_lack_sessions=True, has_late_rows=True, takes_columns=True)
JSONL: Final = Format(
    read=_read_jsonl,
    block_tokens=_BLOCK_TOKENS,
    is_prefix_chained=True,
    time_unit="s",
    may_lack_sessions=True,
    has_late_rows=True,
    takes_columns=True,
)
AZURE: Final = Format(
    read=_read_csv,
    columns="time=TIMESTAMP,prompt=ContextTokens,answer=GeneratedTokens",
    time_unit="datetime",
    may_lack_sessions=True,
)
BURSTGPT: Final = Format(
    read=_read_csv,
    columns="time=Timestamp,prompt=Request tokens,answer=Response tokens",
    time_unit="s",
    may_lack_sessions=True,
)
