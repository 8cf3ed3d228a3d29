"""Parts and device counters that are damaged or not the replayer's are refused in one sentence."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.summary.summary import check_run
from replayer.schema import parts
from tests.support.crafted_runs import clean
from tests.support.doubts import refusal

pytestmark = pytest.mark.usefixtures("latencies_once")


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def column(name: str, make: Callable[[pa.ChunkedArray], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.column_names.index(name), name, make(table[name]))


def one_cell(name: str, value: Any, row: int = 0) -> Callable[[pa.Table], pa.Table]:
    """A table with another value in one cell, in the column's own type."""

    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        kind = table.schema.field(name).type
        plain = pa.string() if pa.types.is_dictionary(kind) else kind
        made = pa.array(values, plain)
        made = made.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else made
        fields = [pa.field(one.name, one.type, nullable=True) for one in table.schema]
        arrays = [made if one == name else table[one] for one in table.column_names]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=table.schema.metadata))

    return change


def versioned(version: bytes) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.replace_schema_metadata({b"kv-run": version})


STRANGE_PARTS: list[tuple[str, Callable[[pa.Table], pa.Table], str]] = [
    ("a column less", lambda table: table.drop_columns(["device_read_ns"]), "column device_read_ns is missing"),
    ("numbers as text", column("size_bytes", lambda c: c.cast(pa.string())), "column size_bytes is string, not int64"),
    ("words as codes", column("move", lambda c: pa.array([0] * len(c), pa.int64())), "column move is int64, not text"),
    ("an unknown word", one_cell("move", "teleport"), "move = 'teleport'; it must be one of hit, store"),
    ("a newer version", versioned(b"3"), "is of run format 3"),
    *[(f"a null in {name}", one_cell(name, None), f"column {name} holds nulls") for name in ("end_ns", "move", "warmup")],
    ("no rows", lambda table: table.slice(0, 0), "its log has no rows"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), [case[1:] for case in STRANGE_PARTS], ids=[c[0] for c in STRANGE_PARTS])
def test_damaged_parts_are_refused(tmp_path: Path, change: Any, reason: str) -> None:
    place = clean(5).save(tmp_path / "run", parts=1)
    rewritten(place / "moves" / "part-00000.parquet", change)
    assert reason in refusal(place)


def test_nulls_are_found_without_statistics(tmp_path: Path) -> None:
    place = clean(5).save(tmp_path / "run", parts=1)
    part = place / "moves" / "part-00000.parquet"
    for name in ("warmup", "rank", "read_ns"):
        table = pq.read_table(part)
        pq.write_table(one_cell(name, None)(table), part, write_statistics=False)
        assert "its log holds nulls" in refusal(place)
        pq.write_table(table, part)


def test_logs_that_other_tools_rewrote_stay_readable(tmp_path: Path) -> None:
    place = clean(50).save(tmp_path / "run", parts=3)
    before = check_run(place).to_json()
    for path in parts(place):
        pl.read_parquet(path).write_parquet(path)
    assert check_run(place).to_json() == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is not readable"),
        (lambda path: path.write_bytes(b""), "is not readable"),
        (lambda path: pl.DataFrame({"a": [1]}).write_parquet(path), "column time_ns is missing"),
        (lambda path: rewritten(path, lambda table: table.drop_columns(["system_cpu"])), "column system_cpu is missing"),
        (lambda path: rewritten(path, versioned(b"7")), "is of run format 7"),
        (lambda path: rewritten(path, one_cell("time_ns", None)), "column time_ns holds nulls"),
        (lambda path: rewritten(path, one_cell("time_ns", -5)), "run backwards"),
        (lambda path: rewritten(path, one_cell("interval_ns", 0)), "run backwards"),
        (lambda path: rewritten(path, one_cell("read_bytes", -5)), "run backwards"),
        (lambda path: path.write_bytes(bytes(200) + path.read_bytes()[200:]), "device.parquet"),
        (lambda path: (path.unlink(), path.mkdir()), "is not a regular file"),
    ],
)  # fmt: skip
def test_damaged_counters_are_refused(tmp_path: Path, change: Callable[[Path], object], reason: str) -> None:
    place = clean(50).save(tmp_path / "run")
    change(place / "device.parquet")
    message = refusal(place)
    assert reason in message
    assert "device.parquet" in message


@pytest.mark.parametrize("name", ["run.json", "moves", "moves/part-00000.parquet", "device.parquet"])
def test_unreadable_files_are_not_called_damaged(name: str) -> None:
    """Not in tmp_path, which others may not enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        place = clean(50).save(Path(folder) / "run", parts=1)
        (place / name).chmod(0)
        me = os.geteuid()
        try:
            os.seteuid(me or 65534)  # root may read everything
            message = refusal(place)
        finally:
            os.seteuid(me)
            (place / name).chmod(0o755)
    assert f"{place / name}: you may not read it" in message
