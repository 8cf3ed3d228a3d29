"""Turns on their way to requests: who asks when, and which objects each turn touches."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints

NEVER_NS = 2**62
"""A time, session or object number beyond all that occur."""


@dataclass(frozen=True, slots=True)
class ObjectRanges:
    """Ranges of consecutive objects, some per row.

    Attributes:
        first: first object of each range, shape (rows, ranges).
        count: objects in it, shape (rows, ranges); an absent range has 0.
    """

    first: Ints
    count: Ints


def no_ranges(rows: int) -> ObjectRanges:
    """Return 0 ranges per row."""
    empty = np.zeros((rows, 0), np.int64)
    return ObjectRanges(empty, empty)


class RangeWidths(NamedTuple):
    """Number of ranges per turn, by what they hold."""

    prompt: int
    phrase: int
    history: int
    own: int
    saved: int


@dataclass(frozen=True, slots=True)
class Turns:
    """Some turns of sessions; columns have shape (turns,) unless said.

    Columns `…_first` and `…_count` are an `ObjectRanges` each, shape (turns, ranges). The number of
    ranges depends on the recipe only: a recipe without shared prompts has 0 ranges of them.

    Attributes:
        time_ns: start of the turn.
        think_ns: pause before it.
        user: the recipe's number of the user; documents are the first users.
        session: the recipe's number of the session, from 0; those of documents are negative.
        turn: place in the session, from 0.
        slot: place of the session in the order in which a schedule takes sessions.
        qos: code of the class of service, as in `ENUMS`.
        generated: tokens.
        is_decoded: whether decoding reads the turn's own objects back.
        is_retrieval: whether the turn retrieves chunks of documents.
        is_document: whether the turn ingests a document.
        session_first: lowest object of the session.
        prompt_first, prompt_count: shared prompt, one range per level.
        phrase_first, phrase_count: common phrase, at most one range.
        history_first, history_count: objects of earlier turns, one range.
        own_first, own_count: objects the turn prefills: one range, in a trace of blocks a second
            one for the last, partial block.
        saved_first, saved_count: objects of its generated tokens, ranges as of `own_first`.
    """

    time_ns: Ints
    think_ns: Ints
    user: Ints
    session: Ints
    turn: Ints
    slot: Ints
    qos: Ints
    generated: Ints
    is_decoded: NDArray[np.bool_]
    is_retrieval: NDArray[np.bool_]
    is_document: NDArray[np.bool_]
    session_first: Ints
    prompt_first: Ints
    prompt_count: Ints
    phrase_first: Ints
    phrase_count: Ints
    history_first: Ints
    history_count: Ints
    own_first: Ints
    own_count: Ints
    saved_first: Ints
    saved_count: Ints

    def __len__(self) -> int:
        return len(self.time_ns)

    def take(self, rows: Ints | slice) -> Self:
        """Return these rows."""
        return type(self)(*(getattr(self, name)[rows] for name in _COLUMNS))

    def sort(self) -> Self:
        """Return the turns by (time, user, session)."""
        return self.take(np.lexsort((self.session, self.user, self.time_ns)))

    def counts(self) -> tuple[Ints, ...]:
        """Return the counts of all ranges, except of chunks, in the order of touches."""
        return tuple(getattr(self, name) for name in _COLUMNS if name.endswith("_count"))

    @classmethod
    def zeros(cls, rows: int, widths: RangeWidths) -> Self:
        """Return turns of zeros, with these numbers of ranges."""
        columns: dict[str, NDArray[Any]] = {name: np.zeros(rows, np.int64) for name in _COLUMNS}
        columns |= {name: np.zeros(rows, np.bool_) for name in _COLUMNS if name.startswith("is_")}
        for name, width in widths._asdict().items():
            columns[f"{name}_first"] = np.zeros((rows, width), np.int64)
            columns[f"{name}_count"] = np.zeros((rows, width), np.int64)
        return cls(**columns)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one part after another."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


_COLUMNS = tuple(column.name for column in fields(Turns))
