"""Interleaved rounds over all cells: noise that lasts a while then meets all of them alike."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple

from replayer.profiling.cells import Cell, Measured, Phases, Rounds, Visits, measure_visits, name_size
from replayer.profiling.rig import Rig
from replayer.profiling.tier_fit import DIRECTIONS, JUDGED_BYTES, SUSTAINED_BYTES
from replayer.record.conditions import Tier
from tracegen.errors import ToolError

# Takes what is measured now, the runs that are done, and all of them
ShowRun = Callable[[str, int, int], object]
# Bytes of objects: 64 KiB to 64 MiB
SIZES: Final = tuple(1 << power for power in (16, 18, 20, 22, 24, 26))
WORKERS: Final = (1, 2, 4, 8, 16, 32, 64)
# Of short phases rather than fewer of longer ones: what disturbs a machine often lasts seconds
ROUNDS: Final = 5
DRIVE: Final = "nvme"
_FEWEST_ROUNDS: Final = 2
_PILOT: Final = Phases(24, 48, 24)
_PHASES: Final = 3.5  # of a cell, in units of one phase's time; removals are short
_PHASE_S: Final = (0.02, 0.25)  # the shortest and the longest time of a phase
_MOST_OF_BUDGET: Final = 1.25  # a round that would end later is left out
_LONGEST_SHARE: Final = 40  # of the budget: cells with a phase longer than 1 in 40 are left out
_SPARE_OPS: Final = 6
_LONGEST_DRAIN: Final = 4.0  # ops of a phase for each op of the one before that is in flight
_SUSTAINED_SHARE: Final = 1 / 12  # of the budget, for each direction
_SUSTAINED_WORKERS: Final = 16
_SUSTAINED_RUNS: Final = 4  # of a direction, about; the last one counts


class Seconds(NamedTuple):
    """The time per op of a cell's phases."""

    write: float
    read: float
    mixed: float


def guess_seconds(known: Mapping[Cell, Seconds], cell: Cell) -> Seconds | None:
    """Return the times of a cell: its own, or those of the nearest that cannot be faster.

    That is the cell with the same size and fewer workers, else the one with smaller objects.
    """
    others = [one for one in known if one.tier == cell.tier and one.bytes <= cell.bytes]
    slower = [one for one in others if one.bytes < cell.bytes or one.workers <= cell.workers]
    if not slower:
        return None
    near = max(slower, key=lambda one: (one.bytes, one.workers <= cell.workers, one.workers))
    return Seconds(*(seconds * cell.bytes / near.bytes for seconds in known[near]))


def choose_phase_s(budget_s: float, cells: int) -> float:
    """Return the time of a phase with which all rounds of these cells take the budget."""
    low, high = _PHASE_S
    return min(high, max(low, budget_s / _PHASES / (ROUNDS * cells)))


