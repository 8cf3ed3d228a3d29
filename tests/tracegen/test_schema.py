"""Trace files: they are read as written, and violations of the format are refused or listed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import traces
from tracegen.errors import InputError
from tracegen.schema import DTYPES, ENUMS, METADATA_KEY, Columns, Metadata, Trace
from tracegen.trace.invariants import Problem, TraceCheck

STEPS = [("w", 0, 5), ("d", 0, 5), ("w", 1, 7), ("r", 0, 5), ("d", 1, 7), ("w", 2, 9)]
REQUESTS = [0, 0, 1, 1, 1, 2]


def raw(path: Path) -> bytes:
    content: bytes = pq.ParquetFile(path).metadata.metadata[METADATA_KEY]
    return content


@pytest.fixture
def good() -> Columns:
    return traces.columns(STEPS, REQUESTS)


def test_a_trace_is_read_as_it_was_written(tmp_path: Path, good: Columns) -> None:
    trace = traces.write(tmp_path / "t.parquet", good)
    (batch,) = trace.batches()
    assert all((batch[name] == good[name]).all() for name in DTYPES)
    assert trace.violations().problems == []
    counts = {"ops": 6, "requests": 3, "sessions": 3, "users": 3, "keys": 3, "tokens_generated": 6}
    assert trace.metadata.counts == counts


def test_a_trace_by_another_writer_is_valid(tmp_path: Path, good: Columns) -> None:
    """Plain string columns from Polars, row groups of two rows, the metadata added as the specification says."""
    ours = traces.write(tmp_path / "ours.parquet", good)
    frame = pl.DataFrame(
        {name: [ENUMS[name][code] for code in good[name]] if name in ENUMS else good[name] for name in DTYPES}
    )
    metadata = raw(ours.path).decode()
    frame.write_parquet(tmp_path / "theirs.parquet", row_group_size=2, metadata={METADATA_KEY.decode(): metadata})
    assert Trace(tmp_path / "theirs.parquet").violations().problems == []


# (column, row, value, column of the violation, words of its rule); all in one pass over 6 rows.
VIOLATIONS: list[tuple[str, int, int, str, str]] = [
    ("op_id", 3, 9, "op_id", "row's number"),
    ("time_ns", 2, 0, "time_ns", "less than in the row before"),
    ("time_ns", 0, -5, "time_ns", "at least 0"),
    ("request_id", 5, 4, "request_id", "without gaps"),
    ("request_id", 5, 99, "request_id", "dense"),
    ("session_id", 4, 2, "session_id", "same on all ops of a request"),
    ("user_id", 1, 2, "user_id", "same on all ops of a session"),
    ("turn", 2, 2, "turn", "1, 2, …"),
    ("turn", 0, 0, "turn", "at least 1"),
    ("step", 4, 9, "step", "grows by at most 1"),
    ("step", 0, 1, "step", "starts at 0"),
    ("qos", 4, 0, "qos", "same on all ops of a request"),
    ("key", 5, 4, "key", "without gaps"),
    ("key", 3, -1, "key", "dense"),
    ("op", 5, 1, "key", "used before it was written"),
    ("op", 3, 0, "key", "written twice"),
    ("tokens", 1, 6, "tokens", "same on all ops of a key"),
    ("tokens", 5, -3, "tokens", "at least 1"),
    ("new_tokens", 5, -1, "new_tokens", "at least 0"),
    ("think_ns", 4, 5, "think_ns", "first op of a request"),
    ("think_ns", 0, 5, "think_ns", "user's first request"),
]


@pytest.mark.parametrize(("column", "row", "value", "named", "rule"), VIOLATIONS)
def test_each_violation_is_named(
    tmp_path: Path, good: Columns, column: str, row: int, value: int, named: str, rule: str
) -> None:
    good[column][row] = value
    trace = traces.write(tmp_path / "t.parquet", good)
    problems = [p for p in trace.violations().problems if p.row is not None]
    assert any(p.column == named and rule in p.rule for p in problems), [str(p) for p in problems]
    assert any(abs((p.row or 0) - row) <= 1 for p in problems)
    with pytest.raises(InputError, match=r"t\.parquet, row \d"):
        trace.check()


def test_many_violations_are_counted_and_a_hundred_listed(tmp_path: Path, good: Columns) -> None:
    many = {name: np.repeat(column[:1], 200_000) for name, column in good.items()}
    trace = traces.write(tmp_path / "t.parquet", many)
    found = trace.violations()
    assert [(problem.row, problem.column) for problem in found.problems[:2]] == [(1, "op_id"), (1, "key")]
    assert (len([one for one in found.problems if one.row is not None]), found.count) == (100, 2 * 199_999)
    with pytest.raises(InputError, match=r"row 1: op_id = 0: .* \(399,997 more\)"):
        list(trace.checked_batches(1000))


def test_one_users_requests_do_not_interleave(tmp_path: Path) -> None:
    steps = [("w", 0, 1), ("w", 1, 1), ("d", 0, 1)]
    batch = traces.columns(steps, [0, 1, 0], user_id=[0, 0, 0], step=[0, 0, 1], time_ns=[0, 5, 9])
    problems = [str(p) for p in traces.write(tmp_path / "t.parquet", batch).violations().problems]
    assert problems == ["row 2: request_id = 0: this user's next request has begun already"]


def rewrite(path: Path, change: Any) -> None:
    changed, metadata = change(pq.read_table(path), json.loads(raw(path)))
    pq.write_table(changed.replace_schema_metadata({METADATA_KEY: json.dumps(metadata)}), path)


def test_altered_ops_and_altered_counts_are_seen(tmp_path: Path, good: Columns) -> None:
    path = traces.write(tmp_path / "t.parquet", good).path
    times = pa.array(np.arange(6) * 2000)
    rewrite(path, lambda t, m: (t.set_column(1, t.schema.field(1), times), m | {"counts": m["counts"] | {"users": 17}}))
    assert {problem.column for problem in Trace(path).violations().problems} == {"fingerprint", "counts.users"}


REFUSALS: dict[str, tuple[Any, str]] = {
    "a seed that is no number": (lambda t, m: (t, m | {"seed": True}), "$.seed"),
    "version 2": (lambda t, m: (t, m | {"format_version": 2}), "format 2, but this release reads 1"),
    "a shard of none": (lambda t, m: (t, m | {"part": {"index": 0, "of": 0}}), "$.part"),
    "a shard without its columns": (lambda t, m: (t, m | {"part": {"index": 0, "of": 2}}), "person is missing"),
    "a list as metadata": (lambda t, _: (t, [1]), "metadata is damaged"),
    "metadata cut short": (lambda t, _: (t, {"format_version": 1}), "`seed`"),
    "one column twice": (lambda t, m: (t.append_column("key", t["key"]), m), "has 2 columns key"),
    "column missing": (lambda t, m: (t.drop_columns(["key"]), m), "column key is missing"),
    "wrong type": (lambda t, m: (t.set_column(11, "key", t["key"].cast(pa.int32())), m), "column key is int32"),
    "no rows": (lambda t, m: (t.slice(0, 0), m), "holds no ops"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, good: Columns, name: str) -> None:
    change, reason = REFUSALS[name]
    path = traces.write(tmp_path / "t.parquet", good).path
    rewrite(path, change)
    with pytest.raises(InputError) as refused:
        Trace(path)
    assert reason in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("op", "burn", "row 0: op = 'burn'; write one of write, read, delete"),
        ("tokens", None, "row 0: tokens is null"),
    ],
)
def test_values_that_cannot_be_read_are_refused(
    tmp_path: Path, good: Columns, column: str, value: object, reason: str
) -> None:
    path = traces.write(tmp_path / "t.parquet", good).path
    table = pq.read_table(path)
    kind = pa.string() if column in ENUMS else pa.int32()
    values = [value, *table[column].to_pylist()[1:]]
    changed = table.set_column(table.schema.names.index(column), column, pa.array(values, kind))
    pq.write_table(changed.replace_schema_metadata({METADATA_KEY: raw(path)}), path)
    with pytest.raises(InputError) as refused:
        Trace(path).check()
    assert reason in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"not parquet at all", None, "truncated"])
def test_files_that_are_no_parquet_are_refused(tmp_path: Path, good: Columns, content: bytes | str | None) -> None:
    path = tmp_path / "t.parquet"
    if content == "truncated":
        traces.write(path, good)
        content = path.read_bytes()[:-200]
    if isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        Trace(path)
    assert str(path) in str(refused.value)


def test_violations_do_not_depend_on_batches(good: Columns) -> None:
    good["session_id"][4] = 0
    good["tokens"][3] = 7
    good["key"][2] = 5

    def found(size: int) -> list[Problem]:
        check = TraceCheck(6, Metadata(0, {}, "", counts={"keys": 6}))
        for at in range(0, 6, size):
            check.feed({name: column[at : at + size] for name, column in good.items()})
        check.finish()
        return check.problems

    whole = found(6)
    assert {problem.column for problem in whole} >= {"session_id", "tokens", "key", "counts.keys"}
    assert found(1) == found(4) == whole
