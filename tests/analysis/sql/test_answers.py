"""Answers of SQL over logs, in every format."""

import csv
import io
import json
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.sql import queries as sql
from analysis.summary.summary import summarise
from replayer.schema import DEVICE_ADDED, LOG_COLUMNS
from tests.analysis.sql.asking import ask, call, refusal, rows_of
from tracegen.errors import InputError


def test_moves_contains_every_row_of_the_log(replay: Path) -> None:
    found = ask(replay, "select * from moves order by op_id, seq")
    assert list(found[0]) == LOG_COLUMNS
    assert found == sorted(rows_of(replay), key=lambda row: (row["op_id"], row["seq"]))
    assert any(row["warmup"] for row in found)
    assert {row["from_tier"] for row in found} == {"cpu", "nvme", None}


def test_sums_agree_with_the_summary(replay: Path) -> None:
    (found,) = ask(replay, "select sum(new_tokens) as tokens, count(*) as n from moves where not warmup")
    assert found["tokens"] == summarise(replay).to_json()["tokens_generated"]
    assert found["n"] < len(rows_of(replay))


def test_samples_of_the_device_are_a_table(replay: Path) -> None:
    samples = pq.read_table(replay / "device.parquet").to_pylist()
    assert ask(replay, "select * from device") == [row | {"rank": 0} for row in samples]


@pytest.mark.parametrize(
    "table",
    [
        "read_csv('{file}')",
        "READ_CSV ('{file}')",
        "\"read_csv\"('{file}')",
        "`read_csv`('{file}')",
        "read_csv/* a */('{file}')",
        "read_csv -- a\n('{file}')",
        "read_csv\u00a0('{file}')",
        "(read_csv('{file}'))",
        "moves, read_csv('{file}')",
        "moves m join read_csv('{file}') f on m.op_id = f.op_id",
        "(select * from read_csv('{file}')) f",
        "read_parquet('http://127.0.0.1:9/x')",
        *(f"{name}('{{file}}')" for name in dir(pl) if name.startswith(("read_", "scan_"))),
    ],
)
def test_no_other_file_is_read(replay: Path, tmp_path: Path, table: str) -> None:
    """The file must not be opened even if the query is wrong for another reason."""
    file = tmp_path / "secret.csv"
    file.write_text("op_id\n1\n")
    source = table.format(file=file)
    for statement in (f"select * from {source}", f"with a as (select * from {source}) select 1 as x from a"):
        assert "reads moves and device and no other file" in refusal(replay, statement)
    with pytest.raises(InputError):
        sql._check_statement(f"select 1 from moves where op_id in (select op_id from {source})")


@pytest.mark.parametrize("table", ["'{file}'", '"{file}"', "`{file}`", "public.moves", "moves.read_csv"])
def test_a_path_is_not_a_table(replay: Path, tmp_path: Path, table: str) -> None:
    (tmp_path / "a.csv").write_text("op_id\n1\n")
    assert "was not found" in refusal(replay, f"select * from {table.format(file=tmp_path / 'a.csv')}")


@pytest.mark.parametrize(
    "statement",
    [
        "select " + "+".join(["1"] * 20_000),
        "select " + "||".join(["move"] * 1_000) + " as x from moves",
        " union all ".join(["select 1 as x"] * 1_000),
        "select move" + " is null" * 4_000 + " as x from moves",
        "select move" + "::varchar" * 4_000 + " as x from moves",
    ],
    ids=lambda text: text[:24],
)
def test_queries_that_would_end_the_process_are_refused(replay: Path, statement: str) -> None:
    assert "operators and clauses, more than 300" in refusal(replay, statement)


def test_long_lists_do_not_make_a_query_too_long(replay: Path) -> None:
    listed = ",".join(["1", "'2026-01-01'"] * 2_000)
    assert ask(replay, f"select count(*) as n from moves where cast(tokens as varchar) in ({listed})")


def test_a_count_without_a_name_is_called_count(replay: Path) -> None:
    rows = len(rows_of(replay))
    assert ask(replay, "select count(*) from moves") == [{"count": rows}]
    assert ask(replay, "select count(*) as len from moves") == [{"len": rows}]
    assert ask(replay, "select 1 as count, COUNT ( * ) from moves limit 1") == [{"count": 1, "len": rows}]


def test_text_of_a_log_is_not_interpreted(copy: Path) -> None:
    for part in (copy / "moves").iterdir():
        table = pq.read_table(part)
        texts = pa.array(["=1+1\x1b]0;x\x07"] * len(table))
        pq.write_table(table.set_column(table.schema.get_field_index("error"), "error", texts), part)
    asked = "select error, '-5' as number, '+1+2' as sum from moves limit 1"
    assert call(copy, asked, "--format", "csv").stdout == "error,number,sum\n'=1+1\x1b]0;x\x07,-5,'+1+2\n"
    assert call(copy, asked).stdout.splitlines()[1].startswith("=1+1\\x1b]0;x\\x07")


