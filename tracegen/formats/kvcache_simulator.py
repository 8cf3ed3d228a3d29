"""The traces of KVCache.AI's kvcache-simulator (JSONL).

block_size (in every row, or in none and then 512) · hash_ids · input_length · block_tokens (of each block, optional) ·
output_length (optional). Requests are in order, all at time 0: a `timestamp` is ignored, as the simulator does, for its
unit is not said.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracegen.files.outputs import open_output
from tracegen.formats.export import ExportOptions, even_blocks, requests_of
from tracegen.formats.rows import BadRowError, Call, Rows, block_ids, check_count, integer
from tracegen.schema import Trace

BLOCK_TOKENS: int | None = 512
PREFIX_CHAINED = True
TIME_UNIT = "none"
SORTED = True


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file, in its order."""
    for line, row in rows.objects():
        with rows.row(line):
            size = rows.block_tokens or 512 if row.get("block_size") is None else integer(row, "block_size", least=1)
            if rows.block_tokens not in (None, size):
                raise BadRowError(f"block_size: {size} where rows before had {rows.block_tokens}")
            prompt, blocks = integer(row, "input_length", least=1), block_ids(row)
            tokens = _tokens(row, len(blocks))
            if tokens is None:
                check_count(len(blocks), prompt, size, tail=False)
            rows.block_tokens = size
            yield Call(
                time_ns=0,
                input_tokens=prompt,
                output_tokens=integer(row, "output_length") if row.get("output_length") is not None else 0,
                blocks=blocks,
                tokens=tokens,
            )


def _tokens(row: dict[str, Any], blocks: int) -> list[int] | None:
    found = row.get("block_tokens")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != blocks or not all(type(n) is int and 0 < n < 2**31 for n in found):
        raise BadRowError("block_tokens: not a list of one token count per block")
    return found


def write(trace: Trace, output: Path, options: ExportOptions) -> dict[str, int]:
    """The requests of a block trace; keys are the ids.

    Raises:
        InputError: the trace is not made of equal blocks.
    """
    counts, left_out = {"requests": 0, "blocks": 0}, dict[str, int]()
    with open_output(output, force=options.force) as file:
        for request in requests_of(trace, left_out):
            row = {
                "block_size": even_blocks(trace, request),
                "hash_ids": request.keys,
                "input_length": sum(request.tokens),
                "output_length": request.generated,
            }
            file.write((json.dumps(row) + "\n").encode())
            counts["requests"] += 1
            counts["blocks"] += len(request.keys)
    return counts | left_out
