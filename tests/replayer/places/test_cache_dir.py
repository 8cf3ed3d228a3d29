"""A cache directory is made if only its last part is missing, and refused if more is: its drive may not be mounted."""

from pathlib import Path

import pytest

from tests.support.command_line import Run, sentence
from tracegen.schema import Trace

GRID = """
trials = 1
[[case]]
name = "a"
trace = "t.parquet"
model = "tiny-1b"
"""
COMMANDS = {
    "run": ["run", "t.parquet", "--model", "tiny-1b"],
    "sweep": ["sweep", "grid.toml"],
    "autoscale": ["autoscale", "t.parquet", "--mode", "capacity", "--model", "tiny-1b", "--users", "1"],
    "dry sweep": ["sweep", "scenarios", "--dry-run"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_cache_directory_in_a_missing_folder_is_refused(run: Run, trace: Trace, tmp_path: Path, name: str) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    before = sorted(tmp_path.iterdir())
    missing = tmp_path / "typo" / "nvme"
    refused = run("replayer", *COMMANDS[name], "--cache-dir", missing, "-o", "out", ok=False, cwd=tmp_path)
    sentence(refused, f"--cache-dir {missing}: no such directory; mount or create it.")
    assert sorted(tmp_path.iterdir()) == before, "nothing is made"
    assert trace.path in before


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_a_cache_directory_is_made_and_stays(run: Run, trace: Trace, tmp_path: Path, name: str) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    place = tmp_path / "nvme"
    flags = ["--cache-dir", place, "-o", "out"]
    run("replayer", *COMMANDS[name], *flags, cwd=tmp_path, alone=name == "sweep")
    assert place.is_dir()
    assert list(place.iterdir()) == []
    assert trace.path.exists()
