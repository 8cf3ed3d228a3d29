"""Statements and runs that are refused."""

from pathlib import Path

import pytest

from tests.analysis.sql.asking import call, refusal, rows_of
from tests.support.command_line import Run
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("select size_byte from moves", 'column "size_byte"; did you mean size_bytes?'),
        ("select m.opid from moves m", "did you mean op_id?"),
        ("select zzz from moves", "tables: moves, device (docs/reading-logs.md)."),
        ("select * from log", "relation 'log' was not found; tables: moves, device"),
        ("select * from devices", "did you mean device?"),
        ("selec 1", "not a query"),
        ("select 1; select 2", "one (and only one) statement"),
        ("select cast(move as int) from moves", "conversion from `str` to `i32` failed"),
        ("select median(read_ns) from moves where tokens > 'a'", "cannot compare string with numeric type"),
        ("select strange(move) from moves", "unsupported function 'strange'; tables: moves, device"),
        ("select count(*) as n, key from moves", "'key' should participate in the GROUP BY"),
        (f"select {'(' * 5000}1{')' * 5000}", "recursion limit exceeded"),
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_wrong_queries_are_refused_in_one_sentence(replay: Path, statement: str, reason: str, form: str) -> None:
    done = call(replay, statement, "--format", form, code=2)
    assert form == "csv" or not done.stdout  # CSV is written as it is computed
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


def test_the_command_as_typed(run: Run, replay: Path) -> None:
    """In a process of its own; the query may be one argument or several."""
    shown = run("analysis", "sql", replay, "select count(*) as n from moves").stdout
    assert shown.split() == ["n", str(len(rows_of(replay)))]
    assert run("analysis", "sql", replay, "select", "1", "as", "one", "--format", "json").stdout == '[{"one": 1}]\n'
    done = run("analysis", "sql", replay, "select * from mvoes", ok=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: SQL: relation 'mvoes' was not found; did you mean moves?\n"


def test_output_that_is_closed_early_ends_the_command_quietly(replay: Path) -> None:
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
