"""Interleaved rounds over all cells: noise that lasts a while then meets all of them alike."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import Final

from replayer.machine.busy_cores import BusyCores
from replayer.profiling.rig import Rig
from replayer.profiling.schedule import (
    PILOT,
    REPEATED,
    REPEATS,
    ROUNDS,
    SIZES,
    Estimates,
    choose_phase_s,
    choose_phases,
    list_cells,
)
from replayer.profiling.visits import Cell, Measured, measure_visits
from replayer.record.run_info import Tier

ShowRun = Callable[[str, int, int], object]
"""Takes what is measured now, the runs that are done, and all of them."""
_MOST_OF_BUDGET: Final = 1.25  # a round that would end later is left out
_FEWEST_ROUNDS: Final = 2
_QUEUE: Final = 4
"""Workers from which moves queue for most tiers."""


@dataclass
class Findings:
    """All that was measured.

    Attributes:
        rounds: what each run of each cell measured.
        repeats: what each run of the repeated cell of a tier measured.
        skipped: why cells were left out: room or time.
        busy: cores that were busy in each run in which moves queued, by tier.
    """

    rounds: dict[Cell, list[Measured]] = field(default_factory=lambda: defaultdict(list))
    repeats: dict[Tier, list[Measured]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[Cell, str] = field(default_factory=dict)
    busy: dict[Tier, list[float]] = field(default_factory=lambda: defaultdict(list))

    def busy_cores(self) -> dict[Tier, float]:
        """Return the median of the cores that were busy while moves queued for a tier."""
        return {tier: round(median(cores), 2) for tier, cores in self.busy.items()}


class CellSeries:
    """The runs of a profile.

    Args:
        rig: the open tiers.
        room: bytes that objects may take, by tier.
        budget_s: seconds that all runs should take.
        progress: is told before each run.
    """

    def __init__(
        self,
        rig: Rig,
        room: Mapping[Tier, int],
        budget_s: float,
        progress: ShowRun,
    ) -> None:
        self._rig = rig
        self._room = room
        self._budget_s = budget_s
        self._progress = progress
        self._estimates = Estimates()
        self._findings = Findings()

    def measure(self) -> Findings:
        """Make all runs.

        Raises:
            ToolError: a move failed.
        """
        tiers = tuple(self._room)
        self._pilot(tiers)
        cells = list_cells(tiers)
        repeats = [Cell(tier, *REPEATED) for tier in tiers]
        phase_s = choose_phase_s(self._budget_s, len(cells), REPEATS * len(tiers))
        began = monotonic()
        ended = 0.0
        for number in range(ROUNDS):
            steps = interleave(cells, repeats, number)
            lasted, ended = monotonic() - began - ended, monotonic() - began
            if number >= _FEWEST_ROUNDS and ended + lasted > self._budget_s * _MOST_OF_BUDGET:
                break
            for at, (cell, is_repeat) in enumerate(steps):
                text = f"{cell.tier} {_format_size(cell.bytes)} × {cell.workers}"
                self._progress(text, number * len(steps) + at, ROUNDS * len(steps))
                self._run(cell, phase_s, is_repeat=is_repeat)
        return self._findings

    def _pilot(self, tiers: tuple[Tier, ...]) -> None:
        """Run the smallest cell of each tier twice: the first run also meets cold caches."""
        for tier in tiers * 2:
            cell = Cell(tier, SIZES[0], 1)
            records = self._rig.run(tier, cell.bytes, cell.workers, PILOT)
            self._estimates.note(cell, measure_visits(records, PILOT, cell.workers))

    def _run(self, cell: Cell, phase_s: float, *, is_repeat: bool) -> None:
        if cell in self._findings.skipped:
            return
        guess = self._estimates.guess(cell)
        assert guess is not None, "the pilot's cell is known"
        phases = choose_phases(cell, guess, self._room[cell.tier], phase_s, self._budget_s)
        if isinstance(phases, str):
            self._findings.skipped[cell] = phases
            return
        busy = BusyCores()
        records = self._rig.run(cell.tier, cell.bytes, cell.workers, phases)
        cores = busy.count()
        if cores is not None and cell.workers >= _QUEUE:
            self._findings.busy[cell.tier].append(cores)
        measured = measure_visits(records, phases, cell.workers)
        self._estimates.note(cell, measured)
        if is_repeat:
            self._findings.repeats[cell.tier].append(measured)
        else:
            self._findings.rounds[cell].append(measured)


def interleave(cells: list[Cell], repeats: list[Cell], number: int) -> list[tuple[Cell, bool]]:
    """Return the runs of a round in order, each with whether it is a repeat.

    Args:
        cells: of the round.
        repeats: the repeated cells, one per tier; all rounds together have REPEATS of each.
        number: of the round, from 0.
    """
    share = REPEATS * (number + 1) // ROUNDS - REPEATS * number // ROUNDS
    places = [round((at + 0.5) * len(cells) / share) for at in range(share)]
    steps = list[tuple[Cell, bool]]()
    for at, cell in enumerate(cells):
        steps += [(one, True) for _ in range(places.count(at)) for one in repeats]
        steps.append((cell, False))
    return steps


def _format_size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
