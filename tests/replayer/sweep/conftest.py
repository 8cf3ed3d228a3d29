"""A folder of traces and a finished sweep."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.replayer.sweep.grids import FINISHED, READS, grid, swept
from tests.support import traces
from tests.support.command_line import Run
from tracegen.schema import Trace


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """quick.parquet, of two users and four ops; slow.parquet, whose 57 MiB take most of a second behind 64 MiB/s."""
    place = tmp_path_factory.mktemp("traces")
    quick = traces.columns([("w", 0, 2), ("d", 0, 2), ("w", 1, 2), ("d", 1, 2)], [0, 0, 1, 1])
    traces.write(place / "quick.parquet", quick, counts={"users": 2})
    steps = [(op, key, 32) for key in range(4) for op in ["w"] + ["d"] * READS]
    traces.write(place / "slow.parquet", traces.columns(steps, np.repeat(np.arange(4), READS + 1)))
    return place


@pytest.fixture(scope="session")
def finished(run: Run, place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the grid, its trace, and its sweep, in which nothing is left to do."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copy(place / "quick.parquet", folder)
    done = swept(run, grid(folder, FINISHED))
    assert done.stdout == f"{folder}/sweep: 3 cases, 1 trial each, complete\n"
    assert [line for line in done.stderr.splitlines() if "trial" in line] == [
        "a-workers=1/trial_1: complete, 4 ops",
        "a-workers=2/trial_1: complete, 4 ops",
        f"b/trial_1: complete, {Trace(folder / 'sweep' / 'traces' / 'b.parquet').ops} ops",
    ]
    return folder
