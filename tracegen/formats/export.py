"""Options of an export, and a trace seen request by request."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

import numpy as np

from tracegen.arrays import IdTable
from tracegen.errors import InputError
from tracegen.trace.columns import DELETE, PREFILL, Columns, concatenate, take_rows
from tracegen.trace.reading import Trace

BYTES_PER_TOKEN_MAX: Final = 2**32 - 1


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export.

    Attributes:
        bytes_per_token: bytes of a token, for formats that count bytes; 0: not given.
        force: replace the output.
    """

    bytes_per_token: int = 0
    force: bool = False

    def require_bytes_per_token(self, format_: str) -> int:
        """Return `bytes_per_token`.

        Raises:
            InputError: it is not given, or an object's bytes might not fit 64 bits.
        """
        if self.bytes_per_token <= 0:
            raise explain_missing_bytes(format_)
        if self.bytes_per_token > BYTES_PER_TOKEN_MAX:
            problem = "must be from 1 to 2^32 - 1"
            raise InputError(problem, subject=self.bytes_per_token, setting="bytes_per_token")
        return self.bytes_per_token


def explain_missing_bytes(format_: str) -> InputError:
    """Make the error of a format that counts bytes, if `bytes_per_token` is missing."""
    remedy = "pass `bytes_per_token`, for example 131072 for llama3.1-8b in fp16"
    return InputError(f"{format_} counts bytes, a trace counts tokens", remedy)


@dataclass(frozen=True)
class Request:
    """A request of a trace.

    Attributes:
        number: id of the request.
        time_ns: time of its first prefill op.
        think_ns: the user's pause before it.
        session: id of its session.
        turn: number of the request in its session, from 1.
        generated: tokens that it generates.
        keys: the objects that its prefill touches, in order.
        tokens: tokens of these objects.
    """

    number: int
    time_ns: int
    think_ns: int
    session: int
    turn: int
    generated: int
    keys: list[int]
    tokens: list[int]


@dataclass
class LeftOut:
    """Numbers of ops and requests of a trace that a list of requests does not express.

    Attributes:
        requests: requests without prefill; known at the end.
        decode_ops: ops of decoding.
        deletes: deletes.
    """

    requests: int = 0
    decode_ops: int = 0
    deletes: int = 0

    def counts(self) -> dict[str, int]:
        """Return the numbers, as exports report them."""
        return {
            "requests_left_out": self.requests,
            "decode_ops_left_out": self.decode_ops,
            "deletes_left_out": self.deletes,
        }


@dataclass
class _RequestsSeen:
    """The requests of a trace: the tokens that each generates, and whether it has been yielded."""

    trace: Trace
    generated: IdTable
    is_seen: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.is_seen = bytearray(self.generated.end)


def read_requests(trace: Trace, left_out: LeftOut) -> Iterator[Request]:
    """Yield the requests that touch something in prefill, in order.

    It reads the trace twice and holds 9 bytes per request.

    Args:
        trace: the trace.
        left_out: counts what no request expresses.

    Raises:
        InputError: the prefill of a request is interleaved with another's.
    """
    seen = _RequestsSeen(trace, _sum_generated(trace))
    rest: Columns | None = None
    for batch in trace.batches():
        is_delete = batch["op"] == DELETE
        is_decode = batch["phase"] != PREFILL
        left_out.deletes += int(is_delete.sum())
        left_out.decode_ops += int((is_decode & ~is_delete).sum())
        rows = np.flatnonzero(~is_decode & ~is_delete)
        prefill = take_rows(batch, rows)
        if rest is not None:
            prefill = concatenate([rest, prefill])
        # The prefill of a request is in consecutive rows, and that of the last request may
        # continue in the next batch.
        end = 0
        if len(rows):
            request = prefill["request_id"]
            end = np.flatnonzero(request != request[-1:]).max(initial=-1) + 1
        yield from _split_requests(take_rows(prefill, slice(end)), seen)
        rest = take_rows(prefill, slice(end, None))
    if rest is not None:
        yield from _split_requests(rest, seen)
    left_out.requests = seen.is_seen.count(0)


def _sum_generated(trace: Trace) -> IdTable:
    """Sum the tokens that each request generates."""
    generated = IdTable(np.int64)
    for batch in trace.batches():
        generated.add(batch["request_id"], batch["new_tokens"])
    return generated


def _split_requests(rows: Columns, seen: _RequestsSeen) -> Iterator[Request]:
    """Yield the requests of prefill rows."""
    request = rows["request_id"]
    if not len(request):
        return
    starts = np.flatnonzero(request != np.concatenate([[-1], request[:-1]]))
    generated = seen.generated[request[starts]].tolist()
    keys = rows["key"].tolist()
    tokens = rows["tokens"].tolist()
    ends = [*starts[1:].tolist(), len(request)]
    for begin, end, produced in zip(starts.tolist(), ends, generated, strict=True):
        number = int(request[begin])
        if seen.is_seen[number]:
            problem = f"the prefill of request {number} continues after another request's"
            remedy = "give all prefill ops of a request the same time"
            subject = f"{seen.trace.path}, row {rows['op_id'][begin]}"
            raise InputError(problem, remedy, subject=subject)
        seen.is_seen[number] = 1
        yield Request(
            number=number,
            time_ns=int(rows["time_ns"][begin]),
            think_ns=int(rows["think_ns"][begin]),
            session=int(rows["session_id"][begin]),
            turn=int(rows["turn"][begin]),
            generated=produced,
            keys=keys[begin:end],
            tokens=tokens[begin:end],
        )


def require_even_blocks(trace: Trace, request: Request) -> int:
    """Return the tokens of a block, if a request is made of full blocks and a last one.

    Raises:
        InputError: the trace has no blocks, or the request has other objects.
    """
    block = trace.metadata.block_tokens
    is_even = block and all(size == block for size in request.tokens[:-1])
    if block and is_even and request.tokens[-1] <= block:
        return block
    problem = "it has no blocks"
    if block:
        problem = f"request {request.number} is not made of full blocks and a last one"
    remedy = "make the trace with `block_tokens` and without phrases or chunks, or import a trace of blocks"
    raise InputError(problem, remedy, subject=trace.path)


def format_decimal(value: Decimal) -> str:
    """Format a decimal as JSON, without an exponent."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
