"""Traces whose rows list the blocks of a prompt (JSONL): Bailian's (Qwen's), and KVCache.AI's kvcache-simulator's.

Fields of Bailian's: chat_id, parent_chat_id (-1: a root), timestamp (seconds), input_length, output_length, type, turn,
hash_ids. The ids name the contents of 16-token blocks, including a partial last one, not the prefix: `chain` makes
them prefixes. Source: https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon

Fields of the simulator's: block_size (in every row, or in none and then 512), hash_ids, input_length, block_tokens (one
number per block, optional), output_length (optional). Requests are in order, all at time 0. A `timestamp` is ignored,
as by the simulator, because its unit is not documented.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

from msgspec import Meta

from tracegen.formats.export import Export, read_requests
from tracegen.formats.format import Chunks, Format
from tracegen.formats.rows import (
    BadRowError,
    Call,
    Row,
    Rows,
    check_block_count,
    parse_block_ids,
    parse_integer,
    parse_nanoseconds,
    parse_typed,
)

_BAILIAN_TOKENS: Final = 16
_SIMULATOR_TOKENS: Final = 512
_BlockTokens = list[Annotated[int, Meta(ge=1, lt=2**31)]]


def _read_bailian(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file; a session is a root chat with all its descendants."""
    root: dict[int, int] = {}
    for line, row in rows.objects():
        with rows.row(line):
            chat = parse_integer(row, "chat_id", most=2**63 - 1)
            parent = parse_integer(row, "parent_chat_id", least=-1, most=2**63 - 1)
            root[chat] = root.get(parent, chat)
            tokens = parse_integer(row, "input_length")
            blocks = parse_block_ids(row, unique=False)
            check_block_count(len(blocks), tokens, _BAILIAN_TOKENS, tail=False)
            yield Call(
                time_ns=parse_nanoseconds(row, "timestamp", unit=10**9),
                input_tokens=tokens,
                output_tokens=parse_integer(row, "output_length"),
                blocks=blocks,
                session=root[chat],
                user=root[chat],
            )


def _read_simulator(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file, in its order."""
    for line, row in rows.objects():
        with rows.row(line):
            size = rows.block_tokens or _SIMULATOR_TOKENS
            if row.get("block_size") is not None:
                size = parse_integer(row, "block_size", least=1)
            if rows.block_tokens not in (None, size):
                raise BadRowError("block_size", f"{size}, but rows before had {rows.block_tokens}")
            prompt = parse_integer(row, "input_length", least=1)
            blocks = parse_block_ids(row)
            tokens = _parse_block_tokens(row, len(blocks))
            if tokens is None:
                check_block_count(len(blocks), prompt, size, tail=False)
            rows.block_tokens = size
            has_output = row.get("output_length") is not None
            yield Call(
                time_ns=0,
                input_tokens=prompt,
                output_tokens=parse_integer(row, "output_length") if has_output else 0,
                blocks=blocks,
                tokens=tokens,
            )


def _parse_block_tokens(row: Row, blocks: int) -> list[int] | None:
    if row.get("block_tokens") is None:
        return None
    tokens = parse_typed(row, "block_tokens", _BlockTokens)
    if len(tokens) != blocks:
        raise BadRowError("block_tokens", "not one token count per block")
    return tokens


def _write_simulator(export: Export, counts: Counter[str]) -> Chunks:
    """Write the requests of a trace of blocks; keys are the ids."""
    for request in read_requests(export.trace, counts):
        row = {
            "block_size": export.trace.metadata.block_tokens,
            "hash_ids": request.keys,
            "input_length": request.tokens,
            "output_length": request.generated,
        }
        yield (json.dumps(row) + "\n").encode()


BAILIAN: Final = Format(read=_read_bailian, block_tokens=_BAILIAN_TOKENS, time_unit="s")
KVCACHE_SIMULATOR: Final = Format(
    read=_read_simulator,
    write=_write_simulator,
    block_tokens=_SIMULATOR_TOKENS,
    is_prefix_chained=True,
    time_unit="none",
)
