"""Traces that the cases of a sweep share."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from replayer.experiments import replay_series as series
from replayer.experiments import sweep as sweeps
from replayer.experiments.replay_series import Series
from tests.replayer.sweep.grids import CASE, RECIPE, grid, swept
from tests.support import traces
from tests.support.command_line import Run
from tests.support.run_json import run_json


class Recorded:
    """A series that makes and replays nothing, and keeps what it was asked for."""

    def __init__(self, place: Path, trace: Path) -> None:
        self.place, self.made, self.replayed = place, dict[str, Sequence[str]](), list[tuple[str, Path]]()
        self._trace = trace

    def trace(self, name: str, _recipe: Path | None, settings: Sequence[str] = ()) -> Path:
        assert self.made.setdefault(name, settings) == settings, "two traces of one name"
        path = self.place / f"{name}.parquet"
        shutil.copy(self._trace, path)
        return path

    def replay(self, name: str, trace: Path, _flags: Sequence[str]) -> None:
        self.replayed.append((name, trace))

    def rested_s(self) -> float:
        return 0.0


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
    found = sweeps.load(grid(tmp_path, SHARED))
    series: Any = Recorded(tmp_path, place / "quick.parquet")
    sweeps.run(found, series)
    assert series.made == {"chat": (), "short": ("users=2",), "chat-verify=off": ("users=3",)}
    used = {name.split("/")[0]: path.stem for name, path in series.replayed}
    grids = {f"chat-users={users}-workers={workers}": "chat" for users in (1, 2) for workers in (1, 2)}
    others = {f"chat-verify={verify}": "chat-verify=off" for verify in ("off", "full")}
    assert used == grids | {"more": "chat", "short": "short"} | others


@pytest.mark.usefixtures("series_here")
def test_the_ops_that_are_told_were_executed(run: Run, place: Path, tmp_path: Path) -> None:
    """Of one user alone, and not to the end: executed_ops is a position, below which others' ops lie, too."""
    steps = [("w", 0, 2), ("w", 1, 2), ("d", 1, 2), ("d", 0, 2), ("d", 0, 2)]
    columns = traces.columns(steps, range(5), user_id=[0, 1, 1, 0, 0])
    traces.write(tmp_path / "quick.parquet", columns, counts={"users": 2})
    done = swept(run, grid(tmp_path, f"trials = 1\n{CASE}users = 1\nops = 2\norder = 'trace'\n"))
    found = run_json(tmp_path / "sweep" / "a" / "trial_1")
    assert (found["executed_ops"], found["executed"]["ops"]) == (4, 2)
    assert "a/trial_1: complete, 2 ops" in done.stderr


def test_files_of_the_user_do_not_stand_in_for_ours(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules called as our packages are, in the folder in which a sweep or a search is started."""
    for name in ("analysis", "tracegen", "replayer"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user')\n")
    monkeypatch.chdir(tmp_path)
    assert series.analysis("metrics", "hit_rate").startswith("hit_rate: ")
    with Series(tmp_path / "sweep", {}, tmp_path / "cache", make_cache_dir=True) as own:
        flags = ["--model", "tiny-1b", "--duration", "100"]
        place = own.replay("a/trial_1", place / "quick.parquet", flags)
        settings = ("users=1", "requests=2", "mix.personas=1")
        assert own.trace("made", None, settings).exists()
    assert run_json(place)["status"] == "complete"
