"""The fingerprint of a plan."""

import hashlib
import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HASHED_AT_ONCE: Final = 512  # moves hashed before this thread lets waiting workers run


class PlanHash:
    """The fingerprint of a plan: SHA-256 over its version and the columns of every move.

    Attributes:
        checkpoints: the digests of blocks 0 … i of 65,536 positions each, by i.
    """

    def __init__(self, version: int) -> None:
        self._hash = hashlib.sha256(version.to_bytes(8, "little"))
        self.checkpoints: list[str] = []

    def update(self, rows: NDArray[np.int64], blocks: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Add ops in plan order.

        Args:
            rows: seven columns per move, shape (moves, 7).
            blocks: block of each op, ascending; shape (ops,).
            ends: index in `rows` after the last move of each op, shape (ops,).
        """
        begin = 0
        starts = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist()]
        for first, last in zip(starts, [*starts[1:], len(blocks)], strict=True):
            # A block without ops has the digest of the one before.
            while len(self.checkpoints) < blocks[first]:
                self.checkpoints.append(self._hash.hexdigest())
            end = int(ends[last - 1])
            self._hash.update(rows[begin:end].data)
            begin = end

    def add(self, rows: NDArray[np.int64]) -> None:
        """Add moves without checkpoints, shape (moves, 7); yields the CPU to waiting workers."""
        whole = np.ascontiguousarray(rows)
        for begin in range(0, len(whole), _HASHED_AT_ONCE):
            self._hash.update(whole[begin : begin + _HASHED_AT_ONCE].data)
            os.sched_yield()

    def hexdigest(self) -> str:
        """Return the fingerprint of the plan so far."""
        return self._hash.hexdigest()
