"""WEKA's agentic traces (kv-cache-tester): one JSON document per conversation.

id · block_size (64) · hash_id_scope local or global · tool_tokens, system_tokens · requests: t (s) · type n, s or
subagent (which nests requests) · in · out · hash_ids (chained, a partial tail left out) · api_time, think_time. Ids of
local scope are alike only within a conversation; a sub-agent is a session of its own, of a user of its own, as it runs
beside its conversation.
"""

from collections.abc import Iterator
from typing import Any

from tracegen.formats.calls import BadRowError, Call, Rows, block_ids, integer, nanoseconds, parse_object

BLOCK_TOKENS: int | None = 64
PREFIX_CHAINED = True
TIME_UNIT = "s"
SORTED = False
DOCUMENT_MAX = 1 << 30


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a conversation and its sub-agents, in order of time; one that is bad makes the document bad."""
    with rows.row(1):
        document = parse_object(_text(rows))
        rows.block_tokens = integer(document, "block_size", least=1) if "block_size" in document else BLOCK_TOKENS
        if document.get("hash_id_scope", "local") not in ("local", "global"):
            raise BadRowError("hash_id_scope: neither local nor global")
        name = document.get("id") if isinstance(document.get("id"), str | int) else rows.path.name
        scope = None if document.get("hash_id_scope") == "global" else (rows.path.name, name)
        calls = list(_calls(document, (rows.path.name, name), scope, rows.block_tokens or 64))
        yield from sorted(calls, key=lambda call: call.time_ns)


def _text(rows: Rows) -> str:
    parts, size = [], 0
    for _, text in rows.lines():
        parts.append(text)
        size += len(text)
        if size > DOCUMENT_MAX:
            raise BadRowError(f"longer than {DOCUMENT_MAX >> 20} MiB: no conversation is")
    return "\n".join(parts)


def _calls(agent: dict[str, Any], session: Any, scope: Any, block: int) -> Iterator[Call]:
    requests = agent.get("requests")
    if not isinstance(requests, list) or not all(isinstance(one, dict) for one in requests):
        raise BadRowError("requests: not a list of objects")
    for number, row in enumerate(requests):
        if row.get("type") == "subagent":
            yield from _calls(row, (session, number), scope, block)
            continue
        tokens, blocks = integer(row, "in"), block_ids(row)
        if len(blocks) not in (tokens // block, -(-tokens // block)):
            raise BadRowError(f"hash_ids: {len(blocks)} blocks of {block} for {tokens} tokens")
        yield Call(
            time_ns=nanoseconds(row, "t", unit=10**9),
            input_tokens=tokens,
            output_tokens=integer(row, "out"),
            blocks=blocks,
            session=session,
            user=session,
            scope=scope,
        )
