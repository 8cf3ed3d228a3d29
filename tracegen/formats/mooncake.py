"""Mooncake's FAST'25 traces (JSONL), the de-facto standard, with the Dynamo and aiperf extension.

Fields: timestamp or created_time (ms), input_length or input_tokens, output_length or
    output_tokens,
hash_ids (chained ids of 512-token blocks, including a partial last one), session_id, delay or
delay_ms (ms since the end of the session's last request).

A first line with a field of a header, and none of a request, is a header; its block_size replaces 512. Rows below a
header of Dynamo's agentic schema have play_id (equal ids are equal blocks only within a play, if
the header's hash_id_scope is local) and not_before_ms as their time. Their dependencies, a graph,
are not followed.
Source: https://github.com/kvcache-ai/Mooncake
"""

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from tracegen.formats.export import Export, Request, read_requests
from tracegen.formats.format import Chunks, Format
from tracegen.formats.rows import (
    BadRowError,
    Call,
    Row,
    Rows,
    check_block_count,
    parse_block_ids,
    parse_integer,
    parse_name,
    parse_nanoseconds,
)

_BLOCK_TOKENS: Final = 512
_MS: Final = 10**6  # nanoseconds
_TIMES: Final = ("timestamp", "created_time", "not_before_ms")
_DELAYS: Final = ("delay", "delay_ms")
_LENGTHS: Final = ("input_length", "input_tokens", "output_length", "output_tokens")
_OTHERS: Final = ("hash_ids", "session_id", "text_input", "messages")
_HEADER: Final = {"schema", "version", "block_size", "hash_id_scope"}
_REQUEST: Final = {*_TIMES, *_DELAYS, *_LENGTHS, *_OTHERS}


def read(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file, in its order.

    A row without a time comes when its session's delay is over.
    """
    block_tokens = rows.block_tokens = _BLOCK_TOKENS
    latest = 0
    is_local = False
    for line, row in rows.objects():
        with rows.row(line):
            if line == 1 and _HEADER & set(row) and not _REQUEST & set(row):
                if "block_size" in row:
                    block_tokens = parse_integer(row, "block_size", least=1)
                rows.block_tokens = block_tokens
                is_local = row.get("hash_id_scope") == "local"
                rows.left_out["headers"] += 1
                continue
            call = _parse_call(row, block_tokens, latest)
            latest = max(latest, call.time_ns)
            call.scope = parse_name(row, "play_id") if is_local else None
            yield call


def _parse_call(row: Row, block_tokens: int, latest_ns: int) -> Call:
    tokens = parse_integer(row, "input_length", "input_tokens")
    blocks = None
    if row.get("hash_ids") is not None:
        blocks = parse_block_ids(row)
        check_block_count(len(blocks), tokens, block_tokens, tail=True)
    name = parse_name(row, "session_id")
    play = parse_name(row, "play_id")
    session = name if name is None or play is None else (play, name)
    has_delay = any(row.get(name) is not None for name in _DELAYS)
    has_time = any(row.get(name) is not None for name in _TIMES)
    if has_delay and not has_time and session is None:
        raise BadRowError("delay", "the row has neither a session nor a timestamp")
    is_timed = has_time or not has_delay
    return Call(
        time_ns=parse_nanoseconds(row, *_TIMES, unit=_MS) if is_timed else latest_ns,
        input_tokens=tokens,
        output_tokens=parse_integer(row, "output_length", "output_tokens"),
        blocks=blocks,
        session=session,
        user=session,
        delay_ns=parse_nanoseconds(row, *_DELAYS, unit=_MS) if has_delay else None,
    )


def write(export: Export, counts: Counter[str]) -> Chunks:
    """Write the requests of a trace of blocks; keys are the ids.

    Sessions of several turns carry `session_id` and `delay`, too.
    """
    block_tokens = export.trace.metadata.block_tokens
    if block_tokens not in (None, _BLOCK_TOKENS):
        yield f'{{"block_size": {block_tokens}}}\n'.encode()
    for request in read_requests(export.trace, counts):
        yield _encode(request)
    counts["block_tokens"] = block_tokens or 0


def _encode(request: Request) -> bytes:
    """Encode a request as a line of JSON; times are exact decimals, which JSON libraries would round."""
    fields = {
        "timestamp": _format_milliseconds(request.time_ns),
        "input_length": str(request.tokens),
        "output_length": str(request.generated),
        "hash_ids": json.dumps(request.keys),
    }
    if request.has_turns:
        fields["session_id"] = json.dumps(f"s{request.session}")
    if request.turn > 1:
        fields["delay"] = _format_milliseconds(request.think_ns)
    members = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    return f"{{{members}}}\n".encode()


def _format_milliseconds(time_ns: int) -> str:
    return f"{(Decimal(time_ns) / _MS).normalize():f}"


FORMAT: Final = Format(
    read=read,
    write=write,
    block_tokens=_BLOCK_TOKENS,
    is_prefix_chained=True,
    time_unit="ms",
    may_lack_sessions=True,
)
