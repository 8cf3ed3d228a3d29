"""WEKA's agentic traces (kv-cache-tester): one JSON document per conversation.

Fields: id, block_size (64), hash_id_scope (local or global), tool_tokens, system_tokens, requests.
Fields of a request: t (s), type (n, s or subagent, which nests requests), in, out, hash_ids
(chained, without a partial tail), api_time, think_time. Equal ids of local scope are equal blocks
only within a conversation. A sub-agent is a session of its own, of a user of its own, because it
runs alongside its conversation.

The `t` of a sub-agent's requests counts from the sub-agent's own `t` in kv-cache-tester's files,
and from the conversation's start in SemiAnalysis's. If a request of a document is before its
sub-agent's start, the document is one of the former.
"""

from collections.abc import Hashable, Iterator
from typing import Any, Final, NamedTuple

from tracegen.formats.format import Format
from tracegen.formats.rows import (
    TIME_MAX,
    BadRowError,
    Call,
    Row,
    Rows,
    check_block_count,
    parse_block_ids,
    parse_integer,
    parse_nanoseconds,
    parse_object,
)

_BLOCK_TOKENS: Final = 64
DOCUMENT_MAX: Final = 1 << 30  # bytes
_SLACK_NS: Final = 10**9  # times are rounded, some to seconds


class _NestedRequest(NamedTuple):
    """A request, and its place in the document."""

    row: Row  # the request
    session: Hashable  # name of its session
    time_ns: int  # its `t`
    begin_ns: int  # the `t` of its sub-agent
    offset_ns: int  # the start of its sub-agent, if each `t` counts from the agent around it


def read(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a conversation and its sub-agents, in order of time.

    A bad request makes the whole document bad.
    """
    with rows.row(1):
        document = parse_object(rows.text(DOCUMENT_MAX))
        block_tokens = _BLOCK_TOKENS
        if "block_size" in document:
            block_tokens = parse_integer(document, "block_size", least=1)
        rows.block_tokens = block_tokens
        scope = document.get("hash_id_scope", "local")
        if scope not in ("local", "global"):
            raise BadRowError("hash_id_scope", "neither local nor global")
        name = document.get("id")
        session = (rows.path, name if isinstance(name, str | int) else rows.path.name)
        requests = list(_walk(document, session))
        # Whether each `t` counts from the agent around it.
        is_relative = any(item.time_ns < item.begin_ns - _SLACK_NS for item in requests)
        scope = None if scope == "global" else session
        calls = [_make_call(item, scope, block_tokens, is_relative=is_relative) for item in requests]
        yield from sorted(calls, key=lambda call: call.time_ns)


def _walk(agent: dict[str, Any], session: Hashable, begin_ns: int = 0, offset_ns: int = 0) -> Iterator[_NestedRequest]:
    """Yield the requests of an agent and, recursively, of its sub-agents."""
    requests = agent.get("requests")
    if not isinstance(requests, list) or not all(isinstance(item, dict) for item in requests):
        raise BadRowError("requests", "not a list of objects")
    for number, row in enumerate(requests):
        time = parse_nanoseconds(row, "t", unit=10**9)
        if row.get("type") == "subagent":
            yield from _walk(row, (session, number), time, offset_ns + time)
        else:
            yield _NestedRequest(row, session, time, begin_ns, offset_ns)


def _make_call(request: _NestedRequest, scope: Hashable, block_tokens: int, *, is_relative: bool) -> Call:
    tokens = parse_integer(request.row, "in")
    blocks = parse_block_ids(request.row)
    check_block_count(len(blocks), tokens, block_tokens, tail=False)
    time = request.time_ns + request.offset_ns * is_relative
    if time >= TIME_MAX:
        raise BadRowError("t", "too large for a time")
    return Call(
        time_ns=time,
        input_tokens=tokens,
        output_tokens=parse_integer(request.row, "out"),
        blocks=blocks,
        session=request.session,
        user=request.session,
        scope=scope,
    )


FORMAT: Final = Format(
    read=read,
    block_tokens=_BLOCK_TOKENS,
    is_prefix_chained=True,
    time_unit="s",
    is_sorted=False,
    folder_pattern="*.json",
)
