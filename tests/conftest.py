"""Shared fixtures: the shipped sample as a trace, and the command line as a user types it."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

from tracegen.schema import Trace

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "traces" / "sample_sharegpt.json"
DEMO = ROOT / "traces" / "recipes" / "demo.toml"

# Shared, noisy machines: no deadlines; derandomised, so that CI fails only where the code changed.
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")

Run = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def tmpfs(place: Path, size: str) -> Iterator[Path]:
    """A disk of this size at a new folder, e.g. 64k; the test is skipped where nobody may mount."""
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], check=False).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def here(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A console script in this process, at a tenth of the time."""
    done = CliRunner().invoke(importlib.import_module(f"{tool}.cli").main, [str(one) for one in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([tool, *arguments], done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def run() -> Run:
    """Run a console script, `ok` asserts exit code 0: replayer and analysis in a process of their own.

    tracegen, which makes most of the calls, runs in this one, but where `alone` or an environment is asked for.
    """

    def call(
        *command: object, ok: bool = True, env: dict[str, str] | None = None, cwd: Path = ROOT, alone: bool = False
    ) -> subprocess.CompletedProcess[str]:
        if command[0] == "tracegen" and not (alone or env or cwd != ROOT):
            done = here("tracegen", *command[1:])
        else:
            module, *rest = map(str, command)
            full = [sys.executable, "-W", "error", "-m", module, *rest]
            done = subprocess.run(
                full, check=False, capture_output=True, text=True, cwd=cwd, env={**os.environ, **(env or {})}
            )
        assert not ok or done.returncode == 0, done.stderr
        return done

    return call


@pytest.fixture(scope="session")
def demo_trace(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of the demo's recipe."""
    path = tmp_path_factory.mktemp("demo") / "trace.parquet"
    run("tracegen", "generate", DEMO, "-o", path)
    return path


@pytest.fixture(scope="session")
def demo(demo_trace: Path) -> Trace:
    return Trace(demo_trace)
