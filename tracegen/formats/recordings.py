"""Recordings of engines: vLLM's KV cache events, and the look-ups of LMCache; JSONL, or frames of msgpack.

A frame is its length, 4 bytes with the highest first, and as many bytes.

vLLM's events as a subscriber of its ZMQ endpoint writes them: a line is a batch with seq, ts (seconds) and events; a
frame holds two parts of a message, 8 bytes of seq and the msgpack of (ts, events, rank). Fields of events: type,
block_hashes, parent_block_hash (chained), block_size, medium, group_idx, session_id; older releases write lists. They
name no requests. One block after the last block of a request is its answer's. Several are the next chunk of its prompt
if they come in the next batch, within a second and before its answer, else the next turn. Any other run begins a
request. Source: vllm/distributed/kv_events.py of vLLM 0.32.

LMCache's log of look-up hashes: a line has timestamp (s), request_id, model_name, chunk_size, seq_len and chunk_hashes
(chained, of whole chunks). Its recording of the storage manager (.lct) is a header, then calls with their arguments;
`submit_prefetch_task` looks up the chunks of a prompt. Source: lmcache/v1/mp_observability of LMCache 0.5.6.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from tracegen.formats.format import Format
from tracegen.formats.rows import (
    LINE_MAX,
    TOKENS_MAX,
    BadRowError,
    Call,
    Row,
    Rows,
    parse_integer,
    parse_nanoseconds,
    parse_typed,
)

_Value = TypeVar("_Value")
_FIELDS: Final = ("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")
_STEP_NS: Final = 10**9  # that a step takes at most
_Hash = int | bytes
"""64 bits as a number, or all bytes, which are base64 in JSON."""
_Batch = Annotated[list[Any], Meta(min_length=2)]


def _is_framed(rows: Rows) -> bool:
    """Return whether a file begins with the length of a frame (below 16 MiB) instead of with text."""
    return next(Rows(rows.path).chunks(), b"").startswith(b"\0")


def _read_frames(rows: Rows) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, bytes) of every frame.

    Raises:
        InputError: the file cannot be read or decompressed, or ends within a frame.
    """
    rows.unit = "record"
    held = b""
    place = before = 0  # in `held`; bytes of the file before it
    for chunk in rows.chunks():
        held = held[place:] + chunk
        before += place
        place = 0
        while (end := place + 4 + int.from_bytes(held[place : place + 4], "big")) <= len(held):
            rows.line += 1
            yield rows.line, held[place + 4 : end]
            place = end
        if end - place > LINE_MAX:  # no length: the file is of another format
            break
    if place < len(held):
        problem = f"the file ends within this record, which begins at byte {before + place}"
        raise rows.refuse(problem, "copy the file again, or record it again", rows.line + 1)


