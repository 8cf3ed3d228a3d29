"""Dynamo's request traces, dynamo.request.trace.v1 (JSONL), one file or numbered segments.

A record, perhaps below `event`, is written when its request ends. Fields: event_type (a request is a request_end),
event_time_unix_ms, agent_context (session_id, parent_session_id), and below request: request_id, request_received_ms,
total_time_ms, output_tokens, replay (trace_block_size, input_length, and input_sequence_hashes: 64 bits, chained, also
of a partial last block). Source, at revision 04daeb0: lib/data-gen/src/request_trace of
https://github.com/ai-dynamo/dynamo

A request waits for the last one of its session, as in Dynamo's own replay; the pause between holds the tools' time.
A sub-agent whose requests never overlap those of its caller's user is of that user, so that its caller waits for it.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from tracegen.formats.format import Format
from tracegen.formats.rows import (
    BadRowError,
    Call,
    Row,
    Rows,
    check_block_count,
    follow,
    parse_block_ids,
    parse_integer,
    parse_name,
    parse_nanoseconds,
    parse_typed,
)

_MS: Final = 10**6  # nanoseconds
_SCHEMA: Final = "dynamo.request.trace.v1"
_LEFT_OUT: Final = ("request_payload", "tool_start", "tool_end", "tool_error")


class _Turn(NamedTuple):
    """A request, its time in ns, and the session that called its own."""

    start_ns: int
    end_ns: int
    caller: Hashable
    call: Call


def read(rows: Rows) -> Iterator[Call]:
    """Return the requests of a file in order of time."""
    turns = sorted(_read_turns(rows), key=_by_time)
    users = _find_users(turns, rows)
    for turn in turns:
        turn.call.user = users[turn.call.session]
    return follow((turn.call, turn.end_ns) for turn in turns)


def _by_time(turn: _Turn) -> tuple[int, int]:
    return turn.start_ns, turn.end_ns


def _read_turns(rows: Rows) -> Iterator[_Turn]:
    for line, row in rows.objects():
        with rows.row(line):
            record = row if row.get("event") is None else parse_typed(row, "event", dict[str, Any])
            kind = record.get("event_type")
            if record.get("schema") != _SCHEMA or kind not in ("request_end", *_LEFT_OUT):
                raise BadRowError("event_type", f"{kind!r:.40} is unknown, or the schema is not {_SCHEMA}")
            if kind == "request_end":
                yield _parse_turn(record, rows)
            else:
                rows.left_out[kind] += 1


def _parse_turn(record: Row, rows: Rows) -> _Turn:
    request = parse_typed(record, "request", dict[str, Any])
    agent = {} if record.get("agent_context") is None else parse_typed(record, "agent_context", dict[str, Any])
    start = parse_nanoseconds(request, "request_received_ms", unit=_MS)
    end = parse_nanoseconds(record, "event_time_unix_ms", unit=_MS)
    if request.get("total_time_ms") is not None:
        end = start + parse_nanoseconds(request, "total_time_ms", unit=_MS)
    call = _parse_prompt(parse_typed(request, "replay", dict[str, Any]), rows)
    call.time_ns = start
    call.output_tokens = parse_integer(request, "output_tokens")
    call.session = parse_name({**request, **agent}, "session_id", "request_id")
    if call.session is None:
        raise BadRowError("request_id", "missing")
    return _Turn(start, end, parse_name(agent, "parent_session_id"), call)


def _parse_prompt(replay: Row, rows: Rows) -> Call:
    """Parse the blocks of a prompt; a request without them is refused, because the trace would be of two kinds."""
    size = parse_integer(replay, "trace_block_size", least=1)
    tokens = parse_integer(replay, "input_length")
    blocks = parse_block_ids(replay, "input_sequence_hashes")
    check_block_count(len(blocks), tokens, size, tail=True)
    rows.take_block_tokens("trace_block_size", size)
    return Call(time_ns=0, input_tokens=tokens, output_tokens=0, blocks=blocks)


def _has_overlap(turns: Sequence[_Turn], session: Hashable) -> bool:
    """Return whether a request of the session runs at a time with one of the others."""
    ends = {True: 0, False: 0}  # of the session's requests, and of others
    for turn in turns:
        is_own = turn.call.session == session
        if turn.start_ns < ends[not is_own]:
            return True
        ends[is_own] = max(ends[is_own], turn.end_ns)
    return False


def _find_users(turns: Sequence[_Turn], rows: Rows) -> dict[Hashable, Hashable]:
    """Return the user of each session, named by its first; count sub-agents that run alongside those of theirs."""
    sessions = defaultdict(list)
    for turn in turns:
        sessions[turn.call.session].append(turn)
    users: dict[Hashable, Hashable] = {}
    work: dict[Hashable, list[_Turn]] = {}  # of each user
    for session, its in sessions.items():
        user = users.get(its[0].caller, session)
        both = sorted([*work.get(user, []), *its], key=_by_time)
        if _has_overlap(both, session):
            rows.left_out["parallel_sub_agents"] += 1
            user = session
            both = its
        work[user] = both
        users[session] = user
    return users


FORMAT: Final = Format(
    read=read, is_prefix_chained=True, time_unit="ms", has_global_ids=True, folder_pattern="*.jsonl*"
)
