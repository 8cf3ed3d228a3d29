"""The report command: files that are kept or replaced, terminals, wrong usage."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.cli import main
from tests.support.command_line import Run


def test_text_goes_to_the_terminal(run: Run, replay: Path) -> None:
    done = run("analysis", "report", replay, "--format", "json")
    assert json.loads(done.stdout)["runs"][0]["run"] == str(replay)


def test_a_file_is_replaced_only_with_force_and_completely(replay: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.csv"
    page.write_text("kept")
    call = ["report", str(replay), "-o", str(page)]
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 2
    assert "exists already; choose another name, or pass --force to replace it." in refused.output
    assert page.read_text() == "kept"
    assert CliRunner().invoke(main, [*call, "--force"]).exit_code == 0
    assert page.read_text().startswith("run,metric,value,unit")
    assert list(tmp_path.iterdir()) == [page]


def test_pipes_and_files_of_runs_are_never_replaced(replay: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    before = {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}
    for output, words in (
        (pipe, "not a regular file"),
        (replay / "run.json", "in the run"),
        (replay / "new.csv", "in the run"),
    ):
        done = CliRunner().invoke(main, ["report", str(replay), "--force", "-o", str(output)])
        assert (done.exit_code, words in done.output) == (2, True), done.output
    assert pipe.is_fifo()
    assert before == {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["metrics"], ["report", "--format", "md"], ["summary"]])
def test_a_terminal_on_a_full_disk(replay: Path, command: list[str]) -> None:
    name, *flags = command
    run = [] if name == "metrics" else [str(replay)]
    with Path("/dev/full").open("wb") as full:
        call = [sys.executable, "-m", "analysis", name, *run, *flags]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-o", "report.pdf"], "report.pdf: its suffix names no format"),
        (["-o", "nowhere/report.html"], "there is no folder nowhere"),
        (["-o", "r.html", "--qos-ms", "urgent=1"], "urgent"),
        (["-o", "r.html", "--device-gib-s", "1"], "two numbers"),
    ],
)
def test_wrong_usage_ends_in_one_sentence(
    replay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report", str(replay), *flags])
    assert done.exit_code == 2
    assert words in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_charts_are_saved_beside_files_that_are_kept(
    replay: Path, tmp_path: Path, charts_that_draw_nothing: None
) -> None:
    kept = tmp_path / "charts" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    call = ["report", str(replay), "--charts", str(kept.parent)]
    done = CliRunner().invoke(main, [*call, "--force", "-o", str(tmp_path / "run.csv")])
    assert done.exit_code == 0, done.output
    assert kept.read_text() == "mine"
    assert (kept.parent / "bandwidth.svg").exists()
    assert (kept.parent / "bandwidth.png").exists()
    assert (tmp_path / "run.csv").exists()
