"""Requests of turns: the objects that each touches, step by step.

The steps of prefill are: shared prompt, common phrase, history, retrieved chunks, the turn's own
objects. A step without objects is left out. Objects of generated tokens are saved after decoding.
"""

from typing import Final, NamedTuple

import numpy as np

from tracegen.arrays import IdTable, Ints, ranges
from tracegen.schema import COMMON, MULTI_TURN, RAG, SYSTEM, USER
from tracegen.workload.requests import Requests
from tracegen.workload.shared_objects import Corpus
from tracegen.workload.turns import ObjectRanges, Turns

_OWN: Final = 4
_SAVED: Final = 5


class _Kind(NamedTuple):
    """One kind of objects that requests touch: their ranges, source and step."""

    ranges: ObjectRanges
    source: int
    step: int


def make_requests(
    turns: Turns,
    corpus: Corpus | None,
    tokens: IdTable,
    *,
    session: Ints,
    user: Ints,
    live: int,
) -> Requests:
    """Make a request of each turn.

    Args:
        turns: in order of (time, user, session).
        corpus: draws the chunks of turns that retrieve.
        tokens: of every object.
        session: dense ids, shape (turns,).
        user: dense ids, shape (turns,).
        live: no later turn touches an unshared object below this number.
    """
    kinds = _list_kinds(turns, corpus)
    first = np.concatenate([kind.ranges.first for kind in kinds], axis=1)
    count = np.concatenate([kind.ranges.count for kind in kinds], axis=1)
    widths = [kind.ranges.first.shape[1] for kind in kinds]
    step = np.repeat([kind.step for kind in kinds], widths)
    source = np.broadcast_to(
        np.repeat([kind.source for kind in kinds], widths).astype(np.uint8),
        first.shape,
    )
    if turns.is_document.any():
        source = np.where(turns.is_document[:, None] & (step == _OWN), np.uint8(RAG), source)
    flat_count = count.ravel()
    objects = ranges(first.ravel(), flat_count)
    return Requests(
        time_ns=turns.time_ns,
        think_ns=turns.think_ns,
        user=user,
        session=session,
        turn=turns.turn + 1,
        qos=turns.qos,
        generated=turns.generated,
        is_decoded=turns.is_decoded,
        is_decode=np.zeros(len(turns), np.bool_),
        touch_count=count[:, step <= _OWN].sum(axis=1),
        own_count=count[:, step == _OWN].sum(axis=1),
        saved_count=count[:, step == _SAVED].sum(axis=1),
        object=objects,
        source=np.repeat(source.ravel(), flat_count),
        step=np.repeat(_leave_out_steps(count, step).ravel(), flat_count),
        tokens=tokens[objects],
        live=live,
    )


def _list_kinds(turns: Turns, corpus: Corpus | None) -> list[_Kind]:
    """List the kinds of objects in the order in which requests touch them."""
    kinds = [
        _Kind(ObjectRanges(turns.prompt_first, turns.prompt_count), SYSTEM, 0),
        _Kind(ObjectRanges(turns.phrase_first, turns.phrase_count), COMMON, 1),
        _Kind(ObjectRanges(turns.history_first, turns.history_count), MULTI_TURN, 2),
        _Kind(ObjectRanges(turns.own_first, turns.own_count), USER, _OWN),
        _Kind(ObjectRanges(turns.saved_first, turns.saved_count), USER, _SAVED),
    ]
    if corpus is not None and turns.is_retrieval.any():
        kinds.insert(3, _Kind(_retrieve(turns, corpus), RAG, 3))
    return kinds


def _retrieve(turns: Turns, corpus: Corpus) -> ObjectRanges:
    """Return the chunks of each turn, shape (turns, top_k); ranges of 0 if it retrieves none."""
    rows = np.flatnonzero(turns.is_retrieval)
    chunks = corpus.retrieve(turns.session[rows], turns.turn[rows], turns.time_ns[rows])
    first = np.zeros((len(turns), chunks.first.shape[1]), np.int64)
    count = np.zeros_like(first)
    first[rows] = chunks.first
    count[rows] = chunks.count
    return ObjectRanges(first, count)


def _leave_out_steps(count: Ints, step: Ints) -> Ints:
    """Return the step of each range, shape as `count`, after steps without objects are left out.

    Args:
        count: objects in each range, shape (turns, ranges).
        step: step of each range, shape (ranges,).
    """
    steps = range(_OWN + 1)
    present = np.stack([(count[:, step == number] > 0).any(axis=1) for number in steps], axis=1)
    number: Ints = np.cumsum(present, axis=1) - present
    return number[:, np.minimum(step, _OWN)]
