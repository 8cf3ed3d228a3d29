"""Sweeps of several ranks."""

import shutil
from pathlib import Path

import pytest

from tests.replayer.sweep.grids import FINISHED, content, grid, swept
from tests.support.command_line import Run, sentence
from tests.support.run_json import run_json
from tracegen.schema import Trace


def test_ranks_have_traces_of_their_own(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("needs mpirun")
    path = grid(tmp_path, "trials = 1\n" + FINISHED[FINISHED.rindex("[[case]]") :])
    ranks = ["--ranks", 2, "--mpirun", "mpirun --allow-run-as-root --oversubscribe"]
    swept(run, path, *ranks)
    trial, folder = tmp_path / "sweep" / "b" / "trial_1", tmp_path / "sweep" / "traces"
    above, infos = run_json(trial), [run_json(trial / f"rank_{rank}") for rank in (0, 1)]
    assert above is not None
    assert (above["status"], above["ranks"]) == ("complete", 2)
    assert [one["trace"]["seed"] for one in infos] == [42, 43]
    assert [one["conditions"]["part"] for one in infos] == [[0, 1]] * 2, "each replays all of its own"
    made = [Trace(folder / f"b-{rank}.parquet").metadata.fingerprint for rank in (0, 1)]
    assert [one["trace"]["fingerprint"] for one in infos] == made
    assert made[0] != made[1]
    before = content(tmp_path / "sweep")
    swept(run, path, *ranks)
    assert content(tmp_path / "sweep") == before
    sentence(swept(run, path, ok=False), "was begun with other settings (ranks); name a new directory with -o")
