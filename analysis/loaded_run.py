"""A run opened for use in Python."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.log.log import Targets
from analysis.runs.opening import open_run
from analysis.sql.queries import open_tables
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import RunInfo


@dataclass(frozen=True)
class LoadedRun:
    """A run with its log, as `analysis.load` returns it.

    Attributes:
        path: the run directory.
        info: the run.json of each rank.
        moves: the log of all ranks, with all columns and one row per move; times in ns on the
            clock of the first rank. docs/run-directory.md explains the columns.
        device: the samples of the device counters of all ranks; None if none were taken.
    """

    path: Path
    info: list[RunInfo]
    moves: pl.LazyFrame
    device: pl.LazyFrame | None

    def summary(self, targets: Targets | None = None) -> Summary:
        """Compute the run's verdict, doubts and metrics.

        Args:
            targets: bounds to judge the run by; None: the default ones.

        Raises:
            InputError: the log is damaged, or no replay writes its rows.
        """
        return summarise(self.path, targets)


def open_loaded_run(path: Path) -> LoadedRun:
    """Open a run.

    Args:
        path: the run directory.

    Raises:
        InputError: the run directory is missing, damaged or without a log.
    """
    frames = open_tables(path)
    return LoadedRun(path, open_run(path).infos, frames["moves"], frames.get("device"))
