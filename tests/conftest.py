"""Shared fixtures: the shipped sample as a trace, and the command line as a user types it."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import vl_convert
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

from analysis.doubts import against_trace as replanned
from analysis.submission import begin as beginning
from replayer.experiments import children
from replayer.machine import description
from replayer.machine.description import digest_code
from tests.support.browser import BINARY, Browser, chromium
from tests.support.command_line import Run, capture_here, child_here, here, run_logged_here
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
    "tests/analysis/submission/hand_made",
    "tests/replayer/sweep",
)


# What takes more than ten seconds, longest first. Workers begin with them, so that none of them ends the suite alone.
LONGEST = (
    "tests/endtoend/test_pages.py",
    "tests/replayer/experiments/test_autoscale.py",
    "tests/analysis/report",
    "tests/tracegen/recipes/test_shipped_recipes.py",
    "tests/analysis/submission/hand_made",
    "tests/endtoend/test_live_view.py",
    "tests/replayer/sweep",
    "tests/replayer/profiling/test_command.py",
    "tests/endtoend/test_notebook.py",
    "tests/endtoend/test_ranks.py",
    "tests/docs/test_site.py",
    "tests/replayer/test_shortage.py",
    "tests/analysis/submission/test_replayed_packages.py",
    "tests/endtoend/test_run_signals.py",
    "tests/endtoend/test_machine.py",
    "tests/tracegen/test_cli.py",
    "tests/analysis/metrics/test_oracle.py",
)


class FolderScheduling(LoadFileScheduling):
    """Give a worker whole files, or the whole folders in TOGETHER; those in LONGEST first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = next((scope for scope in LONGEST if scope in self.workqueue), None)
        if longest is not None:
            self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling | None:
    """Schedule by folder where `--dist=loadfile` is asked for."""
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled modules in pytest's cache where Python is told to write none.

    Otherwise each worker, and each process that a test starts, compiles all modules anew: 0.1 s to 7 s of CPU each.
    """
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(config.cache.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.fixture(scope="session", autouse=True)
def tokenizers_once() -> Iterator[None]:
    """Loading a bundled tokenizer takes a second, and most traces are made with one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_load_tekken", functools.cache(tokens._load_tekken))
        yield


@pytest.fixture(scope="session", autouse=True)
def installation_once() -> Iterator[None]:
    """Digests of our code and versions of packages, which every run.json names, are computed once: 40 ms of CPU."""

    @functools.cache
    def distributions() -> list[SimpleNamespace]:
        return [
            SimpleNamespace(metadata={"Name": each.metadata["Name"]}, version=each.version)
            for each in metadata.distributions()
        ]

    digests = functools.cache(digest_code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description, "digest_code", digests)
        patch.setattr(description, "version", functools.cache(metadata.version))
        patch.setattr(beginning, "metadata", SimpleNamespace(distributions=distributions))
        yield


@pytest.fixture(scope="session", autouse=True)
def files_need_not_last() -> Iterator[None]:
    """No file of a test is to outlive a crash of the machine, and a disk takes milliseconds to promise that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
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
    monkeypatch.setattr(children, "run_logged", run_logged_here)
    monkeypatch.setattr(children, "capture", capture_here)
    monkeypatch.setattr(replanned, "run_child", child_here)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not BINARY:
        pytest.skip("no Chromium is installed")
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


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
