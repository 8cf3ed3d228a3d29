"""The work of workers besides I/O, from cells with one worker, which wait for no core."""

from typing import Final

import numpy as np

from replayer.profiles.profile import CpuProfile
from replayer.profiling.station_fit import round_figures
from replayer.profiling.visits import Measured, Rounds

_LARGE: Final = 1 << 20
"""Bytes of objects whose bytes dominate the time of making and checking them."""
_KINDS: Final = ("write", "read", "remove")


def fit_cpu(cores: float, rounds: Rounds) -> CpuProfile:
    """Return the work of a worker: medians over cells and rounds.

    Args:
        cores: that workers may use.
        rounds: what was measured.
    """
    alone = {cell: runs for cell, runs in rounds.items() if cell.workers == 1 and runs}
    smallest = min(cell.bytes for cell in alone)
    least = min(_LARGE, max(cell.bytes for cell in alone))
    large = {cell: runs for cell, runs in alone.items() if cell.bytes >= least}
    make, check = (_per_byte(large, what) for what in ("write", "read"))
    between = [
        _between_us(run, kind)
        for cell, runs in alone.items()
        if cell.bytes == smallest
        for run in runs
        for kind in _KINDS
    ]
    return CpuProfile(cores, make, check, max(0.0, _median(between)))


def _per_byte(rounds: Rounds, what: str) -> float:
    """Return the time in ns of making or checking a byte."""
    return _median([run[what].verify_us * 1e3 / cell.bytes for cell, runs in rounds.items() for run in runs])


def _between_us(run: Measured, kind: str) -> float:
    """Return the time of a lone worker per move in which it neither moved, made nor checked."""
    visits = run[kind]
    return 1e6 / visits.per_s - visits.time_us - visits.verify_us


def _median(values: list[float]) -> float:
    return round_figures(float(np.median(values)))
