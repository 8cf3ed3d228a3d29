"""What each request of a recipe touches, line by line: prompt, phrase, history, chunks, its own, what it saves."""

from typing import Final, NamedTuple

import numpy as np

from tracegen.arrays import IdTable, Ints, ranges
from tracegen.recipe.recipe import Recipe
from tracegen.schema import COMMON, MULTI_TURN, RAG, SYSTEM, USER, Columns
from tracegen.workload.objects import Shared
from tracegen.workload.requests import Requests


class Kind(NamedTuple):
    """Objects that a request may touch: the columns of the first and of their number, their source and line."""

    first: str
    number: str
    source: int
    line: int


_OWN: Final = 4
KINDS: Final = (
    Kind("prefix0", "prefixes0", SYSTEM, 0),
    Kind("prefix1", "prefixes1", SYSTEM, 0),
    Kind("prefix2", "prefixes2", SYSTEM, 0),
    Kind("phrase", "phrases", COMMON, 1),
    Kind("history", "histories", MULTI_TURN, 2),
    Kind("retrieves", "", RAG, 3),
    Kind("own", "owns", USER, _OWN),
    Kind("tail", "tails", USER, _OWN),
    Kind("saved", "saves", USER, _OWN + 1),
    Kind("saved_tail", "saved_tails", USER, _OWN + 1),
)


def columns_of(recipe: Recipe) -> list[str]:
    """The columns by which a recipe's turns say what they touch."""
    levels = (1 + bool(recipe.prefix.products) + bool(recipe.prefix.tenants)) * bool(recipe.prefix.share)
    wanted = {
        **{f"prefix{level}": level < levels for level in range(3)},
        "phrase": recipe.common.share,
        "tail": recipe.block_tokens,
        "saved": recipe.save_decode,
        "saved_tail": recipe.save_decode and recipe.block_tokens,
    }
    return [name for kind in KINDS if wanted.get(kind.first, True) for name in (kind.first, kind.number) if name]


def touched(batch: Columns, shared: Shared, tokens: IdTable, session: Ints) -> Requests:
    """Requests as ops are made of them.

    Args:
        batch: turns, with the columns of `columns_of`.
        shared: draws the chunks that a request retrieves.
        tokens: of every object.
        session: dense ids.
    """
    parts: list[tuple[Ints, Ints, Ints | int, int]] = []
    for kind in KINDS:
        if kind.first == "retrieves":
            if batch["retrieves"].any():
                first, count = _retrieved(batch, shared)
                parts += [(first[:, k], count[:, k], RAG, kind.line) for k in range(first.shape[1])]
        elif kind.first in batch:
            source = batch["own_source"] if kind.line == _OWN else kind.source
            parts.append((batch[kind.first], batch[kind.number], source, kind.line))
    first, count = (np.stack([part[k] for part in parts], axis=1) for k in (0, 1))
    source = np.stack([np.broadcast_to(part[2], len(first)) for part in parts], axis=1)
    line = np.array([part[3] for part in parts])
    # A line without objects takes no step.
    present = np.stack([(count[:, line == number] > 0).any(axis=1) for number in range(_OWN + 1)], axis=1)
    steps: Ints = (np.cumsum(present, axis=1) - present)[:, np.minimum(line, _OWN)]
    flat = count.ravel()
    objects = ranges(first.ravel(), flat)
    return Requests(
        time_ns=batch["time_ns"],
        think_ns=batch["think_ns"],
        user=batch["user"],
        qos=batch["qos"],
        generated=batch["generated"],
        session=session,
        turn=batch["turn"] + 1,
        decodes=batch["decodes"] > 0,
        is_decode=np.zeros(len(first), np.bool_),
        touches=count[:, line <= _OWN].sum(axis=1),
        own=count[:, line == _OWN].sum(axis=1),
        saves=count[:, line > _OWN].sum(axis=1),
        object=objects,
        source=np.repeat(source.ravel(), flat).astype(np.uint8),
        step=np.repeat(steps.ravel(), flat),
        tokens=tokens[objects],
    )


def _retrieved(batch: Columns, shared: Shared) -> tuple[Ints, Ints]:
    """First objects and numbers of objects, shape (requests, top_k); 0 where a request retrieves nothing."""
    rows = np.flatnonzero(batch["retrieves"])
    drawn = shared.retrieved(batch["session"][rows], batch["turn"][rows], batch["time_ns"][rows])
    found = np.zeros((2, len(batch["user"]), drawn[0].shape[1]), np.int64)
    found[0, rows], found[1, rows] = drawn
    return found[0], found[1]
