"""The cells that are measured, and how many ops each gets: what fits the room and the time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from replayer.profiling.made_trace import Phases
from replayer.profiling.visits import Cell, Measured
from replayer.record.run_info import Tier

SIZES: Final = tuple(1 << power for power in (16, 18, 20, 22, 24, 26))
"""Bytes of objects: 64 KiB to 64 MiB."""
WORKERS: Final = (1, 2, 4, 8, 16, 32, 64)
ROUNDS: Final = 5
"""Of short phases rather than fewer of longer ones: what disturbs a machine often lasts seconds."""
PILOT: Final = Phases(24, 48, 24)
_PHASES: Final = 3.5  # of a cell, in units of one phase's time; removals are short
_PHASE_S: Final = (0.02, 0.25)  # the shortest and the longest time of a phase
_LONGEST_SHARE: Final = 40  # of the budget: cells with a phase longer than 1 in 40 are left out
_SPARE_OPS: Final = 6
_LONGEST_DRAIN: Final = 4.0  # ops of a phase for each op of the one before that is in flight


@dataclass(frozen=True)
class Seconds:
    """The time per op of each phase.

    Attributes:
        write: of the first phase.
        read: of the second.
        mixed: of the third.
        remove: of the last.
    """

    write: float
    read: float
    mixed: float
    remove: float

    @classmethod
    def of(cls, measured: Measured) -> "Seconds":
        """Return the times that a run of a cell took."""
        mixed_per_s = measured["mixed read"].per_s + measured["mixed write"].per_s
        write, read, remove = (measured[what].per_s for what in ("write", "read", "remove"))
        return cls(*(1 / rate for rate in (write, read, mixed_per_s, remove)))

    def scale(self, factor: float) -> "Seconds":
        """Return the times of larger objects, or of slower tiers."""
        return Seconds(self.write * factor, self.read * factor, self.mixed * factor, self.remove)


class Estimates:
    """The times per op that are known so far, by cell."""

    def __init__(self) -> None:
        self._known = dict[Cell, Seconds]()

    def note(self, cell: Cell, measured: Measured) -> None:
        """Keep what a run of a cell took."""
        self._known[cell] = Seconds.of(measured)

    def forget(self, cells: Iterable[Cell]) -> None:
        """Forget what cells took."""
        for cell in cells:
            self._known.pop(cell, None)

    def guess(self, cell: Cell) -> Seconds | None:
        """Return the times of a cell: its own, or those of the nearest that cannot be faster.

        That is the cell with the same size and fewer workers, else the one with smaller objects.
        """
        same = [one for one in self._known if one.tier == cell.tier and one.bytes == cell.bytes]
        fewer = [one for one in same if one.workers <= cell.workers]
        if fewer:
            return self._known[max(fewer, key=lambda one: one.workers)]
        smaller = [one for one in self._known if one.tier == cell.tier and one.bytes < cell.bytes]
        if not smaller:
            return None
        near = max(smaller, key=lambda one: (one.bytes, one.workers <= cell.workers, one.workers))
        return self._known[near].scale(cell.bytes / near.bytes)


def list_cells(tiers: tuple[Tier, ...]) -> list[Cell]:
    """Return all cells, those of the tiers in turn."""
    return [Cell(tier, size, workers) for size in SIZES for workers in WORKERS for tier in tiers]


def choose_phase_s(budget_s: float, cells: int) -> float:
    """Return the time of a phase with which all rounds take the budget.

    Args:
        budget_s: for all of them.
        cells: of a round.
    """
    low, high = _PHASE_S
    return min(high, max(low, budget_s / _PHASES / (ROUNDS * cells)))


def choose_phases(
    cell: Cell,
    guess: Seconds,
    room: int,
    phase_s: float,
    budget_s: float,
) -> Phases | str:
    """Return how many ops a cell gets, or why it is left out.

    Args:
        cell: the cell.
        guess: its time per op.
        room: bytes that its objects may take.
        phase_s: seconds that each phase should take.
        budget_s: for all runs.
    """
    least = _count_least(cell.workers, 0.0)
    least_mixed = _count_least(cell.workers, guess.read / guess.mixed)
    most = room // cell.bytes
    if least + least_mixed // 2 > most:
        return "room"
    objects = _clip(phase_s / guess.write, least, most - least_mixed // 2)
    mixed = _clip(phase_s / guess.mixed, least_mixed, 2 * (most - objects)) // 2 * 2
    least_reads = _count_least(cell.workers, guess.write / guess.read)
    phases = Phases(objects, _clip(phase_s / guess.read, least_reads, 1 << 20), mixed)
    longest_s = max(guess.write * objects, guess.read * phases.reads, guess.mixed * mixed)
    if longest_s > budget_s / _LONGEST_SHARE:
        return "time"
    return phases


def _count_least(workers: int, drain: float) -> int:
    """Return the ops that a phase must have, an even number.

    Besides those that are made while the phase before drains, those that are in flight then, and
    those that are in flight when the next phase begins, each worker should make one that counts.

    Args:
        workers: of the cell.
        drain: ops of this phase that are made meanwhile, for each that drains.
    """
    ops = workers * (min(_LONGEST_DRAIN, drain) + 3) + _SPARE_OPS
    return 2 * round(ops / 2)


def _clip(number: float, low: int, high: int) -> int:
    return int(min(max(number, low), high))
