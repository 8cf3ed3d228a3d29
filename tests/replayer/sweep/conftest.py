"""A folder of traces and a finished sweep."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.replayer.sweep.grids import FINISHED, READS, run_sweep, write_grid
from tests.support import traces
from tests.support.command_line import Run
from tracegen.schema import Trace


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with quick.parquet, of two users and four ops, and slow.parquet, of 57 MiB.

    At 64 MiB/s slow.parquet takes most of a second.
    """
    place = tmp_path_factory.mktemp("traces")
    quick = traces.columns([("w", 0, 2), ("d", 0, 2), ("w", 1, 2), ("d", 1, 2)], [0, 0, 1, 1])
    traces.write(place / "quick.parquet", quick, counts={"users": 2})
    steps = [(op, key, 32) for key in range(4) for op in ["w"] + ["d"] * READS]
    traces.write(place / "slow.parquet", traces.columns(steps, np.repeat(np.arange(4), READS + 1)))
    return place


@pytest.fixture(scope="session")
def finished(run: Run, place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a grid, its trace, and its sweep, which is complete."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copy(place / "quick.parquet", folder)
    done = run_sweep(run, write_grid(folder, FINISHED))
    assert f"{folder}/sweep: 3 cases, 1 trial each, complete." in done.stdout
    assert [line for line in done.stderr.splitlines() if ": complete, " in line] == [
        "a-workers=1/trial_1: complete, 4 ops",
        "a-workers=2/trial_1: complete, 4 ops",
        f"b/trial_1: complete, {Trace(folder / 'sweep' / 'traces' / 'b.parquet').ops} ops",
    ]
    return folder
