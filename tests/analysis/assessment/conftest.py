"""A replay to assess."""

from pathlib import Path

import pytest

from analysis.summary.run_summary import Summary
from analysis.summary.summary import summarise
from tests.support.command_line import Run
from tests.support.paths import DEMO


@pytest.fixture(scope="session")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a short replay on cpu and an nvme tier that stores nothing, so that no disk matters."""
    place = tmp_path_factory.mktemp("assess")
    run("tracegen", "generate", DEMO, "--requests", 30, "-o", place / "trace.parquet")
    flags = ["--model", "tiny-1b", "--cpu-mem-gb", 0.02, "--token-ms", 0.1, "--layout", "null"]
    run("replayer", "run", place / "trace.parquet", *flags, "-o", place / "run")
    return place / "run"


@pytest.fixture(scope="session")
def ours(replay: Path) -> Summary:
    return summarise(replay)
