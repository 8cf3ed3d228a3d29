"""Sweeps whose replays have several ranks."""

import shutil
from pathlib import Path

import pytest

from tests.replayer.sweep.grids import FINISHED, read_files, run_sweep, write_grid
from tests.support.command_line import Run, sentence
from tests.support.run_json import run_json
from tracegen.schema import Trace


def test_each_rank_has_its_own_trace(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    if not shutil.which("mpirun"):
        pytest.skip("needs mpirun")
    path = write_grid(tmp_path, "trials = 1\n" + FINISHED[FINISHED.rindex("[[case]]") :])
    ranks = ["--ranks", 2, "--mpirun", "mpirun --allow-run-as-root --oversubscribe"]
    run_sweep(run, path, *ranks)
    trial, folder = tmp_path / "sweep" / "b" / "trial_1", tmp_path / "sweep" / "traces"
    above, infos = run_json(trial), [run_json(trial / f"rank_{rank}") for rank in (0, 1)]
    assert above is not None
    assert (above["status"], above["ranks"]) == ("complete", 2)
    assert [info["trace"]["seed"] for info in infos] == [42, 43]
    assert [info["conditions"]["part"] for info in infos] == [[0, 1]] * 2, "each replays its whole trace"
    fingerprints = [Trace(folder / f"b-{rank}.parquet").metadata.fingerprint for rank in (0, 1)]
    assert [info["trace"]["fingerprint"] for info in infos] == fingerprints
    assert fingerprints[0] != fingerprints[1]
    before = read_files(tmp_path / "sweep")
    run_sweep(run, path, *ranks)
    assert read_files(tmp_path / "sweep") == before
    sentence(run_sweep(run, path, ok=False), ": was begun with other settings (ranks); name a new directory with -o")
