"""The notebook's page: its commands and its code, run from top to bottom."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "notebook.md").read_text()
COMMANDS = re.findall(r"^    ((?:tracegen|replayer) .*)$", PAGE, re.M)
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def test_the_code_of_the_page_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) == 2
    for command in COMMANDS:
        run(*shlex.split(command), cwd=tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, names)
    printed = capsys.readouterr().out
    assert "2,469 ops of 12 users" in printed
    assert names["curve"]["cpu_hits"].to_list() == [1295, 1439, 1394, 1490]
    assert names["planned"].summary.hits.cpu == names["summary"].metrics["cpu_hits"]
    assert len(names["moves"]) == names["run"].moves.select("seq").collect().height
    assert re.search(r"^model \| .* \| ", printed, re.M)
