"""A complete sweep is not run again; failed trials are moved aside."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.replayer.sweep.grids import CASE, read_files, run_sweep, sweep_words, write_grid
from tests.support.command_line import Run, sentence
from tests.support.run_json import run_json


def test_a_sweep_leaves_its_runs_and_their_output(finished: Path) -> None:
    sweep = finished / "sweep"
    assert sorted(entry.name for entry in (sweep / "b").iterdir()) == ["log-trial_1.txt", "trial_1"]
    assert sorted(entry.name for entry in (sweep / "traces").iterdir()) == ["b.log", "b.parquet"]
    infos = {name: run_json(sweep / name / "trial_1") for name in ("a-workers=1", "a-workers=2", "b")}
    assert {name: info["status"] for name, info in infos.items()} == dict.fromkeys(infos, "complete")
    assert [info["conditions"]["workers"] for info in infos.values()] == [1, 2, 2]
    assert infos["b"]["trace"]["recipe"]["users"] == 2
    first, *_, last = (sweep / "b" / "log-trial_1.txt").read_text().splitlines()
    assert first == (
        f"$ {sys.executable} -P -m replayer run {sweep}/traces/b.parquet"
        f" --model tiny-1b --pace asap --duration unlimited -o {sweep}/b/trial_1 --progress json --cache-dir {finished}/cache --set clean=true"
    )
    assert last == "exit 0"
    assert list((finished / "cache").iterdir()) == []


def test_a_finished_sweep_is_not_run_again(run: Run, finished: Path) -> None:
    before = read_files(finished)
    printed = json.loads(run_sweep(run, finished / "grid.toml", "--json").stdout)
    assert read_files(finished) == before
    names = ["a-workers=1", "a-workers=2", "b"]
    assert printed["cases"] == [{"case": name, "runs": [f"{finished}/sweep/{name}/trial_1"]} for name in names]


@pytest.mark.usefixtures("series_here")
def test_another_sweep_in_the_same_directory_is_refused(run: Run, finished: Path, tmp_path: Path) -> None:
    before = read_files(finished / "sweep")
    other = write_grid(tmp_path, f"trials = 1\n{CASE}".replace("quick", f"{finished}/quick"))
    done = run("replayer", "sweep", other, "-o", finished / "sweep", ok=False)
    sentence(done, f"{finished}/sweep: was begun with other settings (cases); name a new directory with -o")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "series.partial").write_text("{")
    run("replayer", *sweep_words(finished / "grid.toml", tmp_path / "c", tmp_path / "killed"))
    assert not (tmp_path / "killed" / "series.partial").exists(), "a killed process's file is replaced"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    done = run("replayer", "sweep", other, "-o", tmp_path / "mine", ok=False)
    sentence(done, f"{tmp_path}/mine: the directory holds thesis.tex, and is not a series; name a new directory.")
    assert read_files(finished / "sweep") == before
    assert [entry.name for entry in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("series_here")
def test_a_trial_that_failed_is_moved_aside(run: Run, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "sweep", tmp_path / "sweep")
    trial = tmp_path / "sweep" / "a-workers=2" / "trial_1"
    for number in (1, 2):
        path = trial / "run.json"
        path.write_text(json.dumps(run_json(trial) | {"status": "failed", "reason": f"disk {number}"}))
        before = read_files(tmp_path / "sweep")
        done = run("replayer", *sweep_words(finished / "grid.toml", tmp_path / "c", tmp_path / "sweep"))
        assert f"Warning: {trial} had failed; it is in failed-{number}-trial_1 now." in done.stderr
        aside = trial.with_name(f"failed-{number}-trial_1")
        assert run_json(aside)["reason"] == f"disk {number}"
        assert run_json(trial)["status"] == "complete"
        kept = {name: file for name, file in before.items() if not name.startswith(f"{trial.parent.name}/")}
        assert {name: file for name, file in read_files(tmp_path / "sweep").items() if name in kept} == kept
    logs = ["log-failed-1-trial_1.txt", "log-failed-2-trial_1.txt", "log-trial_1.txt"]
    assert sorted(entry.name for entry in trial.parent.glob("log*")) == logs


def test_a_trial_that_fails_ends_the_sweep(run: Run, place: Path, tmp_path: Path) -> None:
    """No op is issued within a nanosecond; the next case is not tried."""
    shutil.copy(place / "quick.parquet", tmp_path)
    path = write_grid(tmp_path, f"trials = 2\n{CASE}duration = [1e-9, 100]\n")
    done = run_sweep(run, path, ok=False)
    trial = tmp_path / "sweep" / "a-duration=1e-09" / "trial_1"
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"Error: {trial}: no op was executed" in done.stderr, "the trial's own error"
    *_, last = done.stderr.splitlines()
    assert last.startswith(
        f"Error: {trial}: the replay ended with exit code 1; mend what {trial.parent}/log-trial_1.txt"
    )
    assert done.stdout == ""
    assert (trial.parent / "log-trial_1.txt").read_text().endswith("exit 1\n")
    assert sorted(entry.name for entry in (tmp_path / "sweep").iterdir()) == [trial.parent.name, "series.json"]
