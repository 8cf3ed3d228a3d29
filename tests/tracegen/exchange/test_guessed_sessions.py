"""Facts that an import infers: decode batches of an I/O log, sessions of calls of known length only."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command_line import Run
from tests.support.crafted_runs import clean
from tests.support.doubts import found
from tests.support.imports import imported, ops
from tests.support.traces import joined
from tests.support.workloads import rows as rows_of
from tests.tracegen.export.exports import export_trace
from tracegen.schema import DECODE, Trace, has_guessed_sessions

SECOND = 10**9


def test_an_io_log_keeps_its_phases_without_its_evictions(tmp_path: Path) -> None:
    file = tmp_path / "io.csv"
    file.write_text(
        "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n"
        "1700000000.5,Write,4096,Tier-0,a,Prefill\n"
        "1700000001.0,Write,4096,Tier-2,a,Evict\n"
        "1700000002.5,Read,4096,Tier-2,a,Decode\n"
        "1700000003,Read,2048,Tier-2,b,Decode\n"
        "1700000004,Read,4096,Tier-2,a,Prefill\n"
    )
    trace = imported("mlcommons", file, tmp_path / "t.parquet", bytes_per_token=1000)
    # The log begins with a read of b: it was written before.
    assert rows_of(ops(trace), "time_ns", "phase", "op", "source", "key", "tokens", "turn") == [
        (0, "prefill", "write", "user", 0, 5, 1),
        (2 * SECOND, "decode", "read", "user", 0, 5, 2),
        (2_500_000_000, "prefill", "write", "user", 1, 3, 1),
        (3_500_000_000, "prefill", "read", "multi_turn", 0, 5, 3),
    ]
    assert trace.metadata.counts["evictions"] == 1


def test_an_exported_io_log_is_imported_with_its_decode_reads(demo: Trace, tmp_path: Path) -> None:
    export_trace("mlcommons", demo, tmp_path / "io.csv", 64)
    back, before = ops(imported("mlcommons", tmp_path / "io.csv", tmp_path / "t.parquet", bytes_per_token=64)), None
    before = joined(list(demo.batches()))
    for name in ("op", "phase", "key", "tokens"):
        assert (back[name] == before[name]).all(), name
    decoded = before["phase"] == DECODE
    generated = np.bincount(before["request_id"], before["new_tokens"] * decoded)
    assert generated.sum() > 0
    assert back["new_tokens"].sum() == (-(-generated // 32) * 32).sum()


def azure(path: Path) -> Path:
    body = "".join(f"2023-11-16 18:{minute:02}:00.0000001,{100 + 50 * minute},10\n" for minute in range(40))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + body)
    return path


def test_a_trace_says_whether_its_sessions_were_guessed(run: Run, tmp_path: Path) -> None:
    file, guess, none = azure(tmp_path / "a.csv"), tmp_path / "guess.parquet", tmp_path / "none.parquet"
    message = run("tracegen", "import", "azure", file, "-o", guess).stderr
    joined_requests = Trace(guess).metadata.counts["requests_in_guessed_sessions"]
    assert 10 < joined_requests == 40 - Trace(guess).metadata.counts["sessions"] < 39
    of = ops(Trace(guess))
    prompts = np.bincount(of["request_id"], np.where(of["phase"] == 0, of["tokens"], 0))
    assert prompts.tolist() == [100 + 50 * minute for minute in range(40)], "a session adds what it lacks"
    assert f"{joined_requests:,} requests were joined to earlier ones by guess" in message
    assert "sessions guessed" in run("tracegen", "info", guess).stdout
    assert run("tracegen", "import", "azure", file, "--sessions", "none", "-o", none).stderr == ""
    assert Trace(none).metadata.counts["sessions"] == 40
    assert not (ops(Trace(none))["source"] == 1).any(), "no reuse is invented"
    assert "sessions guessed" not in run("tracegen", "info", none).stdout


def test_slices_and_merges_of_guessed_sessions_are_guessed_too(run: Run, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.parquet" for name in ("whole", "slice", "both")]
    run("tracegen", "import", "azure", azure(tmp_path / "a.csv"), "-o", paths[0])
    run("tracegen", "slice", paths[0], "--requests", 9, "-o", paths[1])
    run("tracegen", "merge", paths[1], paths[0], "-o", paths[2])
    assert all(has_guessed_sessions(Trace(path).metadata.recipe) for path in paths)


@pytest.mark.parametrize(
    ("recipe", "guessed"),
    [
        ({"import": {"format": "azure", "sessions": "guessed"}}, True),
        ({"import": {"format": "azure", "sessions": "none"}}, False),
        ({"slice": {}, "of": [{"recipe": {"import": {"sessions": "guessed"}}}]}, True),
        ({"import": 5, "of": [5, {"recipe": 5}]}, False),
    ],
)
def test_a_run_of_guessed_sessions_has_a_doubt(recipe: dict[str, Any], guessed: bool, tmp_path: Path) -> None:
    run = clean()
    run.info["trace"]["recipe"] = recipe
    assert ("guessed sessions" in found(run, tmp_path)) == guessed
