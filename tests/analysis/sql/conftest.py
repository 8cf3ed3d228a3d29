"""A replay to ask."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command_line import Run
from tests.support.paths import DEMO


@pytest.fixture(scope="session")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a short replay with a warm-up, evictions and misses; its log has several parts."""
    place = tmp_path_factory.mktemp("sql")
    run("tracegen", "generate", DEMO, "--requests", 30, "-o", place / "trace.parquet")
    flags = [
        "--model",
        "tiny-1b",
        "--cpu-mem-gb",
        0.02,
        "--storage-capacity-gb",
        0.05,
        "--layout",
        "null",
        "--warmup",
        20,
    ]
    run("replayer", "run", place / "trace.parquet", *flags, "-o", place / "run")
    parts = sorted((place / "run" / "moves").iterdir())  # their number depends on the time
    table = pa.concat_tables([pq.read_table(part) for part in parts]).unify_dictionaries()
    for number in range(3):
        piece = table.slice(number * (len(table) // 3), len(table) // 3 if number < 2 else None)
        pq.write_table(piece, parts[0].with_name(f"part-{number:05}.parquet"), compression="zstd")
    assert len(parts) <= 3
    return place / "run"


@pytest.fixture
def copy(replay: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(replay, tmp_path / "copy"))