def choose_phases(cell: Cell, guess: Seconds, room: int, phase_s: float, budget_s: float) -> Phases | None:
    """Return how many ops a cell gets; None: it needs too much room or time, and is left out.

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
        return None
    objects = _clip(phase_s / guess.write, least, most - least_mixed // 2)
    mixed = _clip(phase_s / guess.mixed, least_mixed, 2 * (most - objects)) // 2 * 2
    least_reads = _count_least(cell.workers, guess.write / guess.read)
    reads = _clip(phase_s / guess.read, least_reads, 1 << 20)
    longest_s = max(objects * guess.write, reads * guess.read, mixed * guess.mixed)
    return None if longest_s > budget_s / _LONGEST_SHARE else Phases(objects, reads, mixed)


def _count_least(workers: int, drain: float) -> int:
    """Return the ops that a phase must have, an even number.

    Besides those that are made while the phase before drains (`drain` for each op in flight), those
    that are in flight then, and those that are in flight when the next phase begins, each worker
    should make one that counts.
    """
    return 2 * round((workers * (min(_LONGEST_DRAIN, drain) + 3) + _SPARE_OPS) / 2)


def _clip(number: float, low: int, high: int) -> int:
    return int(min(max(number, low), high))


class Findings(NamedTuple):
    """All that was measured.

    Attributes:
        rounds: what each run of each cell measured; cells that were left out of all are absent.
        sustained: the visits that the nvme tier keeps up, by direction; empty: not measured.
    """

    rounds: Rounds
    sustained: Mapping[str, Visits]


class CellSeries:
    """The runs of a profile.

    Args:
        rig: the open tiers.
        room: bytes that objects may take, by tier.
        budget_s: seconds that all runs should take.
        progress: is told before each run.
    """

    def __init__(self, rig: Rig, room: Mapping[Tier, int], budget_s: float, progress: ShowRun) -> None:
        self._rig = rig
        self._room = room
        self._budget_s = budget_s
        self._progress = progress
        self._known = dict[Cell, Seconds]()
        self._rounds = defaultdict[Cell, list[Measured]](list)

    def measure(self) -> Findings:
        """Make all runs.

        Raises:
            ToolError: a move failed, or the budget is too short for a tier.
        """
        kinds = itertools.product(SIZES, WORKERS, self._room)
        cells = [Cell(tier, size, workers) for size, workers, tier in kinds]
        short_s = self._budget_s * (1 - len(DIRECTIONS) * _SUSTAINED_SHARE * (DRIVE in self._room))
        phase_s = choose_phase_s(short_s, len(cells))
        self._pilot()  # the first runs also meet cold caches: those of the first round count
        self._known.clear()
        began = monotonic()
        ended = 0.0
        for number in range(ROUNDS):
            lasted, ended = monotonic() - began - ended, monotonic() - began
            if number >= _FEWEST_ROUNDS and ended + lasted > self._budget_s * _MOST_OF_BUDGET:
                break
            self._pilot()
            for at, cell in enumerate(cells):
                self._progress(str(cell), number * len(cells) + at, ROUNDS * len(cells))
                self._run(cell, phase_s)
        for tier in self._room:
            self._require_cells(tier)
        self._progress("nvme, sustained", ROUNDS * len(cells), ROUNDS * len(cells))
        return Findings(self._rounds, self._sustain())

    def _pilot(self) -> None:
        """Run the smallest cell of each tier without known times; no other can be faster."""
        for tier in self._room:
            cell = Cell(tier, SIZES[0], 1)
            if guess_seconds(self._known, cell) is None:
                self._measure(cell, _PILOT)

    def _run(self, cell: Cell, phase_s: float) -> None:
        """Measure a cell, unless it has too little room or time in this round."""
        guess = guess_seconds(self._known, cell)
        phases = None
        if guess is not None:
            phases = choose_phases(cell, guess, self._room[cell.tier], phase_s, self._budget_s)
        if phases is None:
            # What it took may have been disturbed: the next round guesses anew from other cells.
            self._known.pop(cell, None)
        else:
            self._rounds[cell].append(self._measure(cell, phases))

    def _measure(self, cell: Cell, phases: Phases) -> Measured:
        measured = measure_visits(cell, phases, self._rig.run(cell, phases))
        mixed_per_s = measured["mixed read"].per_s + measured["mixed write"].per_s
        rates = (measured["write"].per_s, measured["read"].per_s, mixed_per_s)
        self._known[cell] = Seconds(*(1 / rate for rate in rates))
        return measured

    def _require_cells(self, tier: Tier) -> None:
        """Refuse a tier without what its fit and its error need: lone workers, judged sizes.

        There is always room for them, so that they lack time.
        """
        low, high = JUDGED_BYTES
        alone = [cell for cell in self._rounds if cell.tier == tier and cell.workers == 1]
        if not any(low <= cell.bytes <= high for cell in alone):
            sizes = f"{name_size(low)} to {name_size(high)}"
            problem = f"{self._budget_s:g} s leaves no cells of {sizes} with one worker"
            raise ToolError(problem, "pass a larger `budget`", subject=tier)

    def _sustain(self) -> dict[str, Visits]:
        """Measure what the nvme tier keeps up after the rounds, which use up its credit."""
        cells = [one for one in self._rounds if one.workers <= _SUSTAINED_WORKERS]
        same = [one for one in cells if (one.tier, one.bytes) == (DRIVE, SUSTAINED_BYTES)]
        if not same:
            return {}
        cell = max(same, key=lambda one: one.workers)
        short = self._rounds[cell][-1]
        return {what: self._repeat(cell, what, 1 / short[what].per_s) for what in ("write", "read")}

    def _repeat(self, cell: Cell, what: str, per_op_s: float) -> Visits:
        """Repeat one direction until it has lasted long enough, and return the last run's visits.

        Each run is as long as the one before suggests. What is written is removed, and what is read
        is written, between runs.
        """
        lasting_s = self._budget_s * _SUSTAINED_SHARE
        fewest, most = 4 * cell.workers, self._room[cell.tier] // cell.bytes
        spent_s = 0.0
        while True:
            ops = max(fewest, int(lasting_s / _SUSTAINED_RUNS / per_op_s))
            written, reads = (max(fewest, ops // 4), ops) if what == "read" else (ops, 0)
            phases = Phases(min(written, most), reads, 0)
            records = self._rig.run(cell, phases)
            ids = phases.ranges()[what]
            rows = records[ids.start : ids.stop]
            took_s = float(rows["end_ns"].max() - rows["start_ns"].min()) / 1e9
            spent_s += took_s
            per_op_s = took_s / len(ids)
            if spent_s >= lasting_s:
                return measure_visits(cell, phases, records)[what]
