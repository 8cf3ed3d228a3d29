"""Clients that talk in rounds: in which round does their cache stop fitting a pool?"""

from dataclasses import dataclass

import numpy as np

from replayer.models.geometry import TokenBytes


@dataclass(frozen=True)
class Rounds:
    """A conversation benchmark: in each round, each client adds a turn and reads all before it.

    Attributes:
        clients: number of clients.
        rounds: number of rounds.
        tokens: tokens that a turn adds to its client's cache.
    """

    clients: int
    rounds: int
    tokens: int

    def working_sets(self, sizes: TokenBytes) -> list[int]:
        """Return the bytes of all turns so far at the end of each round, from the first on."""
        turn = int(sizes.object_bytes(np.array([self.tokens]))[0])
        return [self.clients * number * turn for number in range(1, self.rounds + 1)]

    def first_above(self, sizes: TokenBytes, pool_bytes: int) -> int | None:
        """Return the first round, from 1 on, whose working set is larger; None: none is."""
        for number, size in enumerate(self.working_sets(sizes), 1):
            if size > pool_bytes:
                return number
        return None

    def clients_that_fit(self, sizes: TokenBytes, pool_bytes: int) -> int:
        """Return the number of clients whose rounds all fit the pool."""
        return pool_bytes // (self.working_sets(sizes)[-1] // self.clients)
