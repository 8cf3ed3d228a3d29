"""Other tools that read the documented layout give the same answers."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from replayer.schema import LOG_COLUMNS
from tests.analysis.sql.asking import BY_MOVE, DOC, SNIPPETS, ask, call, rows_of
from tests.support.command_line import Run


def answer(name: str, place: Path) -> list[tuple[Any, ...]]:
    names: dict[str, Any] = {}
    exec(SNIPPETS[name].replace("RUN", str(place)), names)
    found: list[tuple[Any, ...]] = names["answer"]
    return found


def test_the_documented_ways_of_reading_agree(replay: Path) -> None:
    ours = [tuple(row.values()) for row in ask(replay, BY_MOVE)]
    assert {"hit", "store", "demote", "drop", "miss", "bypass"} == {row[0] for row in ours}
    for name in ("DuckDB", "Polars"):
        found = answer(name, replay)
        assert [row[:3] for row in found] == [row[:3] for row in ours], name
        assert [row[3] for row in found] == pytest.approx([row[3] for row in ours]), name
    assert answer("pyarrow", replay) == [row[:3] for row in ours]


def test_the_code_for_each_tool_compiles() -> None:
    assert set(SNIPPETS) == {"DuckDB", "pyarrow", "Polars", "pandas", "Spark"}
    for name, code in SNIPPETS.items():
        compile(code, name, "exec")


def test_commands_in_the_doc_work(run: Run, replay: Path) -> None:
    commands = re.findall(r"^    analysis sql run1 (\".*?\")(.*)$", DOC, re.M)
    assert len(commands) == 3
    for statement, flags in commands:
        assert call(replay, statement.strip('"'), *flags.split()).stdout


def test_columns_documented_as_never_null_have_no_nulls(replay: Path) -> None:
    """The page and the schema of the files agree."""
    optional = {"from_tier", "to_tier", "waited_for", "error"}
    schema = pq.read_schema(next((replay / "moves").iterdir()))
    assert {field.name for field in schema if field.nullable} == optional
    assert all(row[name] is not None for row in rows_of(replay) for name in LOG_COLUMNS if name not in optional)
