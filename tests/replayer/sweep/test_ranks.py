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
    assert (run_json(trial)["status"], run_json(trial)["ranks"]) == ("complete", 2)
    for rank in (0, 1):
        info = run_json(trial / f"rank_{rank}")
        assert info["trace"]["fingerprint"] == Trace(folder / f"b-{rank}.parquet").metadata.fingerprint
        assert (info["trace"]["seed"], info["conditions"]["part"]) == (42 + rank, [0, 1]), (
            "each replays its whole trace"
        )
    before = read_files(tmp_path / "sweep")
    run_sweep(run, path, *ranks)
    assert read_files(tmp_path / "sweep") == before
    sentence(run_sweep(run, path, ok=False), ": was begun with other settings (ranks); name a new directory with -o")
