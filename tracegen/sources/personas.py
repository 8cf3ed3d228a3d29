"""Synthetic users as in MLCommons' kv-cache.py: lengths and pace per user, turns around them."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tracegen.arrays import Ints, positions, to_ns
from tracegen.draws import Purpose, between, choose, draw
from tracegen.recipes.recipe import Recipe, UserKind
from tracegen.sources.sessions import Origin, Sessions


class PersonaSource:
    """An endless source of sessions of several kinds of user, with a weight each."""

    count: int | None = None
    retrieves: float | None

    def __init__(
        self,
        recipe: Recipe,
        kinds: Sequence[UserKind],
        weights: Sequence[int] = (1,),
        *,
        contains_prefix: bool = True,
        retrieves: float | None = None,
    ) -> None:
        self.contains_prefix = contains_prefix
        self.retrieves = retrieves
        self.origin = Origin()
        self._seed = recipe.seed
        self._growth = recipe.context_growth
        self._weights = weights
        self._turn_weights = [_weigh_turns(kind) for kind in kinds]
        # Lower and upper limits by kind, shape (2, kinds).
        self._limits = {
            name: np.array([getattr(kind, name) for kind in kinds], np.int64).T
            for name in ("context", "generation", "question")
        }
        self._think_ns = np.array([[to_ns(limit) for limit in kind.think_s] for kind in kinds], np.int64).T

    def sessions(self, number: Ints, user: Ints) -> Sessions:
        """Return the sessions of these numbers, of these users; both shape (sessions,)."""
        users, user_row = np.unique(user, return_inverse=True)
        kind = choose(draw(self._seed, Purpose.PERSONA, users), self._weights)
        context = between(draw(self._seed, Purpose.USER_CONTEXT, users), *self._limits["context"][:, kind])
        generation = between(draw(self._seed, Purpose.USER_GENERATION, users), *self._limits["generation"][:, kind])
        think_ns = between(draw(self._seed, Purpose.USER_THINK, users), *self._think_ns[:, kind])
        turns = self._count_turns(number, kind[user_row])
        session = np.repeat(number, turns)
        row = np.repeat(user_row, turns)
        turn = positions(turns)
        low = _quarter(context)[row]
        high = context[row]
        if self._growth:
            question = self._limits["question"][:, kind[row]]
            low = np.where(turn > 0, question[0], low)
            high = np.where(turn > 0, question[1], high)
        generation_bits = draw(self._seed, Purpose.GENERATION, session, turn)
        return Sessions(
            turns=turns,
            context=between(draw(self._seed, Purpose.CONTEXT, session, turn), low, high),
            generated=between(generation_bits, _quarter(generation)[row], generation[row]),
            pause_ns=think_ns[row],
        )

    def _count_turns(self, number: Ints, kind: Ints) -> Ints:
        bits = draw(self._seed, Purpose.TURNS, number)
        turns = np.ones(len(number), np.int64)
        for index, weights in enumerate(self._turn_weights):
            rows = np.flatnonzero(kind == index)
            turns[rows] = 1 + choose(bits[rows], weights)
        return turns


def _quarter(values: Ints) -> Ints:
    """Return a quarter of each value, rounded up."""
    return -(-values // 4)


def _weigh_turns(kind: UserKind) -> list[int]:
    """Return integer weights of 1 … max_turns turns, a geometric law; their sum is 2^62."""
    continues = Fraction(str(kind.continues))
    weights = [int(2**62 * continues**turn * (1 - continues)) for turn in range(kind.max_turns - 1)]
    return [*weights, 2**62 - sum(weights)]
