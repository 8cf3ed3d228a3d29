"""Traces that the cases of a sweep share."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer.experiments.children import run_analysis
from replayer.experiments.series import ReplayMeans, Series
from replayer.experiments.sweep import load_sweep
from replayer.experiments.sweep import run_sweep as replay_cases
from replayer.run.figures import Screen
from tests.replayer.sweep.grids import RECIPE, write_grid
from tests.support.run_json import run_json


class RecordingSeries:
    """A series that makes and replays nothing, and records what it should do.

    Attributes:
        made: the settings of each trace, by name.
        replayed: name and trace of each replay.
    """

    def __init__(self, directory: Path, trace: Path) -> None:
        self.directory = directory
        self.made: dict[str, Sequence[str]] = {}
        self.replayed: list[tuple[str, Path]] = []
        self._trace = trace

    def make_trace(self, name: str, _recipe: Path | None, settings: Sequence[str] = ()) -> Path:
        assert self.made.setdefault(name, settings) == settings, "two traces with one name"
        path = self.directory / f"{name}.parquet"
        shutil.copy(self._trace, path)
        return path

    def replay(self, name: str, trace: Path, _flags: Sequence[str], pause_s: float) -> None:
        self.replayed.append((name, trace))


SHARED = f"""
trials = 1
[[case]]
name = "chat"
recipe = "{RECIPE}"
users = [1, 2]
workers = [1, 2]
[[case]]
name = "more"
recipe = "{RECIPE}"
promote = true
[[case]]
name = "short"
recipe = "{RECIPE}"
[case.set]
users = 2
[[case]]
name = "chat"
recipe = "{RECIPE}"
verify = ["off", "full"]
[case.set]
users = 3
"""


def test_cases_that_differ_in_flags_share_a_trace(place: Path, tmp_path: Path) -> None:
    series: Any = RecordingSeries(tmp_path, place / "quick.parquet")
    replay_cases(load_sweep(write_grid(tmp_path, SHARED)), series)
    assert series.made == {"chat": (), "short": ("users=2",), "chat-verify=off": ("users=3",)}
    used = {name.split("/")[0]: path.stem for name, path in series.replayed}
    grids = {f"chat-users={users}-workers={workers}": "chat" for users in (1, 2) for workers in (1, 2)}
    others = {f"chat-verify={verify}": "chat-verify=off" for verify in ("off", "full")}
    assert used == grids | {"more": "chat", "short": "short"} | others


def test_modules_in_the_working_directory_are_not_taken_for_ours(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's folder has modules with the names of our packages."""
    for name in ("analysis", "tracegen", "replayer"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user')\n")
    monkeypatch.chdir(tmp_path)
    assert "hit_rate: " in run_analysis("metrics", "hit_rate", screen=Screen())
    with Series(tmp_path / "sweep", {}, ReplayMeans(tmp_path / "cache"), Screen()) as series:
        flags = ["--model", "tiny-1b", "--duration", "100"]
        directory = series.replay("a/trial_1", place / "quick.parquet", flags)
        settings = ("users=1", "requests=2", "mix.personas=1")
        assert series.make_trace("made", None, settings).exists()
    assert run_json(directory)["status"] == "complete"
