"""Ops of requests: what each request of a recipe or an import does to the cache."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints, Numbering, positions, ranges, sort_order
from tracegen.schema import DECODE, PREFILL, READ, USER, WRITE, Columns, concatenate, take_rows

ROWS_PER_SORT: Final = 1 << 16


@dataclass(frozen=True)
class Requests:
    """Some requests in order of (time, user, request); arrays have shape (requests,) unless said."""

    time_ns: Ints  # start
    think_ns: Ints  # pause of the user before it
    user: Ints  # dense ids; requests of one time are in their order
    session: Ints  # dense ids, in order of first appearance
    turn: Ints  # place in the session, from 1
    qos: Ints  # code of the class of service, as in `ENUMS`
    generated: Ints  # tokens
    is_decoded: NDArray[np.bool_]  # whether decoding reads the request's own objects back
    is_decode: NDArray[np.bool_]  # whether the request is an I/O of decoding, from a log that knows no requests
    touch_count: Ints  # objects that prefill touches; the last `own_count` are the request's own
    own_count: Ints
    saved_count: Ints  # objects stored after decoding; they follow the touched ones in the arrays below
    object: Ints  # numbers of the objects, request by request, shape (touches and saves,)
    source: NDArray[np.uint8]  # code of each object's source, as in `ENUMS`, shape as `object`
    step: Ints  # step of the request that touches the object, from 0, shape as `object`; unused for saved ones
    tokens: Ints  # of each object, shape as `object`
    live: int = 0  # no later request touches an unshared object below this number

    def __len__(self) -> int:
        return len(self.time_ns)


def make_ops(requests: Iterable[Requests], *, decode_batch: int, token_ns: int, shared: int) -> Iterator[Columns]:
    """Make the ops of requests, with their objects, sorted by (time, user, request, order in it), in batches.

    Holds the ops that may still follow ops of later requests. Sessions share the objects below `shared`.
    A decode read stands for `decode_batch` generated tokens, each of nominally `token_ns`.
    """
    keys = Numbering(shared)
    held: list[Columns] = []
    next_request = rows = sorted_rows = written = 0
    for batch in requests:
        if not len(batch):
            continue
        held.append(_expand(batch, next_request, decode_batch, token_ns))
        next_request += len(batch)
        rows += len(held[-1]["object"])
        # Re-sort only once the rows have doubled, so that total sorting stays O(n log n).
        if rows >= max(2 * sorted_rows, ROWS_PER_SORT):
            columns = _sort(held)
            ready = int(np.searchsorted(columns["time_ns"], batch.time_ns[-1]))
            yield _assign_keys(take_rows(columns, slice(ready)), keys, written)
            held = [take_rows(columns, slice(ready, None))]
            written += ready
            rows = sorted_rows = len(held[0]["object"])
            waiting = held[0]["object"]
            keys.trim(int(waiting[waiting >= shared].min(initial=batch.live)))
    if held:
        yield _assign_keys(_sort(held), keys, written)


def _expand(requests: Requests, first_request: int, decode_batch: int, token_ns: int) -> Columns:
    """Return the ops of some requests, of all prefills, then of all decoding, then of all saves."""
    # One read of each own object loads it, then one for each batch of generated tokens.
    batches = -(-requests.generated // decode_batch) * requests.is_decoded
    rounds = np.where(batches > 0, batches + 1, 0)
    sizes = requests.touch_count + requests.saved_count
    starts = np.cumsum(sizes) - sizes  # of each request's objects
    prefill = _prefill(requests, starts, rounds)
    decode = _decode(requests, starts, rounds, decode_batch)
    ops = concatenate([prefill, decode, _save(requests, starts, rounds)])
    request = ops["request"]
    place = ops["place"]
    phase = np.full(len(request), DECODE, np.uint8)
    phase[: len(prefill["request"])] = np.where(requests.is_decode[prefill["request"]], DECODE, PREFILL)
    source = requests.source[place]
    source[phase == DECODE] = USER
    think_ns = np.zeros(len(request), np.int64)
    think_ns[np.cumsum(requests.touch_count) - requests.touch_count] = requests.think_ns
    return {
        "time_ns": requests.time_ns[request] + ops["tokens_before"] * token_ns,
        "request_id": first_request + request,
        "session_id": requests.session[request],
        "user_id": requests.user[request],
        "turn": requests.turn[request].astype(np.int32),
        "step": ops["step"].astype(np.int32),
        "qos": requests.qos[request].astype(np.uint8),
        "phase": phase,
        "source": source,
        "object": requests.object[place],
        "tokens": requests.tokens[place].astype(np.int32),
        "new_tokens": ops["new_tokens"].astype(np.int32),
        "think_ns": think_ns,
    }


def _prefill(requests: Requests, starts: Ints, rounds: Ints) -> Columns:
    """Return one op per touched object; the last one generates tokens if no decode reads follow.

    The ops of a phase have the request's row, the object's place in the requests' arrays, the step,
    the tokens generated before the op, and those that it generates.
    """
    request = np.repeat(np.arange(len(requests)), requests.touch_count)
    place = ranges(starts, requests.touch_count)
    return {
        "request": request,
        "place": place,
        "step": requests.step[place],
        "tokens_before": np.zeros_like(request),
        "new_tokens": _put_last(requests.touch_count, np.where(rounds > 0, 0, requests.generated)),
    }


def _decode(requests: Requests, starts: Ints, rounds: Ints, decode_batch: int) -> Columns:
    """Return the reads of own objects: round 0 loads them, each later round generates a batch."""
    request_of_round = np.repeat(np.arange(len(requests)), rounds)
    round_number = positions(rounds)
    own_count = requests.own_count[request_of_round]
    own_first = (starts + requests.touch_count - requests.own_count)[request_of_round]
    request = np.repeat(request_of_round, own_count)
    number = np.repeat(round_number, own_count)
    left = requests.generated[request_of_round] - (round_number - 1) * decode_batch
    return {
        "request": request,
        "place": ranges(own_first, own_count),
        "step": _last_step(requests, starts)[request] + 1 + number,
        "tokens_before": np.maximum(number - 1, 0) * decode_batch,
        "new_tokens": _put_last(own_count, np.where(round_number > 0, np.minimum(decode_batch, left), 0)),
    }


def _save(requests: Requests, starts: Ints, rounds: Ints) -> Columns:
    """Return the writes of generated tokens' objects, after the last token."""
    request = np.repeat(np.arange(len(requests)), requests.saved_count)
    return {
        "request": request,
        "place": ranges(starts + requests.touch_count, requests.saved_count),
        "step": (_last_step(requests, starts) + rounds)[request] + 1,
        "tokens_before": requests.generated[request],
        "new_tokens": np.zeros_like(request),
    }


def _put_last(count: Ints, values: Ints) -> Ints:
    """Return zeros for each group of `count` ops, and the group's value on its last op."""
    ops = np.zeros(int(count.sum()), np.int64)
    ops[np.cumsum(count) - 1] = values
    return ops


def _last_step(requests: Requests, starts: Ints) -> Ints:
    """Return the last step of each request's prefill."""
    last: Ints = requests.step[starts + requests.touch_count - 1]
    return last


def _sort(parts: list[Columns]) -> Columns:
    columns = concatenate(parts)
    return take_rows(columns, sort_order(columns["time_ns"], columns["user_id"], columns["request_id"]))


def _assign_keys(batch: Columns, keys: Numbering, begin: int) -> Columns:
    """Return ops in order, with their objects, numbered from `begin`: the first op of an object writes its key."""
    key, first = keys.number(batch["object"])
    op = np.full(len(key), READ, np.uint8)
    op[first] = WRITE
    return batch | {"op_id": begin + np.arange(len(key)), "op": op, "key": key}
