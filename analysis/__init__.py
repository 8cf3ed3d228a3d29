"""Metrics and verdicts from run directories, offline and as often as needed.

`load` opens a run for use in Python:

    import analysis

    run = analysis.load("run1")
    run.moves.group_by("move").len().collect()
    run.summary().metrics["wall_clock_tok_s"]
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.loaded_run import LoadedRun

__all__ = ["load"]


def load(run: str | Path) -> "LoadedRun":
    """Load a run: its log, its device counters, its run.json and its metrics.

    The log is read when a frame is collected, not here.

    Args:
        run: the run directory of one process, or the directory above those of several ranks.

    Raises:
        InputError: the run directory is missing, damaged or without a log.
    """
    from analysis.loaded_run import open_loaded_run  # noqa: PLC0415 (it takes half a second)

    return open_loaded_run(Path(run))
