"""Plans made from Python with `replayer.plan`, as `replayer plan` makes them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import replayer
from replayer.schema import PLANNED_COLUMNS
from tests.support import traces
from tests.support.command_line import here
from tests.support.paths import ROOT
from tracegen.errors import InputError
from tracegen.schema import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Ten objects of 64 tokens; each is read right after it was stored, and the first ones later."""
    steps: list[traces.Step] = [(op, key, 64) for key in range(10) for op in "wr"]
    steps += [("r", key, 64) for key in range(3)]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps))


def test_a_plan_from_python_is_that_of_the_command(trace: Trace, tmp_path: Path) -> None:
    planned = replayer.plan(trace.path, model="tiny-1b", cpu_mem_gb=0.01, storage_capacity_gb=1)
    flags = ["--model", "tiny-1b", "--cpu-mem-gb", "0.01", "--storage-capacity-gb", "1"]
    moves = tmp_path / "moves.parquet"
    command = here("replayer", "plan", trace.path, *flags, "--json", "--moves", moves)
    printed = json.loads(command.stdout)
    summary = planned.summary
    assert summary.plan_fingerprint == printed["plan_fingerprint"]
    assert (summary.hits.cpu, summary.hits.nvme) == (printed["hits"]["cpu"], printed["hits"]["nvme"])
    assert (summary.ops, summary.reads) == (23, 13)
    frame = planned.moves()
    assert frame.columns == list(PLANNED_COLUMNS)
    assert frame.equals(pl.read_parquet(moves))


def test_a_plan_can_be_simulated_again(trace: Trace) -> None:
    planned = replayer.plan(trace, model="tiny-1b", cpu_mem_gb=0.01, storage_capacity_gb=math.inf)
    assert planned.plan.simulate() == planned.plan.simulate() == planned.summary
    assert planned.summary.largest_object == 64 * 24_576


def test_wrong_settings_are_named(trace: Trace) -> None:
    with pytest.raises(InputError) as refused:
        replayer.plan(trace, model="tiny-1b", users=0)
    assert (refused.value.setting, refused.value.subject) == ("users", 0)
    with pytest.raises(InputError) as refused:
        replayer.plan(trace)
    assert "`model`" in refused.value.remedy


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys, replayer; sys.exit('numpy' in sys.modules or 'pyarrow' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