def _parse_msgpack(data: bytes, kind: type[_Value]) -> _Value:
    """Parse one value of msgpack as a type; a BadRowError says how it differs."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:  # not text, an unhashable key
        raise BadRowError("not msgpack", str(error)) from None


class _Event(Struct):
    type: Literal["BlockStored", "BlockRemoved", "AllBlocksCleared"]
    block_hashes: list[_Hash] = []
    parent_block_hash: _Hash | None = None
    block_size: Annotated[int, Meta(le=TOKENS_MAX)] = 0
    medium: str | None = None
    group_idx: int | None = None
    session_id: str | None = None


@dataclass
class _Pool:
    """The blocks of an engine and its requests, as events tell them."""

    rows: Rows
    calls: list[Call] = field(default_factory=list)  # with the last block of their prompts
    tails: dict[Hashable, tuple[Call, int, int]] = field(default_factory=dict)  # of a block: whose, batch, ns
    parents: dict[Hashable, Hashable] = field(default_factory=dict)  # the block before each, None before a first
    held: set[Hashable] = field(default_factory=set)  # blocks on the GPU

    def apply(self, event: _Event, seq: int, time_ns: int) -> None:
        """Apply an event of batch `seq`; a BadRowError says that its blocks have another size."""
        if event.medium not in (None, "GPU") or event.group_idx not in (None, 0):
            self.rows.left_out["events of other tiers or groups"] += 1
        elif event.type == "BlockRemoved":
            self.held.difference_update(event.block_hashes)
        elif event.type == "AllBlocksCleared":
            self.held.clear()
        elif event.block_hashes:
            self.rows.take_block_tokens("block_size", event.block_size)
            self._store(event, seq, time_ns)

    def _store(self, event: _Event, seq: int, time_ns: int) -> None:
        run = event.block_hashes
        parent = event.parent_block_hash
        if parent is None and run[-1] in self.held:  # a hit, reported; what is stored after it names it as parent
            self.rows.left_out["reports of hits"] += 1
            return
        if parent is not None and parent not in self.parents:
            self.rows.left_out["blocks after unknown ones"] += len(run)
            return
        call = self._find_call(event, seq, time_ns)
        for block in run:
            self.parents.setdefault(block, parent)
            parent = block
        self.held.update(run)
        self.tails[parent] = call, seq, time_ns

    def _find_call(self, event: _Event, seq: int, time_ns: int) -> Call:
        """Return the request that blocks were stored for, a new one if they are no more of the one before them."""
        call, batch, latest_ns = self.tails.pop(event.parent_block_hash, (None, 0, 0))
        if call and len(event.block_hashes) == 1:
            call.output_tokens += event.block_size
            return call
        if not call or call.output_tokens or seq > batch + 1 or time_ns >= latest_ns + _STEP_NS:
            call = Call(time_ns, 0, 0, session=event.session_id, user=event.session_id)
            self.calls.append(call)
        call.blocks = event.block_hashes[-1:]
        return call

    def finish(self) -> Iterator[Call]:
        """Yield the requests with all blocks of their prompts, those that they hit, too."""
        for call in self.calls:
            blocks = deque(call.blocks or [])
            while (parent := self.parents[blocks[0]]) is not None:
                blocks.appendleft(parent)
            call.blocks = list(blocks)
            call.input_tokens = len(blocks) * (self.rows.block_tokens or 0)
            yield call


def _read_events(rows: Rows) -> Iterator[Call]:
    """Yield the requests that stored blocks, by their first batch."""
    pool = _Pool(rows)
    last = None
    for line, row in _read_batches(rows):
        with rows.row(line):
            seq = parse_integer(row, "seq", most=2**64)
            time_ns = parse_nanoseconds(row, "ts", unit=10**9)
            events = parse_typed(row, "events", list[Any])
            named = [dict(zip(_FIELDS, event, strict=False)) if isinstance(event, list) else event for event in events]
            events = parse_typed({"events": named}, "events", list[_Event])
            if last is not None and seq != last + 1:
                problem = f"batch {seq} follows batch {last}: batches were dropped, or the engine began anew"
                raise rows.refuse(problem, "record each run of the engine in a file, with a larger `hwm`")
            for event in events:
                pool.apply(event, seq, time_ns)
            last = seq
    yield from pool.finish()


def _read_batches(rows: Rows) -> Iterator[tuple[int, Row]]:
    if not _is_framed(rows):
        yield from rows.objects()
        return
    for number, frame in _read_frames(rows):
        with rows.row(number):
            ts, events, *_ = _parse_msgpack(frame[8:], _Batch)
            yield number, {"seq": int.from_bytes(frame[:8], "big"), "ts": ts, "events": events}


class _LookUp(Struct):
    """A line of the log but for its time."""

    request_id: str
    model_name: str
    chunk_size: Annotated[int, Meta(le=TOKENS_MAX)]
    seq_len: Annotated[int, Meta(ge=0, le=TOKENS_MAX)]
    chunk_hashes: list[str]


class _Typed(Struct, Generic[_Value]):
    """A value beside the name of its type, as the recorder writes it."""

    v: _Value


class _Key(Struct):
    chunk_hash: bytes
    model_name: str


class _Layout(Struct):
    shapes: Annotated[list[Annotated[list[int], Meta(min_length=2)]], Meta(min_length=1)]  # tokens are last but one


class _Group(Struct):
    """The chunks of one rank and group of layers."""

    keys: Annotated[list[_Typed[_Key]], Meta(min_length=1)]
    layout_desc: _Typed[_Layout]


class _Task(Struct):
    key_groups: Annotated[list[_Typed[_Group]], Meta(min_length=1)]


class _Arguments(Struct):
    """The arguments of a call; a look-up has a task."""

    spec: _Typed[_Task] | None = None
    external_request_id: str = ""


class _Record(Struct):
    t_wall: float  # seconds
    args: _Arguments


def _read_look_ups(rows: Rows) -> Iterator[Call]:
    """Yield the requests of a file; a request that is preempted is looked up again, and comes once."""
    seen = set[str]()
    for line, row in _read_recording(rows) if _is_framed(rows) else rows.objects():
        with rows.row(line):
            look_up = parse_typed({"fields": row}, "fields", _LookUp)
            size = look_up.chunk_size
            if len(look_up.chunk_hashes) * size > look_up.seq_len:
                raise BadRowError("chunk_hashes", f"more than {look_up.seq_len} tokens in chunks of {size}")
            time_ns = parse_nanoseconds(row, "timestamp", unit=10**9)
            rows.take_block_tokens("chunk_size", size)
            if look_up.request_id in seen:
                rows.left_out["repeated look-ups"] += 1
                continue
            seen.add(look_up.request_id)
            blocks = [intern(name) for name in look_up.chunk_hashes]
            yield Call(time_ns, look_up.seq_len, 0, blocks, scope=look_up.model_name)


def _read_recording(rows: Rows) -> Iterator[tuple[int, Row]]:
    """Yield (number, fields as in the log) of the look-ups of a recording."""
    for number, frame in _read_frames(rows):
        with rows.row(number):
            if number == 1:
                _check_header(_parse_msgpack(frame, dict[str, object]), rows)
                continue
            record = _parse_msgpack(frame, _Record)
            if record.args.spec is None:
                rows.left_out["calls that look nothing up"] += 1
                continue
            group = record.args.spec.v.key_groups[0].v
            keys = [key.v for key in group.keys]
            size = group.layout_desc.v.shapes[0][-2]
            row = {"timestamp": record.t_wall, "request_id": record.args.external_request_id}
            row |= {"model_name": keys[0].model_name, "chunk_size": size, "seq_len": size * len(keys)}
            yield number, row | {"chunk_hashes": [f"0x{key.chunk_hash.hex()}" for key in keys]}


def _check_header(header: Row, rows: Rows) -> None:
    kind = [header.get(name) for name in ("magic", "format_version", "level")]
    if kind != [b"LMCT", 1, "storage"]:
        problem = f"a recording of kind {kind} has no look-ups"
        raise rows.refuse(problem, "record version 1 with trace-level storage")


VLLM_EVENTS: Final = Format(read=_read_events, is_prefix_chained=True, has_global_ids=True, time_unit="s")
LMCACHE: Final = Format(
    read=_read_look_ups, is_prefix_chained=True, has_global_ids=True, time_unit="s", has_late_rows=True
)
