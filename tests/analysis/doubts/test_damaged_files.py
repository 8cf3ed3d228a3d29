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
Change = Callable[[Path], object]


def rewritten(change: Callable[[pa.Table], pa.Table], **options: Any) -> Change:
    return lambda path: pq.write_table(change(pq.read_table(path)), path, **options)


def first(name: str, value: Any, **options: Any) -> Change:
    """Put another value into the first cell of a column."""

    def change(path: Path) -> None:
        table = pl.read_parquet(path)
        values = pl.Series(name, [value, *table[name].to_list()[1:]])
        table.with_columns(values).write_parquet(path, **options)

    return change


def versioned(version: bytes) -> Change:
    return rewritten(lambda table: table.replace_schema_metadata({b"kv-run": version}))


def without(name: str) -> Change:
    return rewritten(lambda table: table.drop_columns([name]))


PART, COUNTERS = "moves/part-00000.parquet", "device.parquet"
DAMAGES: dict[str, tuple[str, Change, str]] = {
    "a column less": (PART, without("device_read_ns"), "column device_read_ns is missing"),
    "a column of another type": (PART, lambda path: pl.read_parquet(path).cast({"size_bytes": pl.String}).write_parquet(path), "column size_bytes is "),
    "an unknown word": (PART, first("move", "teleport"), "move = 'teleport'; it must be one of hit, store"),
    "a newer version": (PART, versioned(b"3"), "is of run format 3"),
    "a null": (PART, first("move", None), "column move holds nulls"),
    "a null that no statistics count": (PART, first("read_ns", None, statistics=False), "its log holds nulls"),
    "no rows": (PART, rewritten(lambda table: table.slice(0, 0)), "its log has no rows"),
    "a time before the run": (COUNTERS, first("time_ns", -5), "run backwards"),
    "bytes beyond all bounds": (COUNTERS, first("read_bytes", 2**63 - 1), "run backwards or are impossible"),
    "counters overwritten": (COUNTERS, lambda path: path.write_bytes(bytes(200) + path.read_bytes()[200:]), COUNTERS),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    name, change, reason = DAMAGES[damage]
    place = clean(5).save(tmp_path / "run", parts=1)
    change(place / name)
    assert reason in refusal(place)


def test_logs_that_other_tools_rewrote_stay_readable(tmp_path: Path) -> None:
    place = clean(50).save(tmp_path / "run", parts=3)
    before = check_run(place).to_json()
    for path in parts(place):
        pl.read_parquet(path).write_parquet(path)
    assert check_run(place).to_json() == before


@pytest.mark.parametrize("name", ["run.json", "moves", PART, COUNTERS])
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
