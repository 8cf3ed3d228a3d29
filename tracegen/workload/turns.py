"""Turns on their way to requests: who asks when, and which objects each turn touches."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tracegen.arrays import Ints

NEVER_NS = 2**62
"""A time, session or object number beyond all that occur."""


@dataclass(frozen=True, slots=True)
class ObjectRanges:
    """Ranges of consecutive objects, some per row."""

    first: Ints  # first object of each range, shape (rows, ranges)
    count: Ints  # objects in it, shape (rows, ranges); an absent range has 0

    @classmethod
    def stack(cls, *columns: tuple[Ints, Ints]) -> Self:
        """Return ranges of (first, count) columns, shape (rows,) each."""
        first = np.stack([first for first, _ in columns], axis=1)
        return cls(first, np.stack([count for _, count in columns], axis=1))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the ranges of all parts next to one another."""
        first = np.concatenate([part.first for part in parts], axis=1)
        return cls(first, np.concatenate([part.count for part in parts], axis=1))

    def take(self, rows: Ints) -> Self:
        """Return the ranges of these rows."""
        return type(self)(self.first[rows], self.count[rows])


def no_ranges(rows: int, width: int = 0) -> ObjectRanges:
    """Return `width` empty ranges per row."""
    zeros = np.zeros((rows, width), np.int64)
    return ObjectRanges(zeros, zeros.copy())


@dataclass(frozen=True, slots=True)
class Turns:
    """Some turns of sessions; columns have shape (turns,) unless said."""

    time_ns: Ints  # start of the turn
    think_ns: Ints  # pause before it
    user: Ints  # the recipe's number of the user; documents are the first users
    session: Ints  # the recipe's number of the session, from 0; those of documents are negative
    turn: Ints  # place in the session, from 0
    slot: Ints  # place of the session in the order in which a schedule takes sessions
    qos: Ints  # code of the class of service, as in `ENUMS`
    generated: Ints  # tokens
    is_decoded: NDArray[np.bool_]  # whether decoding reads the turn's own objects back
    is_retrieval: NDArray[np.bool_]  # whether the turn retrieves chunks of documents
    is_document: NDArray[np.bool_]  # whether the turn ingests a document
    session_first: Ints  # lowest object of the session
    # ranges of the objects that it touches and saves, shape (turns, ranges); the kinds of the ranges depend on the
    # recipe only
    first: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.time_ns)

    def take(self, rows: Ints | slice) -> Self:
        """Return these rows."""
        return type(self)(*(getattr(self, name)[rows] for name in _COLUMNS))

    def sort(self) -> Self:
        """Return the turns by (time, user, session)."""
        return self.take(np.lexsort((self.session, self.user, self.time_ns)))

    @classmethod
    def zeros(cls, rows: int, objects: ObjectRanges) -> Self:
        """Return turns of zeros that touch these objects."""
        columns: dict[str, NDArray[Any]] = {name: np.zeros(rows, np.int64) for name in _COLUMNS}
        columns |= {name: np.zeros(rows, np.bool_) for name in _COLUMNS if name.startswith("is_")}
        return cls(**columns | {"first": objects.first, "count": objects.count})

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one part after another."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS))


_COLUMNS = tuple(column.name for column in fields(Turns))
