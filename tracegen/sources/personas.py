"""Synthetic users in the manner of MLCommons' kv-cache.py: lengths and pace drawn once per user, turns around them."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tracegen.arrays import Ints
from tracegen.randomness.draws import Purpose, between, choose, draw
from tracegen.recipe.recipe import Person, Recipe
from tracegen.sources.sessions import Origin, Sessions
from tracegen.times import to_ns


class Personas:
    """An endless source of users of several kinds."""

    count: int | None = None
    retrieves: float | None

    def __init__(
        self,
        recipe: Recipe,
        kinds: Sequence[Person],
        weights: Sequence[int] = (1,),
        *,
        contains_prefix: bool = True,
        retrieves: float | None = None,
    ) -> None:
        self.contains_prefix, self.retrieves, self.origin = contains_prefix, retrieves, Origin()
        self._seed, self._growth = recipe.seed, recipe.context_growth
        self._weights = weights
        self._lengths = [_turn_weights(kind) for kind in kinds]
        self._ranges = {
            name: np.array([getattr(kind, name) for kind in kinds], np.int64).T
            for name in ("context", "generation", "question")
        }
        self._think = np.array([[to_ns(limit) for limit in kind.think_s] for kind in kinds], np.int64).T

    def sessions(self, number: Ints, user: Ints) -> Sessions:
        """The sessions of these numbers, had by these users; shapes (sessions,)."""
        people, who = np.unique(user, return_inverse=True)
        kind = choose(draw(self._seed, Purpose.PERSONA, people), self._weights)
        context, generation = (
            between(draw(self._seed, purpose, people), *self._ranges[name][:, kind])
            for purpose, name in ((Purpose.USER_CONTEXT, "context"), (Purpose.USER_GENERATION, "generation"))
        )
        think = between(draw(self._seed, Purpose.USER_THINK, people), *self._think[:, kind])
        turns = self._turns(number, kind[who])
        session = np.repeat(number, turns)
        of = np.repeat(who, turns)
        turn = np.arange(len(session)) - np.repeat(np.cumsum(turns) - turns, turns)
        low, high = _quarter(context)[of], context[of]
        if self._growth:
            later = turn > 0
            question = self._ranges["question"][:, kind[of]]
            low, high = np.where(later, question[0], low), np.where(later, question[1], high)
        return Sessions(
            turns=turns,
            context=between(draw(self._seed, Purpose.CONTEXT, session, turn), low, high),
            generated=between(
                draw(self._seed, Purpose.GENERATION, session, turn), _quarter(generation)[of], generation[of]
            ),
            pause_ns=think[of],
        )

    def _turns(self, number: Ints, kind: Ints) -> Ints:
        bits, turns = draw(self._seed, Purpose.TURNS, number), np.ones(len(number), np.int64)
        for k, weights in enumerate(self._lengths):
            rows = np.flatnonzero(kind == k)
            turns[rows] = 1 + choose(bits[rows], weights)
        return turns


def _quarter(values: Ints) -> Ints:
    """A quarter, rounded up: 1 of 1 to 4."""
    return -(-values // 4)


def _turn_weights(kind: Person) -> list[int]:
    """Integer weights of 1 … max_turns turns, in parts of 2^62: a geometric law, its tail on the last."""
    going = Fraction(str(kind.continues))
    weights = [int(2**62 * going**turn * (1 - going)) for turn in range(kind.max_turns - 1)]
    return [*weights, 2**62 - sum(weights)]
