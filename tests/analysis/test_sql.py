"""SQL over logs, and the documented layout read by other tools: they must say the same."""

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from analysis import sql
from analysis.cli import main
from analysis.summary import summarise
from replayer.schema import DEVICE_ADDED, LOG_COLUMNS
from tests.support.command_line import Run
from tests.support.paths import DEMO, ROOT
from tracegen.schema import InputError

DOC = (ROOT / "docs" / "reading-logs.md").read_text()
SNIPPETS = dict(re.findall(r"## (\w+)\n```python\n(.*?)```", DOC, re.S))
BY_MOVE = """
    select move, count(*) as moves, sum(size_bytes) as bytes, quantile_cont(read_ns, 0.95) / 1e6 as read_p95_ms
    from moves where status = 'ok' and not warmup group by move order by move
"""


@pytest.fixture(scope="module")
def replay(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short replay with a warm-up, evictions and misses, its log in several parts."""
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
    parts = sorted((place / "run" / "moves").iterdir())  # as many as there was time for
    table = pa.concat_tables([pq.read_table(part) for part in parts]).unify_dictionaries()
    for number in range(3):
        piece = table.slice(number * (len(table) // 3), len(table) // 3 if number < 2 else None)
        pq.write_table(piece, parts[0].with_name(f"part-{number:05}.parquet"), compression="zstd")
    assert len(parts) <= 3
    return place / "run"


@pytest.fixture
def copy(replay: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(replay, tmp_path / "copy"))


def call(place: Path, statement: str, *flags: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["sql", str(place), statement, *map(str, flags)], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done


def ask(place: Path, statement: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(place, statement, "--format", "json").stdout)
    return found


def refusal(place: Path, statement: str, *flags: object) -> str:
    done = call(place, statement, *flags, code=2)
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line.removeprefix("Error: ")


def rows_of(place: Path) -> list[dict[str, Any]]:
    return [row for part in sorted((place / "moves").iterdir()) for row in pq.read_table(part).to_pylist()]


# Answers


def test_the_log_is_there_row_by_row(replay: Path) -> None:
    found = ask(replay, "select * from moves order by op_id, seq")
    assert list(found[0]) == LOG_COLUMNS
    assert found == sorted(rows_of(replay), key=lambda row: (row["op_id"], row["seq"]))
    assert any(row["warmup"] for row in found)
    assert {row["from_tier"] for row in found} == {"cpu", "nvme", None}


def test_sums_are_those_of_the_summary(replay: Path) -> None:
    (found,) = ask(replay, "select sum(new_tokens) as tokens, count(*) as n from moves where not warmup")
    assert found["tokens"] == summarise(replay)["tokens_generated"]
    assert found["n"] < len(rows_of(replay))


def test_device_is_a_table(replay: Path) -> None:
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
    """Also where the query could not be answered for another reason: the file must not be opened first."""
    file = tmp_path / "secret.csv"
    file.write_text("op_id\n1\n")
    told = table.format(file=file)
    for statement in (f"select * from {told}", f"with a as (select * from {told}) select 1 as x from a"):
        assert "reads moves and device and no other file" in refusal(replay, statement)
    with pytest.raises(InputError):
        sql._check(f"select 1 from moves where op_id in (select op_id from {told})")


@pytest.mark.parametrize("table", ["'{file}'", '"{file}"', "`{file}`", "public.moves", "moves.read_csv"])
def test_a_file_is_no_table(replay: Path, tmp_path: Path, table: str) -> None:
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
    assert "operators and clauses, and 300 are the most" in refusal(replay, statement)


def test_long_lists_are_no_long_queries(replay: Path) -> None:
    listed = ",".join(["1", "'2026-01-01'"] * 2_000)
    assert ask(replay, f"select count(*) as n from moves where cast(tokens as varchar) in ({listed})")


def test_a_count_without_a_name_is_called_so(replay: Path) -> None:
    rows = len(rows_of(replay))
    assert ask(replay, "select count(*) from moves") == [{"count": rows}]
    assert ask(replay, "select count(*) as len from moves") == [{"len": rows}]
    assert ask(replay, "select 1 as count, COUNT ( * ) from moves limit 1") == [{"count": 1, "len": rows}]


def test_text_of_a_log_is_neither_a_formula_nor_a_command(copy: Path) -> None:
    for part in (copy / "moves").iterdir():
        table = pq.read_table(part)
        texts = pa.array(["=1+1\x1b]0;x\x07"] * len(table))
        pq.write_table(table.set_column(table.schema.get_field_index("error"), "error", texts), part)
    asked = "select error, '-5' as number, '+1+2' as sum from moves limit 1"
    assert call(copy, asked, "--format", "csv").stdout == "error,number,sum\n'=1+1\x1b]0;x\x07,-5,'+1+2\n"
    assert call(copy, asked).stdout.splitlines()[1].startswith("=1+1\\x1b]0;x\\x07")


def test_counters_that_an_older_release_did_not_sample_are_null(tmp_path: Path, replay: Path) -> None:
    place = shutil.copytree(replay, tmp_path / "old")
    table = pq.read_table(place / "device.parquet")
    pq.write_table(table.drop_columns(list(DEVICE_ADDED)), place / "device.parquet")
    found = ask(place, "select * from device")
    older = dict.fromkeys(DEVICE_ADDED) | {"rank": 0}
    assert found == [row | older for row in table.to_pylist()]


def test_formats_agree(replay: Path) -> None:
    words = "select move, from_tier, tokens, read_ns / 1e6 as read_ms from moves order by op_id, seq limit 70"
    objects = ask(replay, words)
    rows = list(csv.DictReader(io.StringIO(call(replay, words, "--format", "csv").stdout)))
    assert [row["move"] for row in rows] == [row["move"] for row in objects]
    assert [row["from_tier"] or None for row in rows] == [row["from_tier"] for row in objects]
    assert [float(row["read_ms"]) for row in rows] == [row["read_ms"] for row in objects]
    shown = call(replay, words).stdout.splitlines()
    assert shown[0].split() == ["move", "from_tier", "tokens", "read_ms"]
    assert shown[-1] == "… and 20 more rows; print more with --rows."
    assert [line.split()[:3] for line in shown[1:-1]] == [
        [row["move"], row["from_tier"] or "-", str(row["tokens"])] for row in objects[:50]
    ]
    assert len(call(replay, words, "--rows", 70).stdout.splitlines()) == 71
    assert len(call(replay, words, "--rows", 3, "--format", "csv").stdout.splitlines()) == 4
    assert len(json.loads(call(replay, words, "--rows", 3, "--format", "json").stdout)) == 3


def test_tables_are_never_cut(replay: Path) -> None:
    shown = call(replay, f"select *, '{'x' * 500}' as long from moves limit 1").stdout
    assert shown.splitlines()[0].split() == [*LOG_COLUMNS, "long"]
    assert "x" * 500 in shown


def test_answers_without_rows(replay: Path) -> None:
    nothing = "select move from moves where tokens < 0"
    assert call(replay, nothing).stdout == "move\n"
    assert call(replay, nothing, "--format", "csv").stdout == "move\n"
    assert ask(replay, nothing) == []


def test_json_knows_no_nan(replay: Path) -> None:
    assert ask(
        replay,
        "select 0e0 * new_tokens / 0 as a, 1e0 / seq as b, null as c from moves where seq = 0 and new_tokens = 0 limit 1",
    ) == [{"a": None, "b": None, "c": None}]


def test_ranks_are_one_table_on_one_clock(copy: Path, tmp_path: Path) -> None:
    place = tmp_path / "ranks"
    place.mkdir()
    for rank in (0, 1):
        mine = Path(shutil.copytree(copy, place / f"rank_{rank}"))
        info = json.loads((mine / "run.json").read_text())
        info |= {"rank": rank, "clock": {"zero_ns": 10**18 + rank * 7_000}}
        info["conditions"]["ranks"] = 2
        (mine / "run.json").write_text(json.dumps(info))
    (place / "run.json").write_text(json.dumps({"run_version": 1, "ranks": 2, "status": "complete"}))
    (alone,) = ask(copy, "select count(*) as n, min(start_ns) as first, max(end_ns) as last from moves")
    (both,) = ask(place, "select count(*) as n, min(start_ns) as first, max(end_ns) as last from moves")
    assert both == {"n": 2 * alone["n"], "first": alone["first"], "last": alone["last"] + 7_000}
    by_rank = ask(place, "select rank, min(time_ns) as first from device group by rank order by rank")
    assert [row["rank"] for row in by_rank] == [0, 1]
    assert by_rank[1]["first"] - by_rank[0]["first"] == 7_000


def test_it_only_reads(copy: Path) -> None:
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
        assert refusal(copy, statement) == "SQL: this is no query; pass one that begins with select or with."
    assert ask(copy, "/* a */ -- b\n WITH a as (select 1 as x) select * from a") == [{"x": 1}]
    refusal(copy, "with a as (select 1) insert into moves select * from a")
    ask(copy, "select * from moves")
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


# Refusals


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("select size_byte from moves", 'column "size_byte"; did you mean size_bytes?'),
        ("select m.opid from moves m", "did you mean op_id?"),
        ("select zzz from moves", "tables: moves, device (docs/reading-logs.md)."),
        ("select * from log", "relation 'log' was not found; tables: moves, device"),
        ("select * from devices", "did you mean device?"),
        ("selec 1", "this is no query"),
        ("select 1; select 2", "one (and only one) statement"),
        ("select cast(move as int) from moves", "conversion from `str` to `i32` failed"),
        ("select median(read_ns) from moves where tokens > 'a'", "cannot compare string with numeric type"),
        ("select strange(move) from moves", "unsupported function 'strange'; tables: moves, device"),
        ("select count(*) as n, key from moves", "'key' should participate in the GROUP BY"),
        (f"select {'(' * 5000}1{')' * 5000}", "recursion limit exceeded"),
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_what_cannot_be_answered_is_refused_in_one_sentence(
    replay: Path, statement: str, reason: str, form: str
) -> None:
    done = call(replay, statement, "--format", form, code=2)
    assert form == "csv" or not done.stdout  # what is written as it is computed has begun
    message = done.stderr.removeprefix("Error: ").rstrip("\n")
    assert "\n" not in message
    assert reason in message
    assert message.startswith("SQL: ")
    assert len(message) < 300


def test_a_run_without_counters_has_no_device(copy: Path) -> None:
    (copy / "device.parquet").unlink()
    assert refusal(copy, "select * from device").endswith("tables: moves (docs/reading-logs.md).")


def test_damaged_runs_are_refused(copy: Path, tmp_path: Path) -> None:
    assert "is not a run directory" in refusal(tmp_path / "none", "select 1")
    (part, *_) = sorted((copy / "moves").iterdir())
    content = bytearray(part.read_bytes())
    middle = slice(100, len(content) * 3 // 4)
    content[middle] = bytes(len(content[middle]))
    part.write_bytes(content)
    for form in ("table", "json", "csv"):
        refusal(copy, "select sum(tokens), max(key) from moves", "--format", form)
    part.write_bytes(b"")
    assert f"{part} is not readable" in refusal(copy, "select 1")


def test_as_typed(run: Run, replay: Path) -> None:
    """A process of its own: the terminal's words, a query in several, output that somebody closes."""
    shown = run("analysis", "sql", replay, "select count(*) as n from moves").stdout
    assert shown.split() == ["n", str(len(rows_of(replay)))]
    assert run("analysis", "sql", replay, "select", "1", "as", "one", "--format", "json").stdout == '[{"one": 1}]\n'
    done = run("analysis", "sql", replay, "select * from mvoes", ok=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: SQL: relation 'mvoes' was not found; did you mean moves?\n"


def test_output_that_is_closed_early_ends_quietly(replay: Path) -> None:
    import subprocess
    import sys

    command = [
        sys.executable,
        "-m",
        "analysis",
        "sql",
        str(replay),
        "select a.* from moves a, moves b",
        "--format",
        "csv",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


# Other tools


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


def test_all_tools_are_named_and_their_code_compiles() -> None:
    assert set(SNIPPETS) == {"DuckDB", "pyarrow", "Polars", "pandas", "Spark"}
    for name, code in SNIPPETS.items():
        compile(code, name, "exec")


def test_commands_in_the_doc_work(run: Run, replay: Path) -> None:
    commands = re.findall(r"^    analysis sql run1 (\".*?\")(.*)$", DOC, re.M)
    assert len(commands) == 3
    for statement, flags in commands:
        assert call(replay, statement.strip('"'), *flags.split()).stdout


def test_what_is_never_null_is_never_null(replay: Path) -> None:
    """As the doc's list says, and as the files' own schema does."""
    optional = {"from_tier", "to_tier", "waited_for", "error"}
    schema = pq.read_schema(next((replay / "moves").iterdir()))
    assert {field.name for field in schema if field.nullable} == optional
    assert all(row[name] is not None for row in rows_of(replay) for name in LOG_COLUMNS if name not in optional)


# Older logs

# What the first writer of version 1 (commit 9789f03) did not write.
LATER = "rank executed window warmup precondition clock".split()
LATER_CONDITIONS = (
    "ranks users part cycles speedup duration_s max_concurrent_allocs prefill_tok_s precondition_gib io_depth throttle"
    " gds gpu_device gpu_read"
).split()


def test_runs_of_earlier_writers_are_still_read(copy: Path) -> None:
    info = json.loads((copy / "run.json").read_text())
    now = summarise(copy)
    info = {name: value for name, value in info.items() if name not in LATER}
    info["conditions"] = {name: value for name, value in info["conditions"].items() if name not in LATER_CONDITIONS}
    (copy / "run.json").write_text(json.dumps(info))
    (copy / "device.parquet").unlink()
    then = summarise(copy)
    assert then["valid"], then["findings"]
    for name in ("tokens_generated", "nvme_read_p95_ms", "hit_rate_reuse", "logged_ops", "wall_clock_tok_s"):
        assert then[name] == now[name], name
    assert "criteria met." in CliRunner().invoke(main, ["assess", str(copy)]).output
    assert ask(copy, BY_MOVE)
    assert CliRunner().invoke(main, ["summary", str(copy)]).exit_code == 0


def test_newer_logs_are_refused(copy: Path) -> None:
    info = json.loads((copy / "run.json").read_text()) | {"run_version": 3}
    (copy / "run.json").write_text(json.dumps(info))
    assert "is of run format 3, this release reads up to 2; upgrade it." in refusal(copy, "select 1")


def test_columns_that_are_added_later_do_no_harm(copy: Path) -> None:
    for part in (copy / "moves").iterdir():
        table = pq.read_table(part)
        pq.write_table(table.append_column("later", [[1] * len(table)]), part)
    assert list(ask(copy, "select * from moves limit 1")[0]) == LOG_COLUMNS
    assert summarise(copy)["valid"]