def test_counters_that_older_releases_did_not_sample_are_null(tmp_path: Path, replay: Path) -> None:
    place = shutil.copytree(replay, tmp_path / "old")
    table = pq.read_table(place / "device.parquet")
    pq.write_table(table.drop_columns(list(DEVICE_ADDED)), place / "device.parquet")
    found = ask(place, "select * from device")
    older = dict.fromkeys(DEVICE_ADDED) | {"rank": 0}
    assert found == [row | older for row in table.to_pylist()]


def test_formats_agree(replay: Path) -> None:
    words = "select move, from_tier, tokens, read_ns / 1e6 as read_ms from moves order by op_id, seq limit 60"
    objects = ask(replay, words)
    rows = list(csv.DictReader(io.StringIO(call(replay, words, "--format", "csv").stdout)))
    assert [row["move"] for row in rows] == [row["move"] for row in objects]
    assert [row["from_tier"] or None for row in rows] == [row["from_tier"] for row in objects]
    assert [float(row["read_ms"]) for row in rows] == [row["read_ms"] for row in objects]
    shown = call(replay, words).stdout.splitlines()
    assert shown[0].split() == ["move", "from_tier", "tokens", "read_ms"]
    assert shown[-1].startswith("… and 10 more rows; ")
    assert [line.split()[:3] for line in shown[1:-1]] == [
        [row["move"], row["from_tier"] or "-", str(row["tokens"])] for row in objects[:50]
    ]
    assert len(call(replay, words, "--rows", 70).stdout.splitlines()) == 61
    assert len(call(replay, words, "--rows", 3, "--format", "csv").stdout.splitlines()) == 4
    assert len(json.loads(call(replay, words, "--rows", 3, "--format", "json").stdout)) == 3


def test_tables_show_all_columns_in_full(replay: Path) -> None:
    shown = call(replay, f"select *, '{'x' * 500}' as long from moves limit 1").stdout
    assert shown.splitlines()[0].split() == [*LOG_COLUMNS, "long"]
    assert "x" * 500 in shown


def test_answers_without_rows_have_a_head(replay: Path) -> None:
    nothing = "select move from moves where tokens < 0"
    assert call(replay, nothing).stdout == "move\n"
    assert call(replay, nothing, "--format", "csv").stdout == "move\n"
    assert ask(replay, nothing) == []


def test_nan_is_null_in_json(replay: Path) -> None:
    assert ask(
        replay,
        "select 0e0 * new_tokens / 0 as a, 1e0 / seq as b, null as c from moves where seq = 0 and new_tokens = 0 limit 1",
    ) == [{"a": None, "b": None, "c": None}]


def test_ranks_share_a_table_and_a_clock(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "ranks"
    place.mkdir()
    for rank in (0, 1):
        own = Path(shutil.copytree(copy, place / f"rank_{rank}"))
        info = json.loads((own / "run.json").read_text())
        info |= {"rank": rank, "clock": {"zero_ns": 10**18 + rank * 7_000}}
        info["conditions"]["ranks"] = 2
        (own / "run.json").write_text(json.dumps(info))
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": 2, "status": "complete"}))
    (alone,) = ask(copy, "select count(*) as n, min(start_ns) as first, max(end_ns) as last from moves")
    (both,) = ask(place, "select count(*) as n, min(start_ns) as first, max(end_ns) as last from moves")
    assert both == {"n": 2 * alone["n"], "first": alone["first"], "last": alone["last"] + 7_000}
    by_rank = ask(place, "select rank, min(time_ns) as first from device group by rank order by rank")
    assert [row["rank"] for row in by_rank] == [0, 1]
    assert by_rank[1]["first"] - by_rank[0]["first"] == 7_000


def test_queries_only_read(copy: Path) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for statement in (
        "drop table moves",
        "/**/drop table moves",
        "/* */-- select\n  DELETE from moves",
        "create table a as select 1",
        "insert into moves values (1)",
        "show tables",
        "/**/" * 5_000,
    ):
        assert refusal(copy, statement) == "SQL: not a query; pass one that begins with select or with."
    assert ask(copy, "/* a */ -- b\n WITH a as (select 1 as x) select * from a") == [{"x": 1}]
    refusal(copy, "with a as (select 1) insert into moves select * from a")
    ask(copy, "select * from moves")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
