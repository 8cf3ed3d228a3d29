"""Options of an export, and a trace seen request by request."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
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


class RequestReader:
    """Reads a trace request by request, in order, and counts what no request expresses.

    It reads the trace twice and holds 9 bytes per request.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._left_out = {"requests_left_out": 0, "decode_ops_left_out": 0, "deletes_left_out": 0}
        self._generated = IdTable(np.int64)
        for batch in trace.batches():
            self._generated.add(batch["request_id"], batch["new_tokens"])
        self._is_seen = bytearray(self._generated.end)

    def counts(self) -> dict[str, int]:
        """Count the ops, and the requests without prefill, that were left out, once all are read."""
        return self._left_out | {"requests_left_out": self._is_seen.count(0)}

    def requests(self) -> Iterator[Request]:
        """Yield the requests that touch something in prefill; refuse interleaved prefills."""
        rest: list[Columns] = []
        for batch in self._trace.batches():
            is_delete = batch["op"] == DELETE
            is_decode = batch["phase"] != PREFILL
            self._left_out["deletes_left_out"] += int(is_delete.sum())
            self._left_out["decode_ops_left_out"] += int((is_decode & ~is_delete).sum())
            prefill = concatenate([*rest, take_rows(batch, ~is_decode & ~is_delete)])
            # The prefill of a request is in consecutive rows, and that of the last request may
            # continue in the next batch.
            request = prefill["request_id"]
            end = int(np.flatnonzero(request != request[-1:]).max(initial=-1)) + 1
            yield from self._split(take_rows(prefill, slice(end)))
            rest = [take_rows(prefill, slice(end, None))]
        yield from self._split(rest[0])

    def _split(self, rows: Columns) -> Iterator[Request]:
        """Yield the requests of prefill rows."""
        request = rows["request_id"]
        starts = np.flatnonzero(np.diff(request, prepend=-1))
        keys = rows["key"].tolist()
        tokens = rows["tokens"].tolist()
        for begin, end in pairwise([*starts.tolist(), len(request)]):
            number = int(request[begin])
            if self._is_seen[number]:
                problem = f"the prefill of request {number} continues after another request's"
                remedy = "give all prefill ops of a request the same time"
                raise InputError(problem, remedy, subject=f"{self._trace.path}, row {rows['op_id'][begin]}")
            self._is_seen[number] = 1
            yield Request(
                number=number,
                time_ns=int(rows["time_ns"][begin]),
                think_ns=int(rows["think_ns"][begin]),
                session=int(rows["session_id"][begin]),
                turn=int(rows["turn"][begin]),
                generated=int(self._generated[request[begin]]),
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
