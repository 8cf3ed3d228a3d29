"""Moves of a plan: their codes, and the arrays in which compiled code gives them."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from replayer.record.columns import MOVES
from replayer.record.options import TIERS

# The codes are places in MOVES and TIERS, as in core.h and in the log.
HIT, STORE, MISS, DEMOTE, PROMOTE, DROP, BYPASS, DELETE, COPY = range(len(MOVES))
GPU, CPU, NVME = range(len(TIERS))


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive ops of a plan with their moves; the arrays are valid until the next stretch.

    Attributes:
        ops: row, role and number of moves of each op, as PLANNED_OP; shape (ops,).
        moves: the moves of all these ops, as PLANNED; shape (moves,).
    """

    ops: NDArray[Any]
    moves: NDArray[Any]
