"""From requests to ops: what each request does to the cache. Every trace that is made or imported goes through here."""

from collections.abc import Iterable, Iterator

import numpy as np

from tracegen.arrays import IdTable, Ints, first_rows, ranges, sort_order
from tracegen.schema import DECODE, PREFILL, READ, USER, WRITE, Columns, chosen, joined
from tracegen.workload.requests import Requests

ROWS_PER_SORT = 1 << 16


def ops(requests: Iterable[Requests], *, decode_batch: int, token_ns: int, shared: int) -> Iterator[Columns]:
    """The ops of all requests, sorted by (time, user, request, order in the request), in batches.

    Holds the ops that are not yet known to precede those of all later requests. Beside the columns of a trace a batch
    has `shared`: the number of an object that sessions share, else -1.

    Args:
        requests: in order of (time, user, request).
        decode_batch: tokens generated per decode read.
        token_ns: nominal nanoseconds per generated token.
        shared: objects below this number are shared.
    """
    keys, next_request = _Keys(shared), 0
    held: list[Columns] = []
    rows = sorted_rows = 0
    for batch in requests:
        if not len(batch):
            continue
        held.append(_expand(batch, next_request, decode_batch, token_ns))
        next_request += len(batch)
        rows += len(held[-1]["object"])
        # Ops that wait are sorted again and again: not before as many others have come.
        if rows >= max(2 * sorted_rows, ROWS_PER_SORT):
            columns = _sorted(held)
            ready = int(np.searchsorted(columns["time_ns"], batch.time_ns[-1]))
            yield keys.assign(chosen(columns, slice(ready)))
            held = [chosen(columns, slice(ready, None))]
            rows = sorted_rows = len(held[0]["object"])
            keys.trim(batch.live, held[0]["object"])
    if held:
        yield keys.assign(_sorted(held))


def _expand(requests: Requests, number: int, decode_batch: int, token_ns: int) -> Columns:
    """The ops of some requests, the first of which has this number; prefill first, then decode reads, then saves."""
    sizes = requests.touches + requests.saves
    starts = np.cumsum(sizes) - sizes
    ends = starts + requests.touches
    prefill = ranges(starts, requests.touches)
    of_prefill = np.repeat(np.arange(len(requests)), requests.touches)
    # One read of each own object loads it, then one for each batch of generated tokens.
    batches = np.where(requests.decodes & (requests.generated > 0), -(-requests.generated // decode_batch), 0)
    rounds = np.where(batches > 0, batches + 1, 0)
    of_round = np.repeat(np.arange(len(requests)), rounds)
    turn_of_round = ranges(np.zeros_like(rounds), rounds)
    own = requests.own[of_round]
    decode = ranges((ends - requests.own)[of_round], own)
    of_decode, round_of = np.repeat(of_round, own), np.repeat(turn_of_round, own)
    saved = ranges(ends, requests.saves)
    of_saved = np.repeat(np.arange(len(requests)), requests.saves)
    place, of = np.concatenate([prefill, decode, saved]), np.concatenate([of_prefill, of_decode, of_saved])
    last_step = requests.step[ends - 1]
    step = np.concatenate(
        [requests.step[prefill], last_step[of_decode] + 1 + round_of, (last_step + rounds)[of_saved] + 1]
    )
    lag = np.concatenate(
        [
            np.zeros(len(prefill), np.int64),
            np.maximum(round_of - 1, 0) * decode_batch,
            requests.generated[of_saved],
        ]
    )
    new_tokens = np.zeros(len(of), np.int32)
    batch_tokens = np.minimum(decode_batch, requests.generated[of_round] - (turn_of_round - 1) * decode_batch)
    new_tokens[len(prefill) + np.cumsum(own) - 1] = np.where(turn_of_round > 0, batch_tokens, 0)
    undecoded = np.where(batches > 0, 0, requests.generated)
    new_tokens[np.cumsum(requests.touches) - 1] = undecoded
    think = np.zeros(len(of), np.int64)
    think[np.cumsum(requests.touches) - requests.touches] = requests.think_ns
    phase = np.full(len(of), DECODE, np.uint8)
    phase[: len(prefill)] = np.where(requests.is_decode[of_prefill], DECODE, PREFILL)
    source = requests.source[place]
    source[phase == DECODE] = USER
    return {
        "time_ns": requests.time_ns[of] + lag * token_ns,
        "request_id": number + of,
        "session_id": requests.session[of],
        "user_id": requests.user[of],
        "turn": requests.turn[of].astype(np.int32),
        "step": step.astype(np.int32),
        "qos": requests.qos[of].astype(np.uint8),
        "phase": phase,
        "source": source,
        "object": requests.object[place],
        "tokens": requests.tokens[place].astype(np.int32),
        "new_tokens": new_tokens,
        "think_ns": think,
    }


def _sorted(parts: list[Columns]) -> Columns:
    columns = joined(parts)
    return chosen(columns, sort_order(columns["time_ns"], columns["user_id"], columns["request_id"]))


class _Keys:
    """Names objects 0, 1, … in order of first appearance; an object's first op is its write, all others read."""

    def __init__(self, shared: int) -> None:
        self._shared, self._next_key, self._next_op = shared, 0, 0
        self._of = IdTable(np.int64, shared)  # key + 1; 0: not seen

    def trim(self, live: int, waiting: Ints) -> None:
        """Forget the unshared objects below `live` that no waiting op touches."""
        self._of.trim(min(live, int(waiting[waiting >= self._shared].min(initial=live))))

    def assign(self, batch: Columns) -> Columns:
        """Give ops in order their op_ids, keys and kinds."""
        objects = batch.pop("object")
        self._of.cover(objects)
        first = first_rows(self._of, objects)
        self._of[objects[first]] = self._next_key + 1 + np.arange(len(first))
        self._next_key += len(first)
        op = np.full(len(objects), READ, np.uint8)
        op[first] = WRITE
        op_id = self._next_op + np.arange(len(objects))
        self._next_op += len(objects)
        shared = np.where(objects < self._shared, objects, -1)
        return batch | {"op_id": op_id, "op": op, "key": self._of[objects] - 1, "shared": shared}
