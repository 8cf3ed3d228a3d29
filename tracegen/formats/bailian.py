"""Bailian's (Qwen's) traces (JSONL).

Fields: chat_id, parent_chat_id (-1: a root), timestamp (seconds), input_length, output_length,
    type,
turn, hash_ids. The ids name the contents of 16-token blocks, including a partial last one, not the
prefix: `chain` makes them prefixes. Source:
    https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon
"""

from collections.abc import Iterator
from typing import Final

from tracegen.formats.format import Format
from tracegen.formats.rows import Call, Rows, check_block_count, parse_block_ids, parse_integer, parse_nanoseconds

_BLOCK_TOKENS: Final = 16


def read(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file; a session is a root chat with all its descendants."""
    root: dict[int, int] = {}
    for line, row in rows.objects():
        with rows.row(line):
            chat = parse_integer(row, "chat_id", most=2**63 - 1)
            parent = parse_integer(row, "parent_chat_id", least=-1, most=2**63 - 1)
            root[chat] = root.get(parent, chat)
            tokens = parse_integer(row, "input_length")
            blocks = parse_block_ids(row, unique=False)
            check_block_count(len(blocks), tokens, _BLOCK_TOKENS, tail=False)
            yield Call(
                time_ns=parse_nanoseconds(row, "timestamp", unit=10**9),
                input_tokens=tokens,
                output_tokens=parse_integer(row, "output_length"),
                blocks=blocks,
                session=root[chat],
                user=root[chat],
            )


FORMAT: Final = Format(read=read, block_tokens=_BLOCK_TOKENS, time_unit="s")
