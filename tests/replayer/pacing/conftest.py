"""Traces that several tests of pacing replay."""

from pathlib import Path

import pytest

from tests.replayer.pacing.paced_runs import chat, lay_out
from tests.support import traces
from tracegen.schema import Trace


@pytest.fixture
def long_trace(tmp_path: Path) -> Trace:
    """1,500 ops, 3 ms each on four workers: more than a second."""
    return traces.write(tmp_path / "t.parquet", lay_out(chat(6, 43)))


@pytest.fixture
def overtaken(tmp_path: Path) -> Trace:
    """40 stores that are in no hurry, and after them 40 that are, and go first."""
    steps = [("w", key, 1) for key in range(80)]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps, qos=[2] * 40 + [0] * 40))


@pytest.fixture
def small_trace(tmp_path: Path) -> Trace:
    """Five users, six requests each."""
    return traces.write(tmp_path / "small.parquet", lay_out(chat(5, 6)))
