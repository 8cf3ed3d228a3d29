"""The report command: files that are kept or replaced, terminals, wrong usage."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.cli import main


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
        (["-o", "r.html", "--tier-gib-s", "nvme=1"], "two numbers"),
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
