"""Sessions of turns with token counts: what every source of a workload yields."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tracegen.arrays import Ints, ranges
from tracegen.draws import Purpose, choose, draw
from tracegen.recipes.recipe import Recipe
from tracegen.trace.metadata import SourceFile


@dataclass(frozen=True)
class Sessions:
    """Some sessions; columns of turns go session by session."""

    turns: Ints  # turns per session, shape (sessions,)
    context: Ints  # tokens that the turn prefills, without history, shape (turns,)
    generated: Ints  # tokens that the turn generates, shape (turns,)
    pause_ns: Ints  # think time before the turn, shape (turns,)


@dataclass(frozen=True)
class Origin:
    """The origin of a source's sessions, for a trace's metadata."""

    files: list[SourceFile] = field(default_factory=list)  # name, sha256 and licence of each file
    counts: dict[str, int] = field(default_factory=dict)  # entries that were read, mended and dropped, by name


class Source(Protocol):
    """A pure function of session and user numbers."""

    count: int | None  # number of sessions; None without an end
    contains_prefix: bool  # whether a turn's context already contains the session's shared prompt
    retrieves: float | None  # share of the requests that retrieve chunks of documents; None for the recipe's
    origin: Origin  # its files and counts

    def sessions(self, number: Ints, user: Ints) -> Sessions:
        """Return the sessions of these numbers, of these users; both shape (sessions,)."""


def draw_sessions(recipe: Recipe, sources: Sequence[Source], number: Ints) -> tuple[Ints, Sessions]:
    """Draw sessions, each from the source of its user; sources are in the order of `recipe.weights`.

    Return the index of each session's source, shape (sessions,), and the sessions.
    """
    user = number % recipe.users
    bits = draw(recipe.seed, Purpose.SOURCE, user)
    source = choose(bits, list(recipe.weights.values()))
    if len(sources) == 1:
        return source, sources[0].sessions(number, user)
    rows = [np.flatnonzero(source == index) for index in range(len(sources))]
    parts = [
        (chosen, drawn_from.sessions(number[chosen], user[chosen]))
        for chosen, drawn_from in zip(rows, sources, strict=True)
        if len(chosen)
    ]
    return source, _interleave(parts, len(number))


def _interleave(parts: Sequence[tuple[Ints, Sessions]], count: int) -> Sessions:
    """Put `count` sessions of several sources in one order: parts are the rows of each source's, and they."""
    turns = np.zeros(count, np.int64)
    for rows, sessions in parts:
        turns[rows] = sessions.turns
    first = np.cumsum(turns) - turns
    places = np.concatenate([ranges(first[rows], sessions.turns) for rows, sessions in parts])
    columns = []
    for name in ("context", "generated", "pause_ns"):
        column = np.empty(len(places), np.int64)
        column[places] = np.concatenate([getattr(sessions, name) for _, sessions in parts])
        columns.append(column)
    return Sessions(turns, *columns)
