"""The report command: files that are kept or replaced, terminals, wrong calls."""

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


def test_a_file_is_replaced_only_by_force_and_whole(replay: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.csv"
    page.write_text("mine")
    call = ["report", str(replay), "-o", str(page)]
    refused = CliRunner().invoke(main, call)
    assert refused.exit_code == 2
    assert "exists; name another file with -o, or pass --force." in refused.output
    assert page.read_text() == "mine"
    assert CliRunner().invoke(main, [*call, "--force"]).exit_code == 0
    assert page.read_text().startswith("run,metric,value,unit")
    assert list(tmp_path.iterdir()) == [page]


def test_what_is_no_file_of_its_own_is_never_replaced(replay: Path, tmp_path: Path) -> None:
    """Pipes and devices, a run's own files; a link stays a link."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.csv", tmp_path / "target.csv"
    os.mkfifo(pipe)
    target.write_text("mine")
    link.symlink_to(target)
    before = {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}
    for output, said in (
        (pipe, "is no regular file"),
        (replay / "run.json", "lies in the run"),
        (replay / "new", "lies in"),
    ):
        done = CliRunner().invoke(main, ["report", str(replay), "--force", "--format", "csv", "-o", str(output)])
        assert (done.exit_code, said in done.output) == (2, True), done.output
    assert pipe.is_fifo()
    assert before == {path: path.read_bytes() for path in replay.rglob("*") if path.is_file()}
    assert CliRunner().invoke(main, ["report", str(replay), "--force", "-o", str(link)]).exit_code == 0
    assert link.is_symlink()
    assert target.read_text().startswith("run,metric,value,unit")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["metrics"], ["report", "--format", "md"], ["summary"], ["sql"]])
def test_a_terminal_on_a_full_disk(replay: Path, command: list[str]) -> None:
    name, *flags = command
    run = [] if name == "metrics" else [str(replay)]
    query = ["select * from moves"] if name == "sql" else []
    with Path("/dev/full").open("wb") as full:
        call = [sys.executable, "-m", "analysis", name, *run, *query, *flags]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "no file and no format; name a file with -o report.html"),
        (["--format", "html"], "--format html is not for a terminal; name a file with -o report.html."),
        (["--format", "xlsx"], "-o report.xlsx"),
        (["-o", "report.pdf"], "report.pdf names no format by its suffix"),
        (["-o", "nowhere/report.html"], "there is no folder nowhere"),
        (["-o", ".", "--format", "html"], "is a folder"),
        (["-o", "r.html", "--qos-ms", "urgent=1"], "urgent"),
        (["-o", "r.html", "--device-gib-s", "1"], "two numbers"),
    ],
)
def test_wrong_calls_end_in_one_sentence(
    replay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report", str(replay), *flags])
    assert done.exit_code == 2
    assert said in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_runs_that_cannot_be_read_leave_no_file(replay: Path, tmp_path: Path) -> None:
    for runs in ([tmp_path / "nothing"], [replay, replay]):
        done = CliRunner().invoke(main, ["report", *map(str, runs), "-o", str(tmp_path / "r.html")])
        assert done.exit_code == 2
        assert len(done.output.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_other_commands_do_not_wait_for_charts(run: Run, replay: Path) -> None:
    import subprocess
    import sys

    told = "import sys, analysis.cli; print([n for n in ('altair', 'vl_convert', 'xlsxwriter', 'jinja2') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
