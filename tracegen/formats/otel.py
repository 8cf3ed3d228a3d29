"""OpenTelemetry's spans of requests to language models (OTLP JSON, one export request a line).

Fields of spans: spanId, parentSpanId, startTimeUnixNano, endTimeUnixNano, droppedAttributesCount; attributes
gen_ai.usage.input_tokens and output_tokens (before semantic conventions 1.27, and in vLLM: prompt_tokens and
completion_tokens), gen_ai.operation.name, gen_ai.conversation.id or session.id.

A gateway's span and the engine's span within it are one request: the innermost counts, its conversation is that of the
nearest span around it that names one. Source: opentelemetry.io/docs/specs/semconv/gen-ai
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from tracegen.formats.format import Format
from tracegen.formats.rows import (
    Call,
    Rows,
    TextFields,
    follow,
    parse_integer,
    parse_name,
    parse_nanoseconds,
    parse_typed,
)

_INPUT: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
_OUTPUT: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
_SESSION: Final = ("gen_ai.conversation.id", "session.id")
_OPERATIONS: Final = ("chat", "text_completion", "generate_content", None)  # of others, usage is a sum or of no prompt


class _Attribute(Struct):
    key: str
    value: dict[str, Any] = {}  # by the name of its type


class _Span(Struct, rename="camel"):
    span_id: str
    start_time_unix_nano: str | int
    end_time_unix_nano: str | int
    parent_span_id: str = ""
    dropped_attributes_count: int = 0
    attributes: list[_Attribute] = []


class _Scope(Struct):
    spans: list[_Span] = []


class _Resource(Struct, rename="camel"):
    scope_spans: list[_Scope] = []


@dataclass
class _Node:
    """The fields of a span that count."""

    around: str  # the span around it
    session: Hashable
    end_ns: int
    call: Call | None  # None if it is no request


def read(rows: Rows) -> Iterator[Call]:
    """Return the requests of a file by their starts; its spans are in order of their ends."""
    nodes: dict[str, _Node] = {}
    for line, row in rows.objects():
        with rows.row(line):
            resources = parse_typed(row, "resourceSpans", list[_Resource])
            scopes = [scope for resource in resources for scope in resource.scope_spans]
            nodes |= {span.span_id: _read_span(span, rows) for scope in scopes for span in scope.spans}
    requests = _list_innermost(nodes)
    rows.left_out["spans around or beside requests"] += len(nodes) - len(requests)
    for call, _ in requests:
        call.user = call.session
    return follow(sorted(requests, key=lambda request: request[0].time_ns))


def _list_innermost(nodes: Mapping[str, _Node]) -> list[tuple[Call, int]]:
    """List the requests with none inside, and their ends; each takes the session of the nearest span that has one."""
    outer = set[str]()
    for name, node in nodes.items():
        seen = {name}
        place = node.around
        while node.call and place in nodes and place not in seen:
            seen.add(place)
            node.call.session = node.call.session or nodes[place].session
            place = nodes[place].around
        outer |= seen - {name}
    return [(node.call, node.end_ns) for name, node in nodes.items() if node.call and name not in outer]


def _read_span(span: _Span, rows: Rows) -> _Node:
    """Read a span; a BadRowError says which of its values is wrong."""
    fields = TextFields(startTimeUnixNano=str(span.start_time_unix_nano), endTimeUnixNano=str(span.end_time_unix_nano))
    fields |= {item.key: str(next(iter(item.value.values()), "")) for item in span.attributes}
    if span.dropped_attributes_count and any(key.startswith("gen_ai.") for key in fields):
        problem = f"span {span.span_id} has lost {span.dropped_attributes_count} attributes"
        raise rows.refuse(problem, "record again with a larger OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT")
    session = parse_name(fields, *_SESSION)
    call = None
    has_usage = any(map(fields.get, _INPUT)) and any(map(fields.get, _OUTPUT))
    if has_usage and fields.get("gen_ai.operation.name") in _OPERATIONS:
        call = Call(
            time_ns=parse_nanoseconds(fields, "startTimeUnixNano", unit=1),
            input_tokens=parse_integer(fields, *_INPUT),
            output_tokens=parse_integer(fields, *_OUTPUT),
            session=session,
        )
    return _Node(span.parent_span_id, session, parse_nanoseconds(fields, "endTimeUnixNano", unit=1), call)


FORMAT: Final = Format(read=read, has_global_ids=True, time_unit="ns", may_lack_sessions=True)
