"""Medians over the rounds of each cell, which single disturbances do not move."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from replayer.profiling.station_fit import Sample
from replayer.profiling.visits import Cell, Measured, Rounds
from replayer.record.run_info import Tier


@dataclass(frozen=True)
class Median:
    """The medians of one kind of visit in one cell.

    Attributes:
        sample: size, load of the own station, and times.
        others: mean number of visits that a visit meets in the other direction's station.
        low_us: time in the fastest round.
        high_us: time in the slowest round.
    """

    sample: Sample
    others: float
    low_us: float
    high_us: float


def find_median(cell: Cell, runs: Sequence[Measured], what: str) -> Median:
    """Return the medians of the visits of one kind over the runs of a cell."""
    visits = [run[what] for run in runs]
    times = [one.time_us for one in visits]
    sample = Sample(
        cell.bytes,
        _median(one.load for one in visits),
        _median(times),
        _median(one.open_us for one in visits),
    )
    return Median(sample, _median(one.others for one in visits), min(times), max(times))


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def find_medians(tier: Tier, rounds: Rounds, what: str) -> dict[Cell, Median]:
    """Return the medians of one kind of visit for all cells of a tier that were measured."""
    cells = {cell: runs for cell, runs in rounds.items() if cell.tier == tier and runs}
    return {cell: find_median(cell, runs, what) for cell, runs in cells.items()}
