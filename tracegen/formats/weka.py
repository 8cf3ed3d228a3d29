"""WEKA's agentic traces (kv-cache-tester): one JSON document per conversation.

id · block_size (64) · hash_id_scope local or global · tool_tokens, system_tokens · requests: t (s) · type n, s or
subagent (which nests requests) · in · out · hash_ids (chained, a partial tail left out) · api_time, think_time. Ids of
local scope are alike only within a conversation; a sub-agent is a session of its own, of a user of its own, as it runs
beside its conversation. The `t` of its requests counts from its own `t` in kv-cache-tester's files, from the
conversation's start in SemiAnalysis's; where one of a document lies before its sub-agent's start, they are the former.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Final, NamedTuple

from tracegen.formats.rows import (
    TIME_MAX,
    BadRowError,
    Call,
    Rows,
    block_ids,
    check_count,
    integer,
    nanoseconds,
    parse_object,
)

BLOCK_TOKENS: int | None = 64
PREFIX_CHAINED = True
TIME_UNIT = "s"
SORTED = False
FILES = "*.json"  # of a folder
DOCUMENT_MAX: Final = 1 << 30
_SLACK_NS: Final = 10**9  # times are rounded, some to seconds


def read(rows: Rows) -> Iterator[Call]:
    """The requests of a conversation and its sub-agents, in order of time; one that is bad makes the document bad."""
    with rows.row(1):
        document = parse_object(rows.text(DOCUMENT_MAX))
        rows.block_tokens = integer(document, "block_size", least=1) if "block_size" in document else 64
        if document.get("hash_id_scope", "local") not in ("local", "global"):
            raise BadRowError("hash_id_scope: neither local nor global")
        name = document.get("id") if isinstance(document.get("id"), str | int) else rows.path.name
        scope = None if document.get("hash_id_scope") == "global" else (rows.path, name)
        found = list(_walk(document, (rows.path, name)))
        nested = any(one.time_ns < one.begin_ns - _SLACK_NS for one in found)
        calls = [_call(one, scope, rows.block_tokens, one.offset_ns if nested else 0) for one in found]
        yield from sorted(calls, key=lambda call: call.time_ns)


class _Found(NamedTuple):
    """A request and what its place in the document says."""

    row: dict[str, Any]
    session: Hashable
    time_ns: int  # as written
    begin_ns: int  # of its agent, as written
    offset_ns: int  # of its agent, where each `t` counts from the agent around it


def _walk(agent: dict[str, Any], session: Hashable, begin: int = 0, offset: int = 0) -> Iterator[_Found]:
    requests = agent.get("requests")
    if not isinstance(requests, list) or not all(isinstance(one, dict) for one in requests):
        raise BadRowError("requests: not a list of objects")
    for number, row in enumerate(requests):
        time = nanoseconds(row, "t", unit=10**9)
        if row.get("type") == "subagent":
            yield from _walk(row, (session, number), time, offset + time)
        else:
            yield _Found(row, session, time, begin, offset)


def _call(found: _Found, scope: Hashable, block: int, offset: int) -> Call:
    tokens, blocks = integer(found.row, "in"), block_ids(found.row)
    check_count(len(blocks), tokens, block, tail=False)
    if found.time_ns + offset >= TIME_MAX:
        raise BadRowError("t: absurd")
    return Call(
        time_ns=found.time_ns + offset,
        input_tokens=tokens,
        output_tokens=integer(found.row, "out"),
        blocks=blocks,
        session=found.session,
        user=found.session,
        scope=scope,
    )
