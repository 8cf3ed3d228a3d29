"""The traces of KVCache.AI's kvcache-simulator (JSONL).

block_size (in every row, or in none and then 512) · hash_ids · input_length · block_tokens (of each block, optional) ·
output_length (optional). It has no times: requests are in order, all at time 0.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracegen.formats.calls import BadRowError, Call, Rows, block_ids, integer
from tracegen.formats.export import ExportOptions, even_blocks, opened, requests_of
from tracegen.schema import Trace

BLOCK_TOKENS: int | None = 512
PREFIX_CHAINED = True
TIME_UNIT = "none"
SORTED = True


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file, in its order."""
    for line, row in rows.objects():
        with rows.row(line):
            size = integer(row, "block_size", least=1) if "block_size" in row else rows.block_tokens or BLOCK_TOKENS
            if rows.block_tokens not in (None, size):
                raise BadRowError(f"block_size: {size} where rows before had {rows.block_tokens}")
            rows.block_tokens = size
            blocks = block_ids(row)
            yield Call(
                time_ns=0,
                input_tokens=integer(row, "input_length"),
                output_tokens=integer(row, "output_length") if "output_length" in row else 0,
                blocks=blocks,
                tokens=_tokens(row, len(blocks)),
            )


def _tokens(row: dict[str, Any], blocks: int) -> list[int] | None:
    if "block_tokens" not in row:
        return None
    found = row["block_tokens"]
    if not isinstance(found, list) or len(found) != blocks or not all(type(n) is int and 0 < n < 2**31 for n in found):
        raise BadRowError("block_tokens: not a list of one token count per block")
    return found


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """The requests of a block trace; keys are the ids.

    Raises:
        InputError: the trace is not made of equal blocks.
    """
    counts = {"requests": 0, "blocks": 0}
    with opened(output, options) as file:
        for request in requests_of(trace):
            row = {
                "block_size": even_blocks(trace, request),
                "hash_ids": request.keys,
                "input_length": sum(request.tokens),
                "output_length": request.generated,
            }
            file.write((json.dumps(row) + "\n").encode())
            counts["requests"] += 1
            counts["blocks"] += len(request.keys)
    return counts
