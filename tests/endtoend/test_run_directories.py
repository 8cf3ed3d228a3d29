"""Run directories: what --force and --repeat replace, keep and refuse."""

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from replayer.record.run_directory import RunDirectory
from replayer.schema import parts
from tests.support.command_line import Run, sentence
from tests.support.going_runs import log_of, replayed
from tests.support.paths import ROOT
from tests.support.run_json import read_files, run_json
from tracegen.errors import InputError


def test_force_replaces_a_run(short: Path, tmp_path: Path, run: Run) -> None:
    replayed(run, short, tmp_path)
    (tmp_path / "run" / "moves" / "part-00007.parquet").write_text("of the run before")
    before = run_json(tmp_path / "run")
    sentence(replayed(run, short, tmp_path, ok=False), str(tmp_path / "run"), "--force")
    assert run_json(tmp_path / "run") == before
    replayed(run, short, tmp_path, "--force", "--users", 3)
    assert run_json(tmp_path / "run")["conditions"]["users"] == 3
    assert [path.name for path in parts(tmp_path / "run")] == ["part-00000.parquet"]


@pytest.fixture(scope="module")
def made(short: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    place = tmp_path_factory.mktemp("made")
    replayed(run, short, place)
    return place / "run"


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a file": lambda run: (run / "thesis.tex").write_text("x"),
    "a file among the parts": lambda run: (run / "moves" / "thesis.tex").write_text("x"),
    "a hidden file": lambda run: (run / ".git").write_text("x"),
    "a name that nearly is ours": lambda run: (run / "moves" / "part-1.parquet.bak").write_text("x"),
    "a dangling link": lambda run: (run / "link").symlink_to("nowhere"),
    "no run.json": lambda run: (run / "run.json").unlink(),
    "a link to a folder": lambda run: (run / "link").symlink_to(ROOT),
    "moves on another disk": lambda run: (
        (run / "moves").rename(run.parent / "elsewhere"),
        (run / "moves").symlink_to(run.parent / "elsewhere"),
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_force_replaces_nothing_else(made: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(made, tmp_path / "run")
    FOREIGN[name](tmp_path / "run")
    before = read_files(tmp_path)
    with pytest.raises(InputError) as refused:
        RunDirectory(tmp_path / "run", force=True)
    assert str(tmp_path / "run") in str(refused.value)
    assert read_files(tmp_path) == before


def test_repeat_does_the_same_work_so_many_times(short: Path, tmp_path: Path, run: Run) -> None:
    bounded = ["--cpu-mem-gb", "0.0002", "--storage-capacity-gb", "0.0003"]
    replayed(run, short, tmp_path, *bounded, "--repeat", 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "run-1", "run-2", "run-3"]
    found = [run_json(tmp_path / f"run-{number}") for number in (1, 2, 3)]
    assert [one["status"] for one in found] == ["complete"] * 3
    for name in ("plan", "executed", "executed_fingerprint", "conditions"):
        assert found[0][name] == found[1][name] == found[2][name]
    assert found[0]["plan"]["drops"] > 0
    first, *others = [
        log_of(tmp_path / f"run-{number}").select(~pl.selectors.ends_with("_ns", "worker", "rank", "waited_for"))
        for number in (1, 2, 3)
    ]
    assert all(first.equals(other) for other in others)
    (tmp_path / "run-1").rename(tmp_path / "moved")
    before = read_files(tmp_path)
    sentence(replayed(run, short, tmp_path, "--repeat", 3, ok=False), "run-2", "--force")
    assert read_files(tmp_path) == before, "refused before the first trial"
