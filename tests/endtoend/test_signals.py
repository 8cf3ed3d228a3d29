"""Commands that are interrupted end in one line, with the signal's exit code, and leave nothing unfinished."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Run
from tests.support.imports import EXCERPT
from tests.support.paths import ROOT
from tracegen.schema import Trace

ENDS = {signal.SIGINT: (130, "Interrupted."), signal.SIGTERM: (143, "Terminated."), signal.SIGHUP: (129, "Hung up.")}
WRITER = ["tracegen.trace.writing", "TraceWriter"]
TO = ["-o", "{out}"]
MADE = ["--set", "mix.personas=1", "--requests", "40", *TO]
COMMANDS: dict[str, list[str]] = {
    "generate": ["tracegen", "generate", *MADE],
    "parts": ["tracegen", "generate", *MADE, "--part-ops", "1000"],
    "import": ["tracegen", "import", "mooncake", str(EXCERPT), *TO],
    "merge": ["tracegen", "merge", "{trace}", "{trace}", *TO],
    "slice": ["tracegen", "slice", "{trace}", "--requests", "50", *TO],
    "scale": ["tracegen", "scale", "{trace}", "--users", "2", *TO],
    "export": ["tracegen", "export", "mooncake", "{trace}", *TO],
    "metrics": ["analysis", "metrics"],
    "simulate": ["replayer", "simulate", "{trace}", "--model", "tiny-1b", "--cpu-mem-gb", "1,2", "--threads", "2", *TO],
}
POINTS: dict[str, tuple[str, list[str], str]] = {
    "before the output is made": ("generate", ["tracegen.trace.writing", "check_output"], "after"),
    "once its file is open": ("generate", ["tracegen.trace.writing", "TraceWriter", "_open_file"], "after"),
    "before the writer is entered": ("parts", [*WRITER, "__enter__"], "before"),
    "before the sources are opened": ("generate", ["tracegen.generate", "open_sources"], "before"),
    "before the first ops": ("import", [*WRITER, "write"], "before"),
    "after the first ops": ("merge", [*WRITER, "write"], "after"),
    "while a slice is read": ("slice", ["tracegen.derive.reshape", "_select_rows"], "before"),
    "before the last ops": ("scale", [*WRITER, "_finish"], "before"),
    "before the file has its name": ("generate", ["pathlib", "Path", "replace"], "before"),
    "while what is unfinished is removed": ("parts", ["tracegen.outputs", "remove"], "before"),
    "before analysis has begun": ("metrics", ["analysis.summary.glossary", "find_families"], "before"),
    "in analysis": ("metrics", ["analysis.summary.glossary", "find_families"], "after"),
    "while a trace is loaded": ("simulate", ["replayer.questions.cells", "Workload"], "after"),
    "before cells are planned": ("simulate", ["replayer.questions.cells", "CellPlanner", "plan_all"], "before"),
    "while cells are planned": ("simulate", ["replayer.planning.counts", "PlanCounts", "add"], "before"),
    "before the cells have their name": ("simulate", ["pathlib", "Path", "replace"], "before"),
    "before an export": ("export", ["tracegen.formats.mooncake", "read_requests"], "before"),
    "in an export": ("export", ["tracegen.formats.export", "_require_even_blocks"], "after"),
}


@pytest.fixture(scope="module")
def trace(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    run("tracegen", "import", "mooncake", EXCERPT, "-o", path)
    return path


def ended(cases: list[Any]) -> list[tuple[int, str]]:
    command = [sys.executable, "-m", "tests.support.signalled_commands"]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, cwd=ROOT, check=True)
    return [tuple(one) for one in json.loads(done.stdout)]


def test_nothing_is_left_wherever_a_command_is_ended(trace: Path, tmp_path: Path) -> None:
    cases, signals = [], [number for number, _ in zip(itertools.cycle(ENDS), POINTS, strict=False)]
    for place, (number, (name, where, when)) in enumerate(zip(signals, POINTS.values(), strict=True)):
        folder = tmp_path / str(place)
        folder.mkdir()
        arguments = [one.format(trace=trace, out=folder / "o") for one in COMMANDS[name]]
        cases.append([number, where, when, arguments])
    for place, (number, point, (got, said)) in enumerate(zip(signals, POINTS, ended(cases), strict=True)):
        # simulate has printed its table by then: a full disk loses the file alone
        last = said.splitlines()[-1] if point == "before the cells have their name" else said.strip()
        assert (got, last) == ENDS[number], point
        left = list((tmp_path / str(place)).iterdir())
        if point == "while what is unfinished is removed":  # it has its name already
            Trace(left.pop()).check()
        assert left == [], point


@pytest.mark.parametrize(("tool", "number"), [*zip(("tracegen", "replayer", "analysis"), ENDS, strict=True)])
def test_a_signal_while_modules_are_imported_is_one_line(tool: str, number: signal.Signals, tmp_path: Path) -> None:
    """The first module that takes time is one of ours, and gets the signal."""
    (tmp_path / "click.py").write_text(f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n")
    # As from a terminal, whoever runs the tests.
    command = f"import signal; signal.signal({int(number)}, signal.SIG_DFL); import {tool}.__main__ as m; m.main()"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr.strip(), done.stdout) == (*ENDS[number], "")
