"""A run opened for use in Python."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from analysis.log.columns import STAMPS
from analysis.log.targets import Targets
from analysis.runs.opening import open_run
from analysis.runs.reading import scan
from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from replayer.schema import DEVICE_SCHEMA, LOG_COLUMNS, LOG_ENUMS, RunInfo, counters


@dataclass(frozen=True)
class LoadedRun:
    """A run with its log, as `analysis.load` returns it.

    Attributes:
        path: the run directory.
        info: the run.json of each rank.
        moves: the log of all ranks, with all columns and one row per move, enums as words; times in
            ns on the clock of the first rank. docs/run-directory.md explains the columns.
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
        InputError: the run directory is missing, damaged or without a log, or its ranks' clocks are
            days apart.
    """
    opened = open_run(path)
    moves = [_scan_moves(rank.files, rank.shift_ns) for rank in opened.ranks]
    samples = [
        _scan_device(own, rank.shift_ns, rank.info.rank or 0)
        for rank in opened.ranks
        if (own := counters(rank.path)) is not None
    ]
    return LoadedRun(path, opened.infos, pl.concat(moves), pl.concat(samples) if samples else None)


def _scan_moves(files: list[Path], shift_ns: int) -> pl.LazyFrame:
    words = pl.col(list(LOG_ENUMS)).cast(pl.String)
    return scan(files).select(LOG_COLUMNS).with_columns(words, pl.col(STAMPS) + shift_ns)


def _scan_device(path: Path, shift_ns: int, rank: int) -> pl.LazyFrame:
    own_rank = pl.lit(rank, pl.Int32).alias("rank")
    return scan([path]).select(DEVICE_SCHEMA.names).with_columns(pl.col("time_ns") + shift_ns, own_rank)
