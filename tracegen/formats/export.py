"""What writers of other labs' formats share: what they need besides the trace, and a trace seen request by request."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np

from tracegen.arrays import IdTable
from tracegen.errors import InputError
from tracegen.schema import DELETE, PREFILL, Columns, Trace, chosen, joined

HOLDS_BYTES: Final = "holds bytes, a trace tokens; give --bytes-per-token, e.g. 131072 for llama3.1-8b in fp16."


@dataclass(frozen=True)
class ExportOptions:
    """What an export needs besides the trace."""

    bytes_per_token: int = 0
    force: bool = False

    def object_bytes(self, format_: str) -> int:
        """Bytes per token.

        Raises:
            InputError: none were given, or so many that an object's bytes do not fit 64 bits.
        """
        if self.bytes_per_token <= 0:
            raise InputError(f"{format_} {HOLDS_BYTES}")
        if self.bytes_per_token >= 2**32:
            raise InputError("--bytes-per-token must be from 1 to 2^32 - 1.")
        return self.bytes_per_token


@dataclass(frozen=True)
class Request:
    """A request of a trace; keys and tokens are those of the objects that its prefill touches, in order."""

    number: int
    time_ns: int
    think_ns: int
    session: int
    turn: int
    generated: int
    keys: list[int]
    tokens: list[int]


def requests_of(trace: Trace, left_out: dict[str, int] | None = None) -> Iterator[Request]:
    """The requests that touch something in prefill, in order; reads the trace twice, and holds 9 bytes per request.

    Args:
        trace: the trace.
        left_out: completed with what no request says: deletes, decode ops and, at the end, requests without prefill.

    Raises:
        InputError: other requests' prefill stands between that of one request.
    """
    counts = {} if left_out is None else left_out
    counts |= {"requests_left_out": 0, "decode_ops_left_out": 0, "deletes_left_out": 0}
    generated = _generated(trace)
    seen = bytearray(generated.end)
    rest: Columns | None = None
    for batch in trace.batches():
        deletes, decodes = batch["op"] == DELETE, batch["phase"] != PREFILL
        counts["deletes_left_out"] += int(deletes.sum())
        counts["decode_ops_left_out"] += int((decodes & ~deletes).sum())
        rows = np.flatnonzero(~decodes & ~deletes)
        part = chosen(batch, rows)
        if rest is not None:
            part = joined([rest, part])
        # A request's prefill stands in rows of one time, one after another; the last may go on in the next batch.
        last = np.flatnonzero(part["request_id"] != part["request_id"][-1:]).max(initial=-1) + 1 if len(rows) else 0
        yield from _cut(trace, chosen(part, slice(last)), generated, seen)
        rest = chosen(part, slice(last, None))
    if rest is not None:
        yield from _cut(trace, rest, generated, seen)
    counts["requests_left_out"] = seen.count(0)


def _generated(trace: Trace) -> IdTable:
    """The tokens that each request generates."""
    generated = IdTable(np.int64)
    for batch in trace.batches():
        generated.add(batch["request_id"], batch["new_tokens"])
    return generated


def _cut(trace: Trace, rows: Columns, generated: IdTable, seen: bytearray) -> Iterator[Request]:
    request = rows["request_id"]
    if not len(request):
        return
    starts = np.flatnonzero(request != np.concatenate([[-1], request[:-1]])).tolist()
    keys, tokens = rows["key"].tolist(), rows["tokens"].tolist()
    for begin, end in zip(starts, [*starts[1:], len(request)], strict=True):
        first = {name: int(rows[name][begin]) for name in ("time_ns", "think_ns", "session_id", "turn")}
        number = int(request[begin])
        if seen[number]:
            raise InputError(
                f"{trace.path}, row {rows['op_id'][begin]}: request {number} goes on with its prefill after another's; "
                "give the ops of a request's prefill one time."
            )
        seen[number] = 1
        yield Request(
            number,
            first["time_ns"],
            first["think_ns"],
            first["session_id"],
            first["turn"],
            int(generated[np.array([number])][0]),
            keys[begin:end],
            tokens[begin:end],
        )


def even_blocks(trace: Trace, request: Request) -> int:
    """The size of a trace's blocks, where this request is made of them, all full but the last.

    Raises:
        InputError: the trace has no blocks, or the request has others.
    """
    block = trace.metadata.block_tokens
    if not block or any(size != block for size in request.tokens[:-1]) or request.tokens[-1] > block:
        what = f"request {request.number} is not made of full blocks and a last one" if block else "it has no blocks"
        raise InputError(
            f"{trace.path}: {what}; make the trace with --block-tokens and without phrases or chunks, or import blocks."
        )
    return block


def number(value: Decimal) -> str:
    """A decimal as JSON writes it, without an exponent."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
