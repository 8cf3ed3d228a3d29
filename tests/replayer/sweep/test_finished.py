"""A finished sweep is not run again; failed trials are put aside."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.replayer.sweep.grids import CASE, content, grid, swept, words
from tests.support.command_line import Run, sentence
from tests.support.run_json import run_json


def test_a_sweep_leaves_its_runs_and_what_they_printed(finished: Path) -> None:
    sweep = finished / "sweep"
    assert sorted(one.name for one in sweep.iterdir()) == ["a-workers=1", "a-workers=2", "b", "series.json", "traces"]
    assert sorted(one.name for one in (sweep / "b").iterdir()) == ["log-trial_1.txt", "trial_1"]
    assert sorted(one.name for one in (sweep / "traces").iterdir()) == ["b.log", "b.parquet"]
    found = {name: run_json(sweep / name / "trial_1") for name in ("a-workers=1", "a-workers=2", "b")}
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(found, "complete")
    assert [one["conditions"]["workers"] for one in found.values()] == [1, 2, 2]
    assert found["b"]["trace"]["recipe"]["users"] == 2
    first, *_, last = (sweep / "b" / "log-trial_1.txt").read_text().splitlines()
    assert first == (
        f"$ {sys.executable} -P -m replayer run {sweep}/traces/b.parquet"
        f" --model tiny-1b --pace asap --duration unlimited --cache-dir {finished}/cache --clean --make-cache-dir -o {sweep}/b/trial_1"
    )
    assert last == "exit 0"
    assert list((finished / "cache").iterdir()) == []


def test_a_finished_sweep_is_not_run_again(run: Run, finished: Path) -> None:
    before = content(finished)
    told = json.loads(swept(run, finished / "grid.toml", "--json").stdout)
    assert content(finished) == before
    names = ["a-workers=1", "a-workers=2", "b"]
    assert told == [{"case": name, "runs": [f"{finished}/sweep/{name}/trial_1"]} for name in names]


@pytest.mark.usefixtures("series_here")
def test_another_sweep_in_its_place_is_refused(run: Run, finished: Path, tmp_path: Path) -> None:
    before = content(finished / "sweep")
    other = grid(tmp_path, f"trials = 1\n{CASE}".replace("quick", f"{finished}/quick"))
    done = run("replayer", "sweep", other, "-o", finished / "sweep", ok=False)
    sentence(done, f"{finished}/sweep was begun with other settings (cases); name a new directory with -o")
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "series.partial").write_text("{")
    run("replayer", *words(finished / "grid.toml", tmp_path / "c", tmp_path / "killed"))
    assert not (tmp_path / "killed" / "series.partial").exists(), "what a killed process had begun is gone on with"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    done = run("replayer", "sweep", other, "-o", tmp_path / "mine", ok=False)
    sentence(done, f"{tmp_path}/mine holds thesis.tex, which is none of a series'; name a new directory.")
    assert content(finished / "sweep") == before
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


@pytest.mark.usefixtures("series_here")
def test_a_trial_that_failed_is_put_aside(run: Run, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "sweep", tmp_path / "sweep")
    trial = tmp_path / "sweep" / "a-workers=2" / "trial_1"
    for number in (1, 2):
        path = trial / "run.json"
        path.write_text(json.dumps(run_json(trial) | {"status": "failed", "reason": f"disk {number}"}))
        before = content(tmp_path / "sweep")
        done = run("replayer", *words(finished / "grid.toml", tmp_path / "c", tmp_path / "sweep"))
        assert f"{trial} had failed; it lies in failed-{number}-trial_1 now." in done.stderr
        aside = trial.with_name(f"failed-{number}-trial_1")
        assert run_json(aside)["reason"] == f"disk {number}"
        assert run_json(trial)["status"] == "complete"
        kept = {name: one for name, one in before.items() if not name.startswith(f"{trial.parent.name}/")}
        assert {name: one for name, one in content(tmp_path / "sweep").items() if name in kept} == kept
    logs = ["log-failed-1-trial_1.txt", "log-failed-2-trial_1.txt", "log-trial_1.txt"]
    assert sorted(one.name for one in trial.parent.glob("log*")) == logs


def test_a_trial_that_fails_ends_the_sweep(run: Run, place: Path, tmp_path: Path) -> None:
    """No op is issued within a nanosecond; the next case is not tried."""
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 2\n{CASE}duration = [1e-9, 100]\n")
    done = swept(run, path, ok=False)
    trial = tmp_path / "sweep" / "a-duration=1e-09" / "trial_1"
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"Error: {trial}: no op was executed before --duration was over." in done.stderr
    reason = "no op was executed before --duration was over"
    told = f"{trial} failed: {reason}; what is complete stays: mend it, then repeat the command.\n"
    assert done.stderr.endswith(told), "the trial's own reason"
    assert done.stdout == ""
    assert (trial.parent / "log-trial_1.txt").read_text().endswith("exit 1\n")
    assert sorted(one.name for one in (tmp_path / "sweep").iterdir()) == [trial.parent.name, "series.json"]
