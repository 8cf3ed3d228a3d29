"""An export of a trace: by its touches, or for formats of requests, request by request."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from tracegen.errors import InputError
from tracegen.trace.columns import DELETE, PREFILL, Columns, concatenate, take_rows
from tracegen.trace.reading import Trace

BYTES_PER_TOKEN_MAX: Final = 2**32 - 1


@dataclass(frozen=True)
class Export:
    """An export of a trace."""

    trace: Trace  # the trace
    output: Path  # the file to write
    bytes_per_token: int = 0  # bytes of a token, for formats that count bytes; 0: not given
    force: bool = False  # replace the output

    def read_touches(self, counts: Counter[str], name: str) -> Iterator[Columns]:
        """Yield the writes and reads, with their `bytes`; count them under `name`, and deletes."""
        counts.update({name: 0, "deletes_left_out": 0})
        for batch in self.trace.batches():
            rows = take_rows(batch, batch["op"] != DELETE)
            touches = len(rows["op"])
            counts.update({name: touches, "deletes_left_out": len(batch["op"]) - touches})
            yield rows | {"bytes": rows["tokens"].astype(np.int64) * self.bytes_per_token}


def check_bytes_per_token(name: str, bytes_per_token: int, *, is_counted: bool) -> None:
    """Refuse bytes per token that a format needs and lacks, or has no use for."""
    if is_counted and bytes_per_token <= 0:
        remedy = "pass `bytes_per_token`, for example 131072 for llama3.1-8b in fp16"
        raise InputError(f"{name} counts bytes, a trace counts tokens", remedy)
    if bytes_per_token and not is_counted:
        raise InputError(f"{name} counts tokens, not bytes", "leave out `bytes_per_token`")
    if bytes_per_token > BYTES_PER_TOKEN_MAX:
        raise InputError("must be from 1 to 2^32 - 1", subject=bytes_per_token, setting="bytes_per_token")


@dataclass(frozen=True)
class Request:
    """A request of a trace of blocks."""

    time_ns: int  # time of its first prefill op
    think_ns: int  # the user's pause before it
    session: int  # id of its session
    turn: int  # number of the request in its session, from 1
    has_turns: bool  # whether its session has several turns
    generated: int  # tokens that it generates
    keys: list[int]  # the blocks that its prefill touches, in order
    tokens: int  # of its prompt


def read_requests(trace: Trace, counts: Counter[str]) -> Iterator[Request]:
    """Yield the requests that touch something in prefill, in order; count them, and what they do not express.

    The trace is read twice; 9 bytes are held per request.

    Raises:
        InputError: the trace is not made of equal blocks, or prefills of requests are interleaved.
    """
    generated = np.zeros(0, np.int64)  # by request
    followed: set[int] = set()  # sessions of several turns
    for batch in trace.batches():
        generated.resize(max(len(generated), int(batch["request_id"].max()) + 1))
        np.add.at(generated, batch["request_id"], batch["new_tokens"])
        is_later = (batch["turn"] > 1) & (batch["phase"] == PREFILL) & (batch["op"] != DELETE)
        followed.update(np.unique(batch["session_id"][is_later]).tolist())
    is_seen = bytearray(len(generated))
    counts.update(requests=0, blocks=0, requests_left_out=0, decode_ops_left_out=0, deletes_left_out=0)
    for rows in _read_prefills(trace, counts):
        request = rows["request_id"]
        for begin, end in pairwise([*np.flatnonzero(np.diff(request, prepend=-1)).tolist(), len(request)]):
            number = int(request[begin])
            tokens = rows["tokens"][begin:end]
            if is_seen[number]:
                problem = f"the prefill of request {number} continues after another request's"
                remedy = "give all prefill ops of a request the same time"
                raise InputError(problem, remedy, subject=f"{trace.path}, row {rows['op_id'][begin]}")
            is_seen[number] = 1
            _require_even_blocks(trace, number, tokens.tolist())
            counts.update(requests=1, blocks=end - begin)
            yield Request(
                time_ns=int(rows["time_ns"][begin]),
                think_ns=int(rows["think_ns"][begin]),
                session=int(rows["session_id"][begin]),
                turn=int(rows["turn"][begin]),
                has_turns=int(rows["session_id"][begin]) in followed,
                generated=int(generated[request[begin]]),
                keys=rows["key"][begin:end].tolist(),
                tokens=int(tokens.sum(dtype=np.int64)),
            )
    counts["requests_left_out"] = is_seen.count(0)


def _read_prefills(trace: Trace, counts: Counter[str]) -> Iterator[Columns]:
    """Yield the rows of prefill, the consecutive ones of a request in one batch; count the others."""
    rest: list[Columns] = []
    for batch in trace.batches():
        is_delete = batch["op"] == DELETE
        is_decode = ~is_delete & (batch["phase"] != PREFILL)
        counts["deletes_left_out"] += int(is_delete.sum())
        counts["decode_ops_left_out"] += int(is_decode.sum())
        prefill = concatenate([*rest, take_rows(batch, ~is_decode & ~is_delete)])
        # The prefill of the last request may continue in the next batch.
        request = prefill["request_id"]
        end = int(np.flatnonzero(request != request[-1:]).max(initial=-1)) + 1
        yield take_rows(prefill, slice(end))
        rest = [take_rows(prefill, slice(end, None))]
    yield from rest


def _require_even_blocks(trace: Trace, request: int, tokens: list[int]) -> None:
    """Refuse a trace without blocks, or a request that is not made of full blocks and a last one."""
    block = trace.metadata.block_tokens
    if block and tokens[-1] <= block and all(size == block for size in tokens[:-1]):
        return
    problem = f"request {request} is not made of full blocks and a last one" if block else "it has no blocks"
    remedy = "make the trace with `block_tokens` and without phrases or chunks, or import a trace of blocks"
    raise InputError(problem, remedy, subject=trace.path)
