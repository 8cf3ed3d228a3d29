"""From sessions to ops: who asks when, and what each request does to the cache. Every source goes through here."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tracegen.draws import Purpose, below, between, choose, draw, zipf_weights
from tracegen.recipe import Recipe, to_ns
from tracegen.schema import ENUMS, Columns, InputError
from tracegen.sessions import Ints, Sessions

WRITE, READ = ENUMS["op"].index("write"), ENUMS["op"].index("read")
PREFILL, DECODE = ENUMS["phase"].index("prefill"), ENUMS["phase"].index("decode")
USER, MULTI_TURN, SYSTEM = (ENUMS["source"].index(name) for name in ("user", "multi_turn", "system"))
ARRIVALS_PER_BLOCK = 1024
REQUESTS_PER_BLOCK = 4096


@dataclass(frozen=True)
class Requests:
    """Requests in order of arrival; every array has shape (requests,) but `by_turn`.

    Attributes:
        prefix: index into the recipe's shared prompts, -1 where the session carries none.
        first: where the request's session begins in `by_turn`.
        by_turn: request ids, session by session in order of turns.
    """

    time_ns: Ints
    think_ns: Ints
    user: Ints
    session: Ints
    turn: Ints
    qos: Ints
    context: Ints
    generated: Ints
    prefix: Ints
    first: Ints
    by_turn: Ints


def schedule(recipe: Recipe, sessions: Sessions) -> Requests:
    """Give every turn a user, a time and a pause; cut at the recipe's duration and number of requests.

    User u takes sessions u, u + users, …; with `session_rate` a session waits for its arrival, too. A turn begins one
    pause after the one before has nominally ended: its start plus `decode_token_ms` per generated token.
    """
    count, turns = len(sessions.turns), sessions.turns
    ids = np.arange(count)
    session = np.repeat(ids, turns)
    first = np.cumsum(turns) - turns
    turn = np.arange(len(session)) - first[session]
    _check_span(recipe, sessions)
    low, high = map(to_ns, recipe.think_s)
    pause = between(draw(recipe.seed, Purpose.THINK, session, turn), low, high)
    busy = sessions.generated * _token_ns(recipe)
    # Nominal start of each turn, counted from the start of its session.
    spans = pause + np.concatenate([[0], busy[:-1]])
    spans[first] = 0
    offset = np.cumsum(spans)
    offset -= offset[first][session]
    start, wait = _session_starts(recipe, count, pause[first], (offset + busy)[first + turns - 1])
    time = start[session] + offset
    pause[first] = wait
    kept = np.lexsort((session, session % recipe.users, time))
    kept = kept[: recipe.requests or None]
    kept = kept[time[kept] < to_ns(recipe.duration_s)] if recipe.duration_s else kept
    by_turn = np.full(len(session), -1, np.int64)
    by_turn[kept] = np.arange(len(kept))
    picked = session[kept]
    return Requests(
        time_ns=time[kept],
        think_ns=pause[kept],
        user=np.unique(picked % recipe.users, return_inverse=True)[1],
        session=_by_first_appearance(picked),
        turn=turn[kept] + 1,
        qos=choose(draw(recipe.seed, Purpose.QOS, ids), _weights(recipe))[picked],
        context=np.maximum(sessions.context[kept], 1),
        generated=sessions.generated[kept],
        prefix=_prefixes(recipe, ids)[picked],
        first=first[picked],
        by_turn=by_turn,
    )


def _check_span(recipe: Recipe, sessions: Sessions) -> None:
    """Times are int64 nanoseconds: refuse a recipe that could reach past them."""
    longest = (
        len(sessions.context) * float(recipe.think_s[1])
        + float(sessions.generated.sum()) * recipe.decode_token_ms / 1e3
    )
    if recipe.session_rate:
        longest += (len(sessions.turns) + ARRIVALS_PER_BLOCK) / recipe.session_rate
    if longest > 2**62 / 1e9:
        raise InputError(
            "the trace could last over 146 years; lower think_s or decode_token_ms, or raise session_rate."
        )


def _session_starts(recipe: Recipe, count: int, pause: Ints, length: Ints) -> tuple[Ints, Ints]:
    """Start of each session, and its pause since its user's session before (0 for the user's first)."""
    arrival = _poisson(recipe, count) if recipe.session_rate else np.zeros(count, np.int64)
    free = dict.fromkeys(range(min(recipe.users, count)), 0)
    start, wait = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i in range(count):
        user = i % recipe.users
        # The first pause of a closed loop spreads the users' beginnings; Poisson arrivals are spread already.
        lead = 0 if recipe.session_rate and i < recipe.users else int(pause[i])
        start[i] = max(int(arrival[i]), free[user] + lead)
        wait[i] = start[i] - free[user] if i >= recipe.users else 0
        free[user] = int(start[i] + length[i])
    return start, wait


def _poisson(recipe: Recipe, count: int) -> Ints:
    """Arrival times: in each block of 1,024, sorted uniforms over the block's nominal length (integers only)."""
    length = round(ARRIVALS_PER_BLOCK * 10**9 / Fraction(str(recipe.session_rate)))
    # Whole blocks are drawn, so that a trace of more sessions begins with the same arrivals.
    block, place = np.divmod(np.arange(-(-count // ARRIVALS_PER_BLOCK) * ARRIVALS_PER_BLOCK), ARRIVALS_PER_BLOCK)
    return np.sort(block * length + below(draw(recipe.seed, Purpose.ARRIVAL, block, place), length))[:count]


def _prefixes(recipe: Recipe, session: Ints) -> Ints:
    if not recipe.prefix.share:
        return np.full(len(session), -1, np.int64)
    scale = 10**9
    threshold = round(Fraction(str(recipe.prefix.share)) * scale)
    carried = below(draw(recipe.seed, Purpose.PREFIX_CARRIED, session), scale) < threshold
    choice = choose(draw(recipe.seed, Purpose.PREFIX_CHOICE, session), zipf_weights(len(recipe.prefix.tokens)))
    return np.where(carried, choice, -1)


def _weights(recipe: Recipe) -> list[int]:
    return [getattr(recipe.qos, name) for name in ENUMS["qos"]]


def _token_ns(recipe: Recipe) -> int:
    return to_ns(recipe.decode_token_ms) // 1000


def _by_first_appearance(values: Ints) -> Ints:
    """Renumber 0, 1, … in order of first appearance."""
    _, rows, inverse = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(rows))[inverse]


def ops(recipe: Recipe, requests: Requests) -> Iterator[Columns]:
    """The ops of all requests, sorted by (time, user, request, order in the request), in batches.

    Holds the ops of one block of requests and those still to come of earlier ones; a batch ends where the next block's
    first request arrives.
    """
    keys = _Keys(len(recipe.prefix.tokens) + len(requests.time_ns))
    waiting: Columns = {}
    count = len(requests.time_ns)
    for begin in range(0, count, REQUESTS_PER_BLOCK):
        end = min(begin + REQUESTS_PER_BLOCK, count)
        block = _expand(recipe, requests, np.arange(begin, end))
        waiting = {name: np.concatenate([waiting.get(name, column[:0]), column]) for name, column in block.items()}
        order = np.lexsort((waiting["order"], waiting["request_id"], waiting["user_id"], waiting["time_ns"]))
        waiting = {name: column[order] for name, column in waiting.items()}
        ready = np.searchsorted(waiting["time_ns"], requests.time_ns[end]) if end < count else len(order)
        yield keys.assign({name: column[:ready] for name, column in waiting.items()})
        waiting = {name: column[ready:] for name, column in waiting.items()}


def _expand(recipe: Recipe, requests: Requests, r: Ints) -> Columns:
    """The ops of requests `r`, step by step as in the format's specification; objects not yet named by keys.

    Objects: shared prompts first, then one per request.
    """
    prompts = np.array(recipe.prefix.tokens, np.int64)
    has_prefix = (requests.prefix[r] >= 0).astype(np.int64)
    previous = requests.turn[r] - 1
    history = previous if recipe.history == "all" else np.minimum(previous, 1)
    generated = requests.generated[r]
    decodes = (generated > 0) & (
        (requests.context[r] <= recipe.decode_max_context) if recipe.decode_max_context else True
    )
    # One read loads the object, then one read per batch of generated tokens.
    decode = np.where(decodes, 1 + -(-generated // recipe.decode_batch), 0)
    counts = has_prefix + history + 1 + decode
    i = np.repeat(np.arange(len(r)), counts)
    order = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
    in_history = order - has_prefix[i]
    in_decode = in_history - history[i] - 1
    is_prefix, is_decode = in_history < 0, in_decode >= 0
    is_history = ~is_prefix & (in_history < history[i])
    own = r[i]
    past = requests.first[own] + np.where(is_history, previous[i] - history[i] + in_history, 0)
    source_request = np.where(is_history, requests.by_turn[past], own)
    batch_tokens = np.minimum(recipe.decode_batch, generated[i] - (in_decode - 1) * recipe.decode_batch)
    alone = ~is_prefix & ~is_history & (decode[i] == 0)  # the write, where no decode op follows it
    is_batch = in_decode > 0
    step_of_write = has_prefix + (history > 0)
    return {
        "time_ns": requests.time_ns[own]
        + np.where(is_batch, (in_decode - 1) * recipe.decode_batch, 0) * _token_ns(recipe),
        "request_id": own,
        "session_id": requests.session[own],
        "user_id": requests.user[own],
        "turn": requests.turn[own].astype(np.int32),
        "step": np.where(is_prefix, 0, np.where(is_history, has_prefix[i], step_of_write[i] + in_decode + 1)).astype(
            np.int32
        ),
        "qos": requests.qos[own].astype(np.uint8),
        "phase": np.where(is_decode, DECODE, PREFILL).astype(np.uint8),
        "op": np.where(is_decode | is_history, READ, WRITE).astype(np.uint8),
        "source": np.where(is_prefix, SYSTEM, np.where(is_history, MULTI_TURN, USER)).astype(np.uint8),
        "object": np.where(is_prefix, requests.prefix[own], len(prompts) + source_request),
        "tokens": np.where(
            is_prefix, np.append(prompts, 0)[requests.prefix[own]], requests.context[source_request]
        ).astype(np.int32),
        "new_tokens": np.where(is_batch, batch_tokens, np.where(alone, generated[i], 0)).astype(np.int32),
        "think_ns": np.where(order == 0, requests.think_ns[own], 0),
        "order": order,
    }


class _Keys:
    """Names objects 0, 1, … in order of first appearance; a shared object's first op is its write, the rest read."""

    def __init__(self, objects: int) -> None:
        self._key_of = np.full(objects, -1, np.int64)
        self._next_key = self._next_op = 0

    def assign(self, batch: dict[str, NDArray[np.int64]]) -> Columns:
        objects, op = batch.pop("object"), batch.pop("op")
        del batch["order"]
        # Only writes can be first: a turn's object is written before it is read.
        rows = np.flatnonzero((op == WRITE) & (self._key_of[objects] < 0))
        rows = np.sort(rows[np.unique(objects[rows], return_index=True)[1]])
        self._key_of[objects[rows]] = self._next_key + np.arange(len(rows))
        self._next_key += len(rows)
        op = np.full(len(op), READ, np.uint8)
        op[rows] = WRITE
        op_id = self._next_op + np.arange(len(op))
        self._next_op += len(op)
        return batch | {"op_id": op_id, "op": op, "key": self._key_of[objects]}
