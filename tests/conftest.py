"""Shared fixtures: the shipped sample as a trace, and the command line as a user types it."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling

from analysis.doubts import against_trace as replanned
from analysis.submission import traces as remade
from replayer.experiments import autoscale, scenarios
from replayer.experiments import replay_series as series
from tests.support.command_line import Run, analysed_here, child_here, here, logged_here
from tests.support.latencies import latencies_known
from tests.support.paths import DEMO, ROOT
from tracegen.schema import Trace
from tracegen.sources import tokenizers as tokens

# Shared, noisy machines: no deadlines; derandomised, so that CI fails only where the code changed.
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores, as many tests wait for replays in real time; 4 at most."""
    return min(4, len(os.sched_getaffinity(0)) + 1)


# Folders whose session fixtures take seconds: one worker runs all files of one.
TOGETHER = (
    "tests/analysis/assessment",
    "tests/analysis/report",
    "tests/analysis/sql",
    "tests/analysis/submission/hand_made",
    "tests/replayer/sweep",
)


class FolderScheduling(LoadFileScheduling):
    """Give a worker whole files, or whole folders of those in TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling | None:
    """Schedule by folder where `--dist=loadfile` is asked for."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def tokenizers_once() -> Iterator[None]:
    """Loading a bundled tokenizer takes a second, and most traces are made with one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_load_tekken", functools.cache(tokens._load_tekken))
        yield


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a console script, `ok` asserts exit code 0: in this process, but where `alone` or an environment is asked for."""

    def call(
        *command: object, ok: bool = True, env: dict[str, str] | None = None, cwd: Path = ROOT, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        module, *rest = map(str, command)
        if alone or env:
            full = [sys.executable, "-W", "error", "-m", module, *rest]
            done = subprocess.run(
                full, check=False, capture_output=True, text=True, cwd=cwd, env={**os.environ, **(env or {})}
            )
        else:
            done = here(module, *rest, cwd=cwd)
        assert not ok or done.returncode == 0, done.stderr
        return done

    return call


@pytest.fixture
def series_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps, searches and suites without processes of their own, each of which takes 0.7 s to start.

    tests/replayer/sweep has them with: what is started, ended and killed there.
    """
    monkeypatch.setattr(series, "_logged", logged_here)
    for module in (series, autoscale, scenarios):
        monkeypatch.setattr(module, "analysis", analysed_here)
    for planning in (replanned, remade):
        monkeypatch.setattr(planning, "run_child", child_here)


@pytest.fixture(scope="module")
def latencies_once() -> Iterator[None]:
    with latencies_known():
        yield


@pytest.fixture
def charts_that_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes as long as all the rest of a report; tests/analysis/report does it."""
    empty = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1" width="1"/>'
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", lambda _spec, **_version: empty)


@pytest.fixture(scope="session")
def demo_trace(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of the demo's recipe."""
    path = tmp_path_factory.mktemp("demo") / "trace.parquet"
    run("tracegen", "generate", DEMO, "-o", path)
    return path


@pytest.fixture(scope="session")
def demo(demo_trace: Path) -> Trace:
    return Trace(demo_trace)
