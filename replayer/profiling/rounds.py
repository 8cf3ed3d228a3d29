"""Interleaved rounds over all cells: noise that lasts a while then meets all of them alike."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import monotonic
from typing import Final

from replayer.machine.busy_cores import BusyCores
from replayer.profiling.rig import Rig
from replayer.profiling.schedule import (
    PILOT,
    ROUNDS,
    SIZES,
    Estimates,
    choose_phase_s,
    choose_phases,
    list_cells,
)
from replayer.profiling.sustained import SHARE, TIER, Sustained, choose_cell, sustain
from replayer.profiling.tier_fit import DIRECTIONS, JUDGED_BYTES
from replayer.profiling.visits import Cell, Measured, measure_visits
from replayer.record.run_info import Tier
from tracegen.errors import ToolError

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
        skipped: why cells were left out of all rounds: room or time.
        sustained: what the nvme tier keeps up, by direction; empty: not measured.
        drive_busy: cores that were busy in each run in which moves queued for the nvme tier, with
            this process, the kernel or anybody else.
    """

    rounds: dict[Cell, list[Measured]] = field(default_factory=lambda: defaultdict(list))
    skipped: dict[Cell, str] = field(default_factory=dict)
    sustained: Sustained = field(default_factory=dict)
    drive_busy: list[float] = field(default_factory=list)

    def drive_busy_cores(self) -> float | None:
        """Return the median of the cores that were busy while moves queued for the nvme tier."""
        return round(median(self.drive_busy), 2) if self.drive_busy else None


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
        self._skipped = dict[Cell, str]()  # in this round

    def measure(self) -> Findings:
        """Make all runs.

        Raises:
            ToolError: a move failed, or the budget is too short for a tier.
        """
        tiers = tuple(self._room)
        self._pilot(tiers * 2)  # the first runs also meet cold caches
        cells = list_cells(tiers)
        short_s = self._budget_s * (1 - len(DIRECTIONS) * SHARE * (TIER in tiers))
        phase_s = choose_phase_s(short_s, len(cells))
        began = monotonic()
        ended = 0.0
        for number in range(ROUNDS):
            lasted, ended = monotonic() - began - ended, monotonic() - began
            if number >= _FEWEST_ROUNDS and ended + lasted > self._budget_s * _MOST_OF_BUDGET:
                break
            self._try_skipped_again()
            for at, cell in enumerate(cells):
                text = f"{cell.tier} {_format_size(cell.bytes)} × {cell.workers}"
                self._progress(text, number * len(cells) + at, ROUNDS * len(cells))
                self._run(cell, phase_s)
        rounds = self._findings.rounds
        skipped = self._findings.skipped | self._skipped
        self._findings.skipped = {one: why for one, why in skipped.items() if one not in rounds}
        for tier in tiers:
            self._require_cells(tier)
        if (sustained := choose_cell(rounds)) is not None:
            self._progress("nvme, sustained", ROUNDS * len(cells), ROUNDS * len(cells))
            self._findings.sustained = self._sustain(sustained)
        return self._findings

    def _sustain(self, cell: Cell) -> Sustained:
        """Measure what the nvme tier keeps up after the rounds, which use up its credit."""
        guess = self._estimates.guess(cell)
        assert guess is not None, "the cell was measured"
        room, lasting_s = self._room[cell.tier], self._budget_s * SHARE
        return {
            what: sustain(self._rig, cell, what, per_op_s, room, lasting_s)
            for what, per_op_s in (("write", guess.write), ("read", guess.read))
        }

    def _require_cells(self, tier: Tier) -> None:
        """Refuse a tier without what its fit and its error need: lone workers, judged sizes.

        There is always room for them, so that they lack time.
        """
        low, high = JUDGED_BYTES
        alone = [cell for cell in self._findings.rounds if cell.tier == tier and cell.workers == 1]
        if not any(low <= cell.bytes <= high for cell in alone):
            sizes = f"{_format_size(low)} to {_format_size(high)}"
            problem = f"{self._budget_s:g} s leaves no cells of {sizes} with one worker"
            raise ToolError(problem, "pass a larger `budget`", subject=tier)

    def _pilot(self, tiers: Iterable[Tier]) -> None:
        """Run the smallest cell of each tier, whose times are not known yet."""
        for tier in tiers:
            cell = _smallest(tier)
            records = self._rig.run(tier, cell.bytes, cell.workers, PILOT)
            self._estimates.note(cell, measure_visits(records, PILOT, cell.workers))

    def _try_skipped_again(self) -> None:
        """Forget the times of the cells that the last round left out: a disturbance may be over."""
        self._estimates.forget(self._skipped)
        self._findings.skipped |= self._skipped
        self._skipped.clear()
        self._pilot(tier for tier in self._room if self._estimates.guess(_smallest(tier)) is None)

    def _run(self, cell: Cell, phase_s: float) -> None:
        if cell in self._skipped:
            return
        guess = self._estimates.guess(cell)
        assert guess is not None, "the pilot's cell is known"
        phases = choose_phases(cell, guess, self._room[cell.tier], phase_s, self._budget_s)
        if isinstance(phases, str):
            self._skipped[cell] = phases
            return
        busy = BusyCores()
        records = self._rig.run(cell.tier, cell.bytes, cell.workers, phases)
        cores = busy.count()
        if cores is not None and cell.tier == "nvme" and cell.workers >= _QUEUE:
            self._findings.drive_busy.append(cores)
        measured = measure_visits(records, phases, cell.workers)
        self._estimates.note(cell, measured)
        self._findings.rounds[cell].append(measured)


def _smallest(tier: Tier) -> Cell:
    """Return the cell that no other of a tier can be faster than."""
    return Cell(tier, SIZES[0], 1)


def _format_size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
