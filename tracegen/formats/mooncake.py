"""Mooncake's FAST'25 traces (JSONL), the de-facto standard, with the Dynamo and aiperf extension.

timestamp or created_time (ms) · input_length or input_tokens · output_length or output_tokens · hash_ids (chained
ids of 512-token blocks, a partial last one included) · session_id · delay or delay_ms (ms since the session's last
request ended). A first line with nothing of a request is a header; its block_size replaces 512. Rows below a header of
Dynamo's agentic schema have play_id (ids are alike only within a play where the header's hash_id_scope is local) and
not_before_ms for a time; their dependencies, a graph, are not followed.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from tracegen.files.outputs import open_output
from tracegen.formats.export import ExportOptions, even_blocks, number, requests_of
from tracegen.formats.rows import (
    BadRowError,
    Call,
    Rows,
    block_ids,
    check_count,
    integer,
    nanoseconds,
)
from tracegen.schema import DELETE, PREFILL, Trace

BLOCK_TOKENS: int | None = 512
PREFIX_CHAINED = True
TIME_UNIT = "ms"
SORTED = True
MAY_LACK_SESSIONS = True
DELAYS = True  # in place of times
_MS = 10**6
_TIMES = ("timestamp", "created_time", "not_before_ms")
_DELAYS = ("delay", "delay_ms")
_LENGTHS = ("input_length", "input_tokens", "output_length", "output_tokens")
_REQUEST = {*_TIMES, *_DELAYS, *_LENGTHS, "hash_ids", "session_id", "text_input", "messages"}


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file, in its order; a row without a time comes when its session's delay is over."""
    rows.block_tokens = BLOCK_TOKENS
    latest, local = 0, False
    for line, row in rows.objects():
        with rows.row(line):
            if line == 1 and row and not _REQUEST & set(row):
                rows.block_tokens = integer(row, "block_size", least=1) if "block_size" in row else BLOCK_TOKENS
                local = row.get("hash_id_scope") == "local"
                rows.left_out["headers"] += 1
                continue
            call = _call(row, rows.block_tokens or 0, latest)
            latest, call.scope = max(latest, call.time_ns), _name(row, "play_id") if local else None
            yield call


def _call(row: dict[str, Any], block: int, latest: int) -> Call:
    tokens = integer(row, "input_length", "input_tokens")
    blocks = block_ids(row) if row.get("hash_ids") is not None else None
    if blocks is not None:
        check_count(len(blocks), tokens, block, tail=True)
    name, play = _name(row, "session_id"), _name(row, "play_id")
    session = name if name is None or play is None else (play, name)
    delayed = any(row.get(name) is not None for name in _DELAYS)
    timed = any(row.get(name) is not None for name in _TIMES)
    if delayed and not timed and session is None:
        raise BadRowError("delay: of no session, and without a timestamp")
    return Call(
        time_ns=nanoseconds(row, *_TIMES, unit=_MS) if timed or not delayed else latest,
        input_tokens=tokens,
        output_tokens=integer(row, "output_length", "output_tokens"),
        blocks=blocks,
        session=session,
        user=session,
        delay_ns=nanoseconds(row, *_DELAYS, unit=_MS) if delayed else None,
    )


def _name(row: dict[str, Any], key: str) -> str | int | None:
    found = row.get(key)
    if found is not None and type(found) not in (str, int):
        raise BadRowError(f"{key}: neither text nor a number")
    return found


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """The requests of a block trace; keys are the ids. Sessions of several turns carry `session_id` and `delay`, too.

    Raises:
        InputError: the trace is not made of equal blocks.
    """
    counts, left_out = {"requests": 0, "blocks": 0, "block_tokens": 0}, dict[str, int]()
    several: set[int] = set()
    for batch in trace.batches():
        later = (batch["turn"] > 1) & (batch["phase"] == PREFILL) & (batch["op"] != DELETE)
        several.update(np.unique(batch["session_id"][later]).tolist())
    with open_output(output, force=options.force) as file:
        if trace.metadata.block_tokens not in (None, BLOCK_TOKENS):
            file.write(f'{{"block_size": {trace.metadata.block_tokens}}}\n'.encode())
        for request in requests_of(trace, left_out):
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
    return counts | left_out
