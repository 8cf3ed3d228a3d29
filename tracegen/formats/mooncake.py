"""Mooncake's FAST'25 traces (JSONL), the de-facto standard, with the Dynamo and aiperf extension.

timestamp or created_time (ms) · input_length or input_tokens · output_length or output_tokens · hash_ids (chained
ids of 512-token blocks, a partial last one included) · session_id · delay or delay_ms (ms since the session's last
request ended). A first line without lengths is a header; its block_size replaces 512.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from tracegen.formats.calls import BadRowError, Call, Rows, block_ids, integer, nanoseconds
from tracegen.formats.export import ExportOptions, even_blocks, number, opened, requests_of
from tracegen.schema import Trace

BLOCK_TOKENS: int | None = 512
PREFIX_CHAINED = True
TIME_UNIT = "ms"
SORTED = True
_MS = 10**6


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file, in its order; a row without a time comes when its session's delay is over."""
    rows.block_tokens = BLOCK_TOKENS
    latest = 0
    for line, row in rows.objects():
        with rows.row(line):
            if line == 1 and not {"input_length", "input_tokens"} & set(row):
                rows.block_tokens = integer(row, "block_size", least=1) if "block_size" in row else BLOCK_TOKENS
                rows.left_out["headers"] += 1
                continue
            call = _call(row, rows.block_tokens or 0, latest)
            latest = call.time_ns
            yield call


def _call(row: dict[str, Any], block: int, latest: int) -> Call:
    tokens = integer(row, "input_length", "input_tokens")
    blocks = block_ids(row) if row.get("hash_ids") is not None else None
    if blocks is not None and len(blocks) != -(-tokens // block):
        raise BadRowError(f"hash_ids: {len(blocks)} blocks of {block} for {tokens} tokens")
    session = row.get("session_id")
    if session is not None and not isinstance(session, str | int):
        raise BadRowError("session_id: neither text nor a number")
    delayed = row.get("delay") is not None or row.get("delay_ms") is not None
    timed = row.get("timestamp") is not None or row.get("created_time") is not None
    return Call(
        time_ns=nanoseconds(row, "timestamp", "created_time", unit=_MS) if timed or not delayed else latest,
        input_tokens=tokens,
        output_tokens=integer(row, "output_length", "output_tokens"),
        blocks=blocks,
        session=session,
        user=session,
        delay_ns=nanoseconds(row, "delay", "delay_ms", unit=_MS) if delayed else None,
    )


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """The requests of a block trace; keys are the ids. Sessions of several turns carry `session_id` and `delay`, too.

    Raises:
        InputError: the trace is not made of equal blocks.
    """
    counts = {"requests": 0, "blocks": 0, "block_tokens": 0}
    several = {request.session for request in requests_of(trace) if request.turn > 1}
    with opened(output, options) as file:
        for request in requests_of(trace):
            counts["block_tokens"] = even_blocks(trace, request)
            fields = {
                "timestamp": number(Decimal(request.time_ns) / _MS),
                "input_length": str(sum(request.tokens)),
                "output_length": str(request.generated),
                "hash_ids": json.dumps(request.keys),
            }
            if request.session in several:
                fields["session_id"] = json.dumps(f"s{request.session}")
            if request.turn > 1:
                fields["delay"] = number(Decimal(request.think_ns) / _MS)
            file.write(("{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}\n").encode())
            counts["requests"] += 1
            counts["blocks"] += len(request.keys)
    return counts
