"""Shared fixtures: the shipped sample as a trace, and the command line as a user types it."""

import contextlib
import functools
import importlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import polars as pl
import pytest
import vl_convert
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

from analysis.doubts import against_trace as replanned
from analysis.log.log import Log
from analysis.submission import traces as remade
from replayer.experiments import autoscale, scenarios
from replayer.experiments import replay_series as series
from replayer.schema import LOG_ENUMS
from tracegen.console import interrupts as signals
from tracegen.errors import InputError
from tracegen.schema import Trace
from tracegen.sources import tokenizers as tokens

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "tracegen" / "recipes" / "sample_sharegpt.json"
DEMO = ROOT / "tracegen" / "recipes" / "demo.toml"

# Shared, noisy machines: no deadlines; derandomised, so that CI fails only where the code changed.
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores, as many tests wait for replays in real time; 4 at most."""
    return min(4, len(os.sched_getaffinity(0)) + 1)


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


def here(tool: str, *arguments: object, cwd: Path | None = ROOT) -> subprocess.CompletedProcess[str]:
    """A console script in this process, at a tenth of the time; how signals are handled is as it was afterwards.

    Where `cwd` is None, it is that of this process.
    """
    handlers = {number: signal.getsignal(number) for number in signals.WORDS}
    try:
        with contextlib.chdir(cwd or Path.cwd()):
            done = CliRunner().invoke(importlib.import_module(f"{tool}.cli").main, [str(one) for one in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([tool, *arguments], done.exit_code, done.stdout, done.stderr)


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


def logged_here(command: Sequence[str], log: Path) -> int:
    """What a series replays, in this process: printed and kept as its own processes' output is."""
    assert command[:3] == [sys.executable, "-P", "-m"], "ranks are processes"
    done = here(*command[3:], cwd=None)
    click.echo(done.stderr, err=True, nl=False)
    with log.open("a") as kept:
        kept.write(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}exit {done.returncode}\n")
    return done.returncode


def analysed_here(*arguments: str) -> str:
    """What an `analysis` command prints to a series that asks, in this process."""
    done = here("analysis", *arguments, cwd=None)
    click.echo(done.stderr, err=True, nl=False)
    if done.returncode:
        raise click.exceptions.Exit(done.returncode)
    return done.stdout


def child_here(*command: object, what: str, timeout_s: float | None = None) -> str:
    """As `replanned.child`, in this process; test_a_plan_is_made_by_a_process_of_its_own has one."""
    del timeout_s
    done = here(*map(str, command))
    if done.returncode:
        raise InputError(f"{what}: {done.stderr}")
    return done.stdout


@pytest.fixture
def series_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps, searches and suites without processes of their own, each of which takes 0.7 s to start.

    tests/test_sweep.py has them with: what is started, ended and killed there.
    """
    monkeypatch.setattr(series, "_logged", logged_here)
    for module in (series, autoscale, scenarios):
        monkeypatch.setattr(module, "analysis", analysed_here)
    for planning in (replanned, remade):
        monkeypatch.setattr(planning, "child", child_here)


@contextlib.contextmanager
def latencies_known() -> Iterator[None]:
    """Latencies of rows that were seen before are not computed again, which is most of a summary's time.

    For tests that write one log under many a run.json; they are made of a row's enums, size and times.
    """
    kept = pl.selectors.by_name(*LOG_ENUMS, "size_bytes") | pl.selectors.ends_with("_ns")
    known: dict[bytes, tuple[pl.DataFrame, pl.DataFrame]] = {}
    compute = Log._spreads.func  # type: ignore[attr-defined]

    def once(log: Log) -> tuple[pl.DataFrame, pl.DataFrame]:
        rows = pl.concat(log.stretches).select(kept).collect().hash_rows().to_numpy().tobytes()
        if rows not in known:
            known[rows] = compute(log)
        return known[rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "_spreads", property(once))
        yield


@pytest.fixture(scope="module")
def latencies_once() -> Iterator[None]:
    with latencies_known():
        yield


@pytest.fixture
def charts_that_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes as long as all the rest of a report; tests/test_report.py does it."""
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
