"""Bailian's (Qwen's) traces (JSONL).

chat_id · parent_chat_id (-1: a root) · timestamp (SECONDS) · input_length · output_length · type · turn · hash_ids (of
16-token blocks, a partial last one included: ids of contents, not of the chain, so `--chain` is what makes them
prefixes).
"""

from collections.abc import Iterator

from tracegen.formats.rows import Call, Rows, block_ids, check_count, integer, nanoseconds

BLOCK_TOKENS: int | None = 16
PREFIX_CHAINED = False
TIME_UNIT = "s"
SORTED = True


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a file; a session is a root chat and all that descends from it."""
    root: dict[int, int] = {}
    for line, row in rows.objects():
        with rows.row(line):
            chat = integer(row, "chat_id", most=2**63 - 1)
            parent = integer(row, "parent_chat_id", least=-1, most=2**63 - 1)
            root[chat] = root.get(parent, chat)
            tokens, blocks = integer(row, "input_length"), block_ids(row, unique=False)
            check_count(len(blocks), tokens, BLOCK_TOKENS or 0, tail=False)
            yield Call(
                time_ns=nanoseconds(row, "timestamp", unit=10**9),
                input_tokens=tokens,
                output_tokens=integer(row, "output_length"),
                blocks=blocks,
                session=root[chat],
                user=root[chat],
            )
