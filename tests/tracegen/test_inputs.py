"""Pipes and devices, which might never end, are refused at once."""

import os
from pathlib import Path

import pytest

from tests.support.command_line import Run, sentence
from tests.support.imports import EXCERPT

READERS = [
    "generate --sharegpt {x} -o {out}",
    f"import mooncake {EXCERPT} {{x}} -o {{out}}",
    "import weka {x} -o {out}",
    "info {x}",
    "merge {x} -o {out}",
    "info {folder}",
]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("command", READERS)
def test_pipes_and_devices_are_refused_at_once(run: Run, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for pipe in (tmp_path / "x.toml", folder / "part-00000.parquet", folder / "x.json"):
        os.mkfifo(pipe)
    places = {"out": str(tmp_path / "t.parquet"), "folder": str(folder)}
    for bad in (tmp_path / "x.toml", Path("/dev/zero")):
        done = run("tracegen", *command.format(x=bad, **places).split(), ok=False)
        sentence(done, "pipe or device, not a file; name a")
    assert not (tmp_path / "t.parquet").exists()
