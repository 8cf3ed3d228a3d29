"""A small trace."""

from pathlib import Path

import pytest

from tests.support import traces
from tracegen.schema import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Eight objects of 64 KiB to 512 KiB, each read once."""
    steps = [(op, key, 1 + key) for key in range(8) for op in "wd"]
    return traces.write(tmp_path / "t.parquet", traces.columns(steps, [key // 2 for key in range(16)]))
