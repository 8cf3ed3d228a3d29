"""The code of docs/reading-logs.md, for each tool that reads the documented layout."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replayer.schema import LOG_COLUMNS
from tests.support.command_line import Run
from tests.support.paths import DEMO, ROOT

DOC = (ROOT / "docs" / "reading-logs.md").read_text()
SNIPPETS = dict(re.findall(r"## (\w+)\n```python\n(.*?)```", DOC, re.S))


@pytest.fixture(scope="module")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a short replay with a warm-up, evictions and misses; its log has several parts."""
    place = tmp_path_factory.mktemp("reading")
    run("tracegen", "generate", DEMO, "--requests", 30, "-o", place / "trace.parquet")
    sizes = ["--cpu-mem-gb", 0.02, "--storage-capacity-gb", 0.05, "--layout", "null", "--warmup", "20ops"]
    run("replayer", "run", place / "trace.parquet", "--model", "tiny-1b", *sizes, "-o", place / "run")
    parts = sorted((place / "run" / "moves").iterdir())  # their number depends on the time
    table = pa.concat_tables([pq.read_table(part) for part in parts]).unify_dictionaries()
    for number in range(3):
        piece = table.slice(number * (len(table) // 3), len(table) // 3 if number < 2 else None)
        pq.write_table(piece, parts[0].with_name(f"part-{number:05}.parquet"), compression="zstd")
    assert len(parts) <= 3
    return place / "run"


def rows_of(place: Path) -> list[dict[str, Any]]:
    return [row for part in sorted((place / "moves").iterdir()) for row in pq.read_table(part).to_pylist()]


def run_snippet(code: str, place: Path) -> list[tuple[Any, ...]]:
    names: dict[str, Any] = {}
    exec(code.replace("RUN", str(place)), names)
    found: list[tuple[Any, ...]] = names["answer"]
    return found


def test_the_documented_ways_of_reading_agree(replay: Path) -> None:
    rows = [row for row in rows_of(replay) if row["status"] == "ok" and not row["warmup"]]
    moves = sorted({row["move"] for row in rows})
    assert set(moves) == {"hit", "store", "demote", "drop", "miss", "bypass"}
    own = [[row for row in rows if row["move"] == move] for move in moves]
    totals = [(move, len(some), sum(row["size_bytes"] for row in some)) for move, some in zip(moves, own, strict=True)]
    p95_ms = [np.quantile([row["read_ns"] for row in some], 0.95) / 1e6 for some in own]
    assert set(SNIPPETS) == {"DuckDB", "Polars"}
    for name, code in SNIPPETS.items():
        answer = run_snippet(code, replay)
        assert [row[:3] for row in answer] == totals, name
        assert [row[3] for row in answer] == pytest.approx(p95_ms), name


def test_the_first_query_of_the_page_works(replay: Path) -> None:
    (query,) = re.findall(r'^    duckdb -c "(.*)"$', DOC, re.M)
    code = f"import duckdb; answer = duckdb.sql({query.replace('run1', 'RUN')!r}).fetchall()"
    counts = {move: count for move, count, _ in run_snippet(code, replay)}
    rows = rows_of(replay)
    assert counts == {move: sum(row["move"] == move for row in rows) for move in {row["move"] for row in rows}}


def test_columns_documented_as_never_null_have_no_nulls(replay: Path) -> None:
    """The page and the schema of the files agree."""
    optional = {"from_tier", "to_tier", "waited_for", "error"}
    schema = pq.read_schema(next((replay / "moves").iterdir()))
    assert {field.name for field in schema if field.nullable} == optional
    assert all(row[name] is not None for row in rows_of(replay) for name in LOG_COLUMNS if name not in optional)
